// Package deploy holds configuration for running Braid in earnest: a broker of three nodes with a
// user for each kind of process (nats), and a unit that runs any of them (systemd). There is no
// code; its tests load the configuration into a real broker and let each user do its work.
package deploy
