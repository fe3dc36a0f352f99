package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"braid/schemas"
)

// Errors of [Slots].
var (
	// ErrStopped: no call starts any more.
	ErrStopped = errors.New("the toolrunner takes no more calls")
	// ErrRunning: that attempt of the call is running here already.
	ErrRunning = errors.New("the call is running already")
)

// CallKey names one attempt of a call.
type CallKey struct {
	Session    schemas.SessionRef
	ToolCallID string
	Attempt    int
}

// Key names the call.
func (c Call) Key() CallKey {
	return CallKey{Session: c.Session, ToolCallID: c.ToolCallID, Attempt: c.Attempt}
}

// sameCall reports whether both are attempts of one call.
func (k CallKey) sameCall(other CallKey) bool {
	return k.Session == other.Session && k.ToolCallID == other.ToolCallID
}

// Slots runs a bounded number of executions at once and finds them again by their call.
//
// It owns a goroutine for each call. End it with [Slots.Drain] or [Slots.Stop].
type Slots struct {
	free    chan struct{} // one token for each free slot
	stopped chan struct{}
	wg      sync.WaitGroup // the goroutines, until their tools have ended too

	mu struct {
		sync.Mutex
		closed  bool
		running map[CallKey]*running
		recent  recent
		strays  int // tools that did not end when they should have
	}
}

// running is a call in a slot.
type running struct {
	execution *Execution
	cancel    context.CancelCauseFunc
}

// NewSlots makes n slots, at least one.
func NewSlots(n int) *Slots {
	n = max(n, 1)
	s := &Slots{free: make(chan struct{}, n), stopped: make(chan struct{})}
	for range n {
		s.free <- struct{}{}
	}
	s.mu.running = make(map[CallKey]*running)
	return s
}

// Reserve waits for a free slot and takes it, for [Slots.Start] to use or [Slots.Release] to give
// back. It fails with [ErrStopped], or with the cause of ctx.
func (s *Slots) Reserve(ctx context.Context) error {
	select {
	case <-s.stopped:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
	}
	select {
	case <-s.free:
		return nil
	case <-s.stopped:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TryReserve takes a free slot like [Slots.Reserve], if there is one now.
func (s *Slots) TryReserve() bool {
	select {
	case <-s.free:
		return true
	default:
		return false
	}
}

// AwaitFree waits until a slot is free and returns how many are, without taking any. Its errors
// are those of [Slots.Reserve].
func (s *Slots) AwaitFree(ctx context.Context) (int, error) {
	if err := s.Reserve(ctx); err != nil {
		return 0, err
	}
	free := len(s.free) + 1
	s.Release()
	return free, nil
}

// Release gives a reserved slot back unused.
func (s *Slots) Release() { s.free <- struct{}{} }

// Start uses a reserved slot: it registers the execution, calls work in a goroutine and frees the
// slot when work returns. work runs the execution under the context it is given, which ends when
// the call is cancelled, and does what else belongs to the call before and after.
//
// Older attempts of the same call that still run here are cancelled. If Start fails the slot
// stays reserved.
func (s *Slots) Start(e *Execution, work func(ctx context.Context)) error {
	key := e.call.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return ErrStopped
	}
	if s.mu.running[key] != nil {
		return ErrRunning
	}
	for other, r := range s.mu.running {
		if other.sameCall(key) && other.Attempt < key.Attempt {
			r.cancel(fmt.Errorf("attempt %d has begun", key.Attempt))
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.mu.running[key] = &running{execution: e, cancel: cancel}
	s.wg.Go(func() { // Drain and Stop wait for it
		defer cancel(nil)
		s.occupy(ctx, e, work)
	})
	return nil
}

// occupy is the life of a slot's goroutine: the work, and after it a tool that would not stop.
func (s *Slots) occupy(ctx context.Context, e *Execution, work func(ctx context.Context)) {
	func() {
		defer s.Release()
		defer s.forget(e)
		work(ctx)
	}()
	if !e.begun.Load() {
		return
	}
	select {
	case <-e.ToolDone():
		return
	default:
	}
	s.addStrays(1)
	<-e.ToolDone()
	s.addStrays(-1)
}

// forget ends the time of a call in its slot. Its output stays for a while.
func (s *Slots) forget(e *Execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.running, e.call.Key())
	if e.begun.Load() {
		s.mu.recent.add(e.call.Key(), e)
	}
}

func (s *Slots) addStrays(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.strays += n
}

// Cancel aborts every attempt of a call that runs here, with a cause that its output names; nil
// names none. It reports whether there was one.
func (s *Slots) Cancel(session schemas.SessionRef, toolCallID string, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := CallKey{Session: session, ToolCallID: toolCallID}
	found := false
	for key, r := range s.mu.running {
		if key.sameCall(want) {
			r.cancel(cause)
			found = true
		}
	}
	return found
}

// Knows reports whether an attempt runs here or ended not long ago, so that [Slots.From] has its
// output. If not, its done record holds everything.
func (s *Slots) Knows(key CallKey) bool { return s.find(key) != nil }

// From returns the output of an attempt from a byte offset on; see [Execution.From] and
// [Slots.Knows].
func (s *Slots) From(key CallKey, offset int64) ([]schemas.ToolFragment, bool) {
	e := s.find(key)
	if e == nil {
		return nil, false
	}
	return e.From(offset), true
}

func (s *Slots) find(key CallKey) *Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.mu.running[key]; r != nil {
		return r.execution
	}
	return s.mu.recent.ended[key]
}

// Counts returns how many calls run, and how many tools go on after their call has ended.
func (s *Slots) Counts() (calls, strays int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.running), s.mu.strays
}

// Drain lets no further call start and waits for those that run. Its error, when ctx ends before,
// says what is still running.
func (s *Slots) Drain(ctx context.Context) error {
	s.close()
	return s.wait(ctx)
}

// Stop is [Slots.Drain] after aborting every running call with [ErrShutdown]. It waits also for tools
// that outlive their call; they can't be ended from here.
func (s *Slots) Stop(ctx context.Context) error {
	s.close()
	s.mu.Lock()
	for _, r := range s.mu.running {
		r.cancel(ErrShutdown)
	}
	s.mu.Unlock()
	return s.wait(ctx)
}

func (s *Slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closed {
		s.mu.closed = true
		close(s.stopped)
	}
}

// wait waits for every goroutine. The one it starts itself ends with the last of them.
func (s *Slots) wait(ctx context.Context) error {
	idle := make(chan struct{})
	go func() { // ends with the last tool, which may be after wait has given up
		defer close(idle)
		s.wg.Wait()
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		calls, strays := s.Counts()
		return fmt.Errorf("stop the slots: %d calls and %d tools without a call still run: %w", calls, strays, context.Cause(ctx))
	}
}
