package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// format is the version of the layout of keys and values. A store of another version is not
// converted: it is cheaper to rebuild it from the streams.
const format = "1"

// holderFile says who has the directory open. It informs people; the lock is Pebble's.
const holderFile = "HOLDER"

// Open opens the store in a directory, and makes it if there is none. One Store at a time may
// have a directory open; a process that was killed leaves nothing behind that would be in the
// way. A reset that was interrupted is completed first.
//
// Errors to decide on: [ErrInUse], [ErrFormat], [ErrNoSpace], [ErrDegraded]. None of them
// removes anything.
func Open(dir string, o Options) (*Store, error) {
	s := &Store{o: o.withDefaults(), closing: make(chan struct{})}
	s.fuse = newFuse(s.o.FS, s.degrade)
	if err := s.prepareDir(dir); err != nil {
		return nil, fmt.Errorf("open trace store %s: %w", dir, err)
	}
	if err := s.takeLock(); err != nil {
		return nil, err
	}
	err := s.openDB()
	if err == nil {
		if err = s.start(); err == nil {
			return s, nil
		}
		if !s.wedged.Load() {
			err = errors.Join(err, s.db.Close())
		}
	}
	if !s.wedged.Load() {
		err = errors.Join(err, s.lock.Close())
	}
	return nil, fmt.Errorf("open trace store %s: %w", s.dir, err)
}

// prepareDir makes the directory and looks at the free space around it.
func (s *Store) prepareDir(dir string) error {
	s.dir = dir
	if err := s.o.FS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if s.o.FS == vfs.Default {
		// The lock works by name within a process, so a directory must have one name.
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		if s.dir, err = filepath.EvalSymlinks(abs); err != nil {
			return err
		}
	}
	return s.checkSpace()
}

// checkSpace fails with ErrNoSpace when the disk is nearly full.
func (s *Store) checkSpace() error {
	usage, err := s.o.FS.GetDiskUsage(s.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at free space of %s: %w", s.dir, err)
	}
	if usage.AvailBytes < s.o.MinFreeBytes {
		return fmt.Errorf("%w: %s has %d bytes free, %d are needed", ErrNoSpace, s.dir, usage.AvailBytes, s.o.MinFreeBytes)
	}
	return nil
}

// takeLock makes the directory this store's own.
func (s *Store) takeLock() error {
	lock, err := pebble.LockDirectory(s.dir, s.o.FS)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("lock trace store %s: %w", s.dir, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is held by %s", ErrInUse, s.dir, s.holder())
	}
	s.lock = lock
	return nil
}

// holder is who wrote the holder file last.
func (s *Store) holder() string {
	const unknown = "another process"
	f, err := s.o.FS.Open(s.o.FS.PathJoin(s.dir, holderFile))
	if err != nil {
		return unknown
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, 100))
	if pid, e := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && e == nil {
		return "process " + strconv.Itoa(pid)
	}
	return unknown
}

// writeHolder records this process as the holder.
func (s *Store) writeHolder() error {
	f, err := s.fuse.Create(s.fuse.PathJoin(s.dir, holderFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(strconv.Itoa(os.Getpid()) + "\n"))
	return errors.Join(err, f.Close())
}

// openDB opens Pebble, which panics on some errors.
func (s *Store) openDB() (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.wedged.Store(true)
			s.degrade(fatalError("%v", r))
			err = s.Degraded()
		}
	}()
	if err := s.writeHolder(); err != nil {
		return err
	}
	s.db, err = pebble.Open(s.dir, s.pebbleOptions(s.lock))
	if err != nil && pebble.IsCorruptionError(err) {
		s.degrade(err)
	}
	if degraded := s.Degraded(); degraded != nil {
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
		return errors.Join(degraded, err)
	}
	return err
}

// start makes sure that the store is of this format and whole.
func (s *Store) start() error {
	if err := s.checkFormat(); err != nil {
		return err
	}
	if err := s.finishResets(); err != nil {
		return err
	}
	return s.Degraded()
}

func (s *Store) checkFormat() error {
	found, closer, err := s.db.Get(formatKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return s.initFormat()
	}
	if err != nil {
		return err
	}
	defer func() { _ = closer.Close() }() // never fails for a value that was read
	if string(found) != format {
		return fmt.Errorf("%w: it is version %.20q, this program reads version %q; "+
			"a new directory will be filled from the streams", ErrFormat, found, format)
	}
	return nil
}

// initFormat gives an empty store its format.
func (s *Store) initFormat() (err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if it.First() {
		return fmt.Errorf("%w: the directory holds another Pebble store", ErrFormat)
	}
	return s.db.Set(formatKey(), []byte(format), pebble.Sync)
}
