package systemtest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// disk mounts a file system of its own, of so many bytes, which only root may.
func disk(t *testing.T, dir string, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a full disk. Only root may mount a small one")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("NOT TESTED: a full disk. Mount a small one: %v", err)
	}
	t.Cleanup(func() {
		// Who has files there open still ends after this.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

// fill takes all room that a disk has left, as another program would, until the returned function
// is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	rand.Read(block)
	for len(block) > 0 {
		if _, err := f.Write(block); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			block = block[:len(block)/2]
		}
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}

// ballast is a session that takes all room the broker gives.
func (w *world) ballast() schemas.SessionRef {
	w.t.Helper()
	ref := schemas.SessionRef{Project: project, ID: "ballast"}
	ctx := w.t.Context() // how long it takes is up to the disk
	o, err := w.conn.Claim(ctx, ref, bus.ClaimRequest{Instance: "ballast"})
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.Repeat("x", 500<<10)
	for {
		// An append waits for room until its time is over.
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := o.Append(attempt, []schemas.Message{schemas.New(time.Now(), schemas.AssistantText(text))}, 0)
		cancel()
		switch {
		case errors.Is(err, bus.ErrStorageFull):
			return ref
		case errors.Is(err, context.DeadlineExceeded): // a slow broker; an owner whose append fails is spent
			o, err = w.conn.Claim(ctx, ref, bus.ClaimRequest{Instance: "ballast", After: w.claim(ref)})
		}
		if err != nil {
			w.t.Fatalf("fill the broker: %v", err)
		}
	}
}

// stuck lets the model go on while nothing can be stored, and waits until the session's owner tells that it
// tries in vain to store what the model said.
func (s *session) stuck() {
	s.t.Helper()
	owner, _ := s.w.owner(s.ref)
	s.w.held.release()
	s.w.held.awaitSaid(s.t)
	owner.awaitLog("the broker does not store a frame")
}

// untouched wants that no command of the session has run.
func (s *session) untouched() {
	s.t.Helper()
	if got := s.lines("effects"); len(got) > 0 {
		s.t.Errorf("effects while nothing can be stored: %q", got)
	}
}

// refused wants that a command is answered, soon enough, that it can't be taken now, for one of these
// reasons.
func (s *session) refused(prompt, key string, reasons ...schemas.Code) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := s.w.api.once(ctx, http.MethodPost, s.path("tasks"), key, map[string]any{"prompt": prompt})
	given := func(reason schemas.Code) bool { return strings.Contains(string(r.body), `"`+string(reason)+`"`) }
	if err != nil || r.status != http.StatusServiceUnavailable || !slices.ContainsFunc(reasons, given) {
		s.t.Errorf("a task while the broker is full: %d %s, %v", r.status, r.body, err)
	}
	s.t.Logf("a task while the broker is full: %d %s", r.status, r.body)
}

// The broker's store is full, by what it holds itself. Commands are refused, a call that was not
// recorded before does not start, and all goes on when there is room.
func TestCase_B18_BrokerFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1, store: "64m", held: true})
	idle := w.newSession(t, "quick", schemas.ApproveAll)
	busy := w.sessionOf(t, "held/call", schemas.ApproveAll)
	busy.task("go")
	busy.deltas(1)
	ballast := w.ballast()
	busy.stuck()
	idle.refused("are you there?", "while-full", schemas.CodeStorageFull)
	busy.untouched()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.conn.DeleteSession(ctx, ballast, "test"); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	busy.ends(schemas.StopCompleted)
	t.Logf("from when there is room to the end of the task: %s", time.Since(at).Round(time.Millisecond))
	busy.wantEffects("began")
	idle.tasks++
	w.api.post(idle.path("tasks"), "while-full", map[string]any{"prompt": "are you there?"}).accepted(t)
	idle.ends(schemas.StopCompleted)
	idle.verify()
	busy.verify()
}

// The broker's disk is full, by somebody else. A stream that could not be written takes nothing more
// until the broker is started again: it is, when there is room, and everything goes on.
func TestCase_B18_DiskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1, store: "64m", held: true})
	idle := w.newSession(t, "quick", schemas.ApproveAll)
	busy := w.sessionOf(t, "held/call", schemas.ApproveAll)
	busy.task("go")
	busy.deltas(1)
	long := strings.Repeat("are you there? ", 10_000) // what is short fits in what is allocated
	free := fill(t, w.broker.StoreDir(0))
	busy.stuck()
	// A stream that could not be written says nothing more, so that what is wrong is not known.
	idle.refused(long, "while-full", schemas.CodeStorageFull, schemas.CodeUnavailable)
	busy.untouched()
	free()
	w.broker.Stop(0)
	w.broker.Start(t, 0)
	busy.ends(schemas.StopCompleted)
	busy.wantEffects("began")
	idle.tasks++
	w.api.post(idle.path("tasks"), "while-full", map[string]any{"prompt": long}).accepted(t)
	idle.ends(schemas.StopCompleted)
	idle.verify()
	busy.verify()
}

// The disk of an engine's trace is full. Sessions do not need the trace: they go on, and the trace
// has everything once there is room and the engine is started again.
func TestCase_E02_TraceDiskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 1, toolrunners: 1, traces: "256m"})
	s := w.newSession(t, "work", schemas.ApproveAll)
	s.task("go")
	s.awaitEffects(1)
	free := fill(t, w.dataDir("engine-0"))
	s.allow("go")
	s.ends(schemas.StopCompleted)
	s.wantEffects("began")
	quick := w.newSession(t, "quick", schemas.ApproveAll)
	for range 5 {
		quick.task("are you there?")
		quick.ends(schemas.StopCompleted)
	}
	free()
	w.engines[0].terminate()
	w.restart(w.engines[0])
	s.verify()
	quick.verify()
}
