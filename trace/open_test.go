package trace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"braid/schemas"
)

func TestOpenRefusesAnotherFormat(t *testing.T) {
	for _, test := range []struct{ name, key, value string }{
		{"a later version", string(formatKey()), "2"},
		{"somebody else's store", "hello", "world"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fs := vfs.NewMem()
			db, err := pebble.Open("trace", &pebble.Options{FS: fs, Logger: quiet{}, FormatMajorVersion: pebble.FormatWALSyncChunks})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Set([]byte(test.key), []byte(test.value), pebble.Sync), db.Close()); err != nil {
				t.Fatal(err)
			}
			for range 2 { // refusing leaves it as it was, and unlocked
				if _, err := Open("trace", Options{FS: fs}); !errors.Is(err, ErrFormat) {
					t.Errorf("open: %v", err)
				}
			}
		})
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func TestOpenReportsWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("a file in place of the directory: %v", err)
	}
}

func TestDamagedStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(applyBatch(s, randomStream(8, 200)), s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, name := range manifests {
		if err := os.WriteFile(name, []byte("this is no manifest, and long enough to be read as one"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := Open(dir, Options{}); err == nil || errors.Is(err, ErrInUse) {
			t.Errorf("open: %v", err)
		}
	}
}

func TestInterruptedResetIsCompleted(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	stream := randomStream(9, 100)
	other := Frame{Shard: 1, Epoch: epoch, Session: ann, Sequence: 1, Fence: 1, N: 1, Time: noon}
	if err := errors.Join(
		applyBatch(s, stream),
		s.Apply(context.Background(), 1, []Frame{other}, Mark{Epoch: epoch, Sequence: 1}),
		// The process ends after the first batch of a reset.
		s.update(func(w *writer) error {
			return errors.Join(w.batch.Delete(shardKey(spaceMark, 0), nil), w.batch.Set(shardKey(spaceReset, 0), nil, nil))
		}),
		s.Close(),
	); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{FS: fs})
	page, err := s.Sessions(context.Background(), "p", Filter{}, Paging{})
	if err != nil || len(page.Sessions) != 1 || page.Sessions[0].Session != ann {
		t.Errorf("sessions: %+v, %v", page, err)
	}
	if _, found, err := s.Applied(0); found || err != nil {
		t.Errorf("mark: %v, %v", found, err)
	}
	if _, found, err := s.Applied(1); !found || err != nil {
		t.Errorf("the other shard's mark: %v, %v", found, err)
	}
}

func TestResetOfManySessions(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	var frames []Frame
	for i := range resetBatch + 10 { // more than one batch
		ref := schemas.SessionRef{Project: "p", ID: string(rune('a'+i%26)) + string(rune('a'+i/26))}
		frames = append(frames, b.frame(ref, meta("m"), tokens(1, 1), requestEnd(schemas.StopFailed)))
	}
	apply(t, s, b, frames...)
	if err := s.Reset(0); err != nil {
		t.Fatal(err)
	}
	if left := dump(t, s); len(left) != 1 {
		t.Errorf("%d keys are left", len(left))
	}
}

// Pebble panics when it can't go on, with locks held: the store must neither pass that on nor
// wait for those locks.
func TestPanicOfPebbleDegradesTheStore(t *testing.T) {
	s := open(t, Options{})
	twice := s.db.NewBatch() // committing twice is one reason to panic
	if err := errors.Join(twice.Set([]byte("k"), nil, nil), twice.Commit(pebble.NoSync)); err != nil {
		t.Fatal(err)
	}
	err := s.commit(twice)
	if !errors.Is(err, ErrDegraded) {
		t.Errorf("commit: %v", err)
	}
	if _, _, err := s.Head(bob); !errors.Is(err, ErrDegraded) {
		t.Errorf("head: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrDegraded) {
		t.Errorf("close: %v", err)
	}
	if err := errors.Join(twice.Close(), s.db.Close(), s.lock.Close()); err != nil { // this panic left no lock held
		t.Error(err)
	}
}

func TestFatalErrorDoesNotEndTheProcess(t *testing.T) {
	s := open(t, Options{})
	pebbleLogger{s}.Fatalf("commit of %d failed", 7)
	if err := s.Degraded(); !errors.Is(err, ErrDegraded) {
		t.Errorf("degraded: %v", err)
	}
	if err := s.Apply(context.Background(), 0, nil, Mark{}); !errors.Is(err, ErrDegraded) {
		t.Errorf("apply: %v", err)
	}
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, prompt("one"), prompt("two")))
	var wg sync.WaitGroup
	err := s.scan(context.Background(), []byte{0}, []byte{0xff}, func(_, _ []byte) error {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		<-s.closing
		return nil
	})
	if !errors.Is(err, ErrClosed) {
		t.Errorf("ended by %v", err)
	}
	wg.Wait()
}

// Close may come at any moment: calls under way end, and nothing panics or leaks.
func TestCloseInTheMiddle(t *testing.T) {
	for range 6 {
		fs := vfs.NewMem()
		s := open(t, Options{FS: fs, MemTableBytes: smallTables})
		stream := randomStream(10, 300)
		var wg sync.WaitGroup
		work := func(call func() error) {
			wg.Go(func() {
				var err error
				for err == nil {
					err = call()
				}
				if !errors.Is(err, ErrClosed) {
					t.Errorf("ended by %v", err)
				}
			})
		}
		started := make(chan struct{})
		var once sync.Once
		rest := batches(stream, 3)
		work(func() error {
			once.Do(func() { close(started) })
			if len(rest) == 0 {
				return applyBatch(s, stream[:1])
			}
			batch := rest[0]
			rest = rest[1:]
			return applyBatch(s, batch)
		})
		for range 2 {
			work(func() error { _, err := found(s); return err })
		}
		<-started
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		reopen(t, fs, stream)
	}
}
