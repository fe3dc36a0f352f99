package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestHidden(t *testing.T) {
	if err := hideEnvironment(); err != nil {
		t.Fatal(err)
	}
	if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || got != 0 {
		t.Errorf("dumpable %d, %v", got, err)
	}
}
