//go:build unix && !linux

package main

// hideEnvironment has nothing to do: there is no /proc that shows one process's environment to
// another in the same way.
func hideEnvironment() error { return nil }
