//go:build !linux

package systemtest

import "testing"

// disk would give a directory a small file system of its own.
func disk(t *testing.T, _, _ string) {
	t.Helper()
	t.Skip("NOT TESTED: a full disk. Small ones are mounted on Linux only")
}
