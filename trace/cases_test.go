package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// Failures from the field that touch a trace store, one test each.

// C20: who reads "the task is over" and then the messages must find the end among them.
func TestCase_C20_StateNeverRunsAheadOfMessages(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	ctx := context.Background()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for range 200 {
			apply(t, s, b, b.frame(bob, prompt("x"), schemas.AssistantText("y")))
			apply(t, s, b, b.frame(bob, taskEnd(schemas.StopCompleted)))
		}
	})
	defer wg.Wait()
	for running := true; running; {
		select {
		case <-done:
			running = false // look once more
		default:
		}
		info, found, err := s.Session(bob)
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			continue
		}
		ends, reached := int64(0), false
		err = each(ctx, s, bob, func(e schemas.Entry) error {
			if e.Position.Compare(info.Last) <= 0 && e.Message.Kind() == schemas.KindTaskEnd {
				ends++
			}
			reached = reached || e.Position == info.Last
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if ends != info.Tasks || !reached || (info.State == StateIdle) != (info.Last.Line == 0 && ends > 0) {
			t.Fatalf("session says %d tasks, %s, last %s; messages say %d, reached %v", info.Tasks, info.State, info.Last, ends, reached)
		}
	}
}

// C25: history and the live tail fit together: a page's head is of the same moment as its
// messages, so the tail from there on repeats and misses nothing.
func TestCase_C25_HistoryAndTailMakeTheWhole(t *testing.T) {
	stream := randomStream(4, 200)
	s := open(t, Options{})
	ref := stream[0].Session
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for _, batch := range batches(stream, 3) {
			if err := applyBatch(s, batch); err != nil {
				t.Error(err)
			}
		}
	})
	defer wg.Wait()
	want := expected(stream, stream[len(stream)-1].Sequence).Sessions[ref.ID].Messages
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		page, err := s.Messages(context.Background(), ref, schemas.Position{}, Limit{Messages: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.Entries {
			got = append(got, e.Position.String()+" "+describe(e.Message))
		}
		history := expected(stream, page.Head.Sequence).Sessions[ref.ID].Messages
		if page.Head == (Head{}) {
			history = nil
		}
		if diff := cmp.Diff(history, got); diff != "" {
			t.Fatalf("history up to %d (-want +got):\n%s", page.Head.Sequence, diff)
		}
		if !running && cmp.Diff(want, got) != "" {
			t.Fatal("the end of the history is not the end of the stream")
		}
	}
}

// D32: many writers of large records, and a crash in the middle: records are whole or absent,
// and what is written afterwards is not harmed.
func TestCase_D32_LargeRecordsAreNeverTorn(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, Options{FS: fs})
	text := strings.Repeat("0123456789abcdef", 1<<20/16)
	write := func(s *Store, shard, round int) error {
		ref := schemas.SessionRef{Project: "p", ID: fmt.Sprint("s", shard)}
		at := uint64(round + 1)
		f := Frame{
			Shard: shard, Epoch: epoch, Session: ref, Sequence: at, Fence: 1, N: at, Time: noon,
			Entries: []schemas.Entry{{Position: schemas.Position{Sequence: at}, Message: schemas.New(noon, prompt(text))}},
		}
		return s.Apply(context.Background(), shard, []Frame{f}, Mark{Epoch: epoch, Sequence: at})
	}
	var crashed *vfs.MemFS
	var wg sync.WaitGroup
	for shard := range 8 {
		wg.Go(func() {
			for round := range 2 {
				if err := write(s, shard, round); err != nil {
					t.Error(err)
				}
				if shard == 0 && round == 0 {
					crashed = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 1))})
				}
			}
		})
	}
	wg.Wait()
	s, err := Open("trace", Options{FS: crashed})
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 8 {
		mark, _, err := s.Applied(shard)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(s, shard, int(mark.Sequence)); err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		err = each(context.Background(), s, schemas.SessionRef{Project: "p", ID: fmt.Sprint("s", shard)}, func(e schemas.Entry) error {
			if n++; e.Message.Payload.(*schemas.Text).Text != text {
				t.Errorf("shard %d: message %d is damaged", shard, n)
			}
			return nil
		})
		if err != nil || n != mark.Sequence+1 {
			t.Errorf("shard %d: %d messages, %d marked before the last: %v", shard, n, mark.Sequence, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// E01: however reading ends, no iterator stays open, and closing the store says so.
func TestCase_E01_NoIteratorIsLeftOpen(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	for range 10 {
		apply(t, s, b, b.frame(bob, meta("m"), prompt(strings.Repeat("x", 300<<10)), requestEnd(schemas.StopFailed), tokens(1, 1)))
	}
	if err := s.db.Flush(); err != nil { // iterators over tables are counted
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	stop := errors.New("stop")
	for _, read := range []struct {
		name string
		run  func() error
		want error
	}{
		{"the client disconnects in the middle of an export", func() error {
			return s.Export(context.Background(), bob, &brokenPipe{after: 1 << 20})
		}, io.ErrClosedPipe},
		{"the request is cancelled in the middle", func() error {
			return each(gone, s, bob, func(schemas.Entry) error { cancel(); return nil })
		}, context.Canceled},
		{"the reader has enough", func() error {
			return each(context.Background(), s, bob, func(schemas.Entry) error { return stop })
		}, stop},
		{"a page is cut", func() error {
			_, err := s.Messages(context.Background(), bob, schemas.Position{}, Limit{Messages: 1})
			return err
		}, nil},
		{"a listing is cut", func() error {
			_, err := s.Failures(context.Background(), "p", FailureFilter{}, Paging{Limit: 1})
			return err
		}, nil},
		{"a listing is cancelled", func() error {
			_, err := s.Usage(gone, "p", 0, DayOf(noon))
			return err
		}, context.Canceled},
	} {
		if err := read.run(); !errors.Is(err, read.want) {
			t.Errorf("%s: %v", read.name, err)
		}
		if n := s.db.Metrics().TableIters; n != 0 {
			t.Errorf("%s: %d iterators are open", read.name, n)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	checkClosed(t, s)
}

// checkClosed uses every method of a closed store.
func checkClosed(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"Apply":    func() error { return s.Apply(ctx, 0, nil, Mark{}) },
		"Applied":  func() error { _, _, err := s.Applied(0); return err },
		"Reset":    func() error { return s.Reset(0) },
		"Head":     func() error { _, _, err := s.Head(bob); return err },
		"Messages": func() error { _, err := s.Messages(ctx, bob, schemas.Position{}, Limit{}); return err },
		"Load":     func() error { _, err := s.Load(ctx, bob, nil); return err },
		"Session":  func() error { _, _, err := s.Session(bob); return err },
		"Sessions": func() error { _, err := s.Sessions(ctx, "p", Filter{}, Paging{}); return err },
		"Outcome":  func() error { _, _, err := s.Outcome(bob, "x"); return err },
		"Usage":    func() error { _, err := s.Usage(ctx, "p", 0, 1); return err },
		"Failures": func() error { _, err := s.Failures(ctx, "p", FailureFilter{}, Paging{}); return err },
		"Call":     func() error { _, _, err := s.Call(bob, "x"); return err },
		"Export":   func() error { return s.Export(ctx, bob, nil) },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed store: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// brokenPipe fails once so many bytes were written.
type brokenPipe struct{ after int }

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.after -= len(b); p.after < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// E02: a disk that fills up degrades the store; the process stays, and so does what was stored.
func TestCase_E02_FullDiskDegradesTheStore(t *testing.T) {
	disk := vfs.NewMem()
	left := 1 << 20
	var mu sync.Mutex
	full := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == errorfs.OpFileWrite {
			left -= 1 << 10
		}
		if left < 0 && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
			return errors.New("no space left on device")
		}
		return nil
	}))
	s, err := Open("trace", Options{FS: full, MemTableBytes: smallTables})
	if err != nil {
		t.Fatal(err)
	}
	stream := fillUntilDegraded(t, s)
	if err := s.Close(); !errors.Is(err, ErrDegraded) {
		t.Errorf("close: %v", err)
	}
	reopen(t, disk, stream)
}

// fillUntilDegraded applies frames until the store degrades, and checks how it then behaves.
func fillUntilDegraded(t *testing.T, s *Store) (stream []Frame) {
	t.Helper()
	b := newScript()
	var err error
	for err == nil {
		if len(stream) > 10_000 {
			t.Fatal("the disk never got full")
		}
		stream = append(stream, b.frame(bob, prompt(strings.Repeat("x", 20<<10))))
		err = applyBatch(s, stream[len(stream)-1:])
	}
	for what, err := range map[string]error{
		"the failed call": err,
		"Degraded":        s.Degraded(),
		"the next call":   applyBatch(s, stream[len(stream)-1:]),
		"reading":         each(context.Background(), s, bob, nil),
	} {
		if !errors.Is(err, ErrDegraded) || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("%s: %v", what, err)
		}
	}
	return stream
}

func TestCase_E02_TooLittleSpaceIsSeenBefore(t *testing.T) {
	fs := vfs.NewMem()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1000})
	if _, err := Open("trace", Options{FS: fs}); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "trace") {
		t.Errorf("open: %v", err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
	s, b := open(t, Options{FS: fs, MinFreeBytes: 64 << 10}), newScript()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1000})
	big := prompt(strings.Repeat("x", 32<<10))
	var err error
	for n := 0; err == nil && n < 10; n++ {
		err = s.Apply(context.Background(), 0, []Frame{b.frame(bob, big)}, b.mark())
	}
	if !errors.Is(err, ErrNoSpace) || s.Degraded() != nil {
		t.Errorf("writing with too little space: %v, degraded: %v", err, s.Degraded())
	}
	if _, found, err := s.Session(bob); !found || err != nil {
		t.Errorf("reading with too little space: %v, %v", found, err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
	apply(t, s, b, b.frame(bob, big))
}

// E04: a directory has one user; nobody's lock is taken away; a killed process leaves none.
func TestCase_E04_SecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	child := startChild(t, dir)
	before := list(t, dir)
	_, err := Open(dir, Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", child.Process.Pid)) {
		t.Errorf("second process: %v", err)
	}
	after := list(t, dir)
	if !after["LOCK"] || !after[holderFile] {
		t.Errorf("before: %v, after: %v", before, after)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	mark := reopenDir(t, dir, randomStream(3, 5000))
	if mark.Sequence == 0 {
		t.Error("nothing is left")
	}
}

func TestCase_E04_SecondStoreOfTheProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, link, dir + "/."} {
		if _, err := Open(name, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reopenDir(t, dir, nil)
}

// reopenDir is reopen for a directory of the operating system.
func reopenDir(t *testing.T, dir string, stream []Frame) Mark {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mark, err := check(s, stream)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return mark
}

func list(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// E05: deleted sessions give their space back, also while somebody reads slowly.
func TestCase_E05_DeletedSessionsFreeTheirSpace(t *testing.T) {
	s, b := open(t, Options{MemTableBytes: 256 << 10}), newScript()
	rng := rand.New(rand.NewPCG(5, 5))
	noise := make([]byte, 8<<10)
	fill := func(ref schemas.SessionRef) {
		for range 64 {
			for i := range noise { // does not compress
				noise[i] = byte('0' + rng.IntN(64))
			}
			apply(t, s, b, b.frame(ref, prompt(string(noise))))
		}
	}
	fill(bob)
	first := true
	err := each(context.Background(), s, bob, func(schemas.Entry) error {
		if !first {
			return nil
		}
		first = false // a reader that takes its time, while 10 MB come and go
		for range 20 {
			fill(ann)
			apply(t, s, b, b.tombstone(ann))
		}
		if err := errors.Join(s.db.Flush(), s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false)); err != nil {
			return err
		}
		m := s.db.Metrics()
		for late := time.After(2 * time.Minute); m.DiskSpaceUsage() > 4<<20; m = s.db.Metrics() {
			select { // files that nobody needs are removed in the background
			case <-time.After(10 * time.Millisecond):
			case <-late:
				t.Errorf("%d bytes stay on disk for 512 KiB of messages", m.DiskSpaceUsage())
				return nil
			}
		}
		if m.TableIters != 0 {
			t.Errorf("%d iterators are open", m.TableIters)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// E06: what a killed process left half-made does no harm.
func TestCase_E06_TemporaryFilesAreIgnored(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	stream := randomStream(6, 50)
	if err := errors.Join(applyBatch(s, stream), s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"CURRENT.000015.dbtmp", "000099.dbtmp", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if mark := reopenDir(t, dir, stream); mark.Sequence != stream[len(stream)-1].Sequence {
		t.Errorf("found %d applied", mark.Sequence)
	}
}
