// Package deploytest starts brokers with the configuration that is deployed, for tests that need its
// users and what they may do. Everything started is stopped at the end of the test.
package deploytest

import (
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"braid/bus"
)

// Password is that of every user.
const Password = "only-for-tests"

// startWait is how long a broker may take to start, and a connection to it: a loaded machine is slow.
const startWait = time.Minute

// Options parses the configuration at path, nats/node.conf of package deploy, as the server does: it is
// node n1 of a cluster with n2 and n3.
func Options(t *testing.T, path string) *natsserver.Options {
	t.Helper()
	for name, value := range map[string]string{
		"NODE": "n1", "STORE": t.TempDir(), "ROUTES": "[nats://routes:x@n2:6222, nats://routes:x@n3:6222]", "ROUTES_PASSWORD": Password,
		"ENGINE_PASSWORD": Password, "TOOLRUNNER_PASSWORD": Password, "GATEWAY_PASSWORD": Password, "WATCHER_PASSWORD": Password,
	} {
		t.Setenv(name, value)
	}
	o, err := natsserver.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("parse the configuration: %v", err)
	}
	return o
}

// Start starts one node with the configuration's users, on a free loopback port and outside of a cluster.
func Start(t *testing.T, path string) *natsserver.Server {
	t.Helper()
	o := Options(t, path)
	o.Host, o.Port, o.HTTPPort = "127.0.0.1", natsserver.RANDOM_PORT, 0
	o.Cluster, o.Routes = natsserver.ClusterOpts{}, nil
	o.NoLog, o.NoSigs = true, true
	s, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(startWait) {
		t.Fatal("the broker is not ready")
	}
	return s
}

// Connect opens a connection with the rights of a user: engine, toolrunner, gateway or watcher.
func Connect(t *testing.T, broker *natsserver.Server, user string) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.Options{URL: broker.ClientURL(), User: user, Password: Password, ConnectWait: startWait})
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(c.Close)
	return c
}
