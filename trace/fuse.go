package trace

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fuse is a file system that ends at its first failed write.
//
// Pebble can't survive a write that fails: it exits through its logger, panics, or dies on an
// unlocked mutex while panicking (a log that can't be closed or created), and it retries failed
// flushes for ever. So it never gets to see one. When a write, sync, creation, rename or removal
// fails, the fuse blows: the error is kept and reported, and from then on every change succeeds
// without being made. The files stay as a power cut at that moment would have left them, which
// is what Pebble's recovery is built for, and the open store is only good for being closed.
//
// A change that was under way elsewhere when the fuse blew may still be made. That is no
// different from one made just before, since what depends on the failed one comes later.
type fuse struct {
	vfs.FS
	failure atomic.Pointer[error]
	// onBlow is called with every failure, before any change is left out because of it: whoever
	// relies on a change can tell afterwards whether it was made.
	onBlow func(error)
}

func newFuse(fs vfs.FS, onBlow func(error)) *fuse { return &fuse{FS: fs, onBlow: onBlow} }

// blown is the error the fuse blew on, nil while it is whole.
func (f *fuse) blown() error {
	if e := f.failure.Load(); e != nil {
		return *e
	}
	return nil
}

func (f *fuse) blow(err error) {
	f.onBlow(err)
	f.failure.CompareAndSwap(nil, &err)
}

// do makes a change, or pretends to.
func (f *fuse) do(change func() error) error {
	if f.blown() != nil {
		return nil //nolint:nilerr // reported when it blew
	}
	if err := change(); err != nil {
		f.blow(err)
	}
	return nil
}

// file makes a change that opens a file for writing, or pretends to.
func (f *fuse) file(open func() (vfs.File, error)) (vfs.File, error) {
	if f.blown() != nil {
		return nullFile{}, nil //nolint:nilerr // reported when it blew
	}
	file, err := open()
	if err != nil {
		f.blow(err)
		return nullFile{}, nil
	}
	return &fuseFile{File: file, fuse: f}, nil
}

func (f *fuse) Unwrap() vfs.FS { return f.FS }

func (f *fuse) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *fuse) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
}

func (f *fuse) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenDir opens a directory for syncing, which is a write.
func (f *fuse) OpenDir(name string) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

func (f *fuse) Link(oldname, newname string) error {
	return f.do(func() error { return f.FS.Link(oldname, newname) })
}

func (f *fuse) Rename(oldname, newname string) error {
	return f.do(func() error { return f.FS.Rename(oldname, newname) })
}

// Remove passes on that there is no such file: Pebble expects that answer.
func (f *fuse) Remove(name string) error {
	if f.blown() != nil {
		return nil //nolint:nilerr // reported when it blew
	}
	err := f.FS.Remove(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.blow(err)
		return nil
	}
	return err
}

func (f *fuse) RemoveAll(name string) error {
	return f.do(func() error { return f.FS.RemoveAll(name) })
}

func (f *fuse) MkdirAll(dir string, perm os.FileMode) error {
	return f.do(func() error { return f.FS.MkdirAll(dir, perm) })
}

// fuseFile is a file that was opened for writing.
type fuseFile struct {
	vfs.File
	fuse *fuse
}

func (f *fuseFile) Write(p []byte) (int, error) {
	return len(p), f.fuse.do(func() error { _, err := f.File.Write(p); return err })
}

func (f *fuseFile) WriteAt(p []byte, off int64) (int, error) {
	return len(p), f.fuse.do(func() error { _, err := f.File.WriteAt(p, off); return err })
}

func (f *fuseFile) Preallocate(off, n int64) error {
	return f.fuse.do(func() error { return f.File.Preallocate(off, n) })
}

func (f *fuseFile) Sync() error { return f.fuse.do(f.File.Sync) }

func (f *fuseFile) SyncData() error { return f.fuse.do(f.File.SyncData) }

func (f *fuseFile) SyncTo(length int64) (fullSync bool, err error) {
	err = f.fuse.do(func() (e error) { fullSync, e = f.File.SyncTo(length); return e })
	return fullSync, err
}

// Stat reports no failure either: Pebble asks in the middle of changing logs.
func (f *fuseFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.fuse.blow(err)
		return nullInfo{}, nil
	}
	return info, nil
}

// Close always closes, since descriptors must not leak; it still reports no failure.
func (f *fuseFile) Close() error {
	if err := f.File.Close(); err != nil && f.fuse.blown() == nil {
		f.fuse.blow(err)
	}
	return nil
}

// nullFile stands for a file that could not be opened for writing, or not any more.
type nullFile struct{}

func (nullFile) Close() error                           { return nil }
func (nullFile) Read([]byte) (int, error)               { return 0, io.EOF }
func (nullFile) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (nullFile) Write(p []byte) (int, error)            { return len(p), nil }
func (nullFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nullFile) Preallocate(int64, int64) error         { return nil }
func (nullFile) Stat() (vfs.FileInfo, error)            { return nullInfo{}, nil }
func (nullFile) Sync() error                            { return nil }
func (nullFile) SyncTo(int64) (bool, error)             { return false, nil }
func (nullFile) SyncData() error                        { return nil }
func (nullFile) Prefetch(int64, int64) error            { return nil }
func (nullFile) Fd() uintptr                            { return vfs.InvalidFd }

// nullInfo describes a nullFile: empty.
type nullInfo struct{}

func (nullInfo) Name() string           { return "" }
func (nullInfo) Size() int64            { return 0 }
func (nullInfo) Mode() os.FileMode      { return 0 }
func (nullInfo) ModTime() time.Time     { return time.Time{} }
func (nullInfo) IsDir() bool            { return false }
func (nullInfo) Sys() any               { return nil }
func (nullInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
