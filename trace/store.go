package trace

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// deleteFlushDelay is how long deleted data may keep its space.
const deleteFlushDelay = 10 * time.Second

// Store is a trace on one disk. The zero value is not usable; see [Open].
type Store struct {
	dir  string
	o    Options
	db   *pebble.DB
	fuse *fuse
	lock *pebble.Lock

	failure atomic.Pointer[error]
	// wedged is set when Pebble panicked: it may hold its locks and can't even be closed.
	wedged atomic.Bool

	// write is held by whoever builds and commits a batch: batches read what they change.
	write sync.Mutex
	// unchecked counts the bytes written since the free space was looked at; guarded by write.
	unchecked uint64

	life struct {
		sync.Mutex
		closed bool
		users  sync.WaitGroup // calls under way; grows only while not closed
	}
	closing chan struct{} // closed when Close begins
}

// begin admits a call; the caller must end() it. It fails when the store is closed or degraded.
func (s *Store) begin() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.life.closed {
		return ErrClosed
	}
	if err := s.Degraded(); err != nil {
		return err
	}
	s.life.users.Add(1)
	return nil
}

func (s *Store) end() { s.life.users.Done() }

// Close ends the store: reads under way stop with [ErrClosed], later calls get it, and a write
// under way is completed. It does not wait for the callbacks of [Store.Load] and [Store.Export], which
// run while nothing is open. Closing again does nothing.
//
// The error of closing a degraded store is an [ErrDegraded]. In the rare case that Pebble itself
// gave up, its goroutines and the lock on the directory stay until the process ends.
func (s *Store) Close() error {
	s.life.Lock()
	again := s.life.closed
	s.life.closed = true
	s.life.Unlock()
	if again {
		return nil
	}
	close(s.closing)
	s.life.users.Wait()
	if s.wedged.Load() {
		return s.Degraded()
	}
	err := s.closeDB()
	if degraded := s.Degraded(); degraded != nil {
		return degraded
	}
	if err != nil {
		return fmt.Errorf("close trace store %s: %w", s.dir, err)
	}
	return nil
}

func (s *Store) closeDB() (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.wedged.Store(true)
			s.degrade(fatalError("%v", r))
		}
	}()
	return errors.Join(s.db.Close(), s.lock.Close())
}

// Degraded is nil while the store works, else an [ErrDegraded] that says what failed. A store
// stays degraded.
func (s *Store) Degraded() error {
	if e := s.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// degrade puts the store out of use. It may be called from within Pebble, with its locks held.
func (s *Store) degrade(cause error) {
	err := fmt.Errorf("%w: %s: %w", ErrDegraded, s.dir, cause)
	if s.failure.CompareAndSwap(nil, &err) {
		s.o.Logger.Error().Err(cause).Str("dir", s.dir).
			Msg("trace store is degraded; sessions go on without it")
	}
}

// explain says what was being done when an error happened. Damaged data degrades the store, and
// whatever goes wrong in a degraded store is due to that.
func (s *Store) explain(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if pebble.IsCorruptionError(err) || errors.Is(err, errKey) {
		s.degrade(err)
	}
	if degraded := s.Degraded(); degraded != nil {
		return degraded
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func fatalError(format string, args ...any) error {
	return fmt.Errorf("pebble gave up: "+format, args...)
}
