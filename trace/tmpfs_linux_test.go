package trace

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// noUsage is a file system that can't tell how full it is, so that it is filled to the end.
type noUsage struct{ vfs.FS }

func (noUsage) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// E02 on a real full disk; only root may mount one.
func TestCase_E02_FullTmpfs(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("8 MB by default settings: %v", err)
	}
	s, err := Open(dir, Options{FS: noUsage{vfs.Default}, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	fillUntilDegraded(t, s)
	if err := s.Close(); !errors.Is(err, ErrDegraded) {
		t.Errorf("close: %v", err)
	}
}
