package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// feed is a bounded core subscription to a session's feed, or to part of a project's. Messages that do not
// fit are dropped. That is a disturbance, as a reconnect is: anything may have been missed.
type feed struct {
	messages    chan *nats.Msg // unbuffered: what waits, waits in the subscription
	disturbance chan struct{}
	done        chan struct{}

	sub      *nats.Subscription
	stopHook func()
	closed   sync.Once
	gone     chan struct{} // the subscription's goroutine has ended

	dropped int  // messages dropped so far, as last seen
	dirty   bool // a disturbance was seen and not dealt with
}

// openFeed subscribes and waits until the broker knows.
func (c *Conn) openFeed(ctx context.Context, subject string, o FollowOptions) (*feed, error) {
	f := &feed{
		messages: make(chan *nats.Msg), disturbance: make(chan struct{}, 1),
		done: make(chan struct{}), gone: make(chan struct{}),
	}
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		select {
		case f.messages <- m:
		case <-f.done:
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	f.sub = sub
	sub.SetClosedHandler(func(string) { close(f.gone) })
	if !sub.IsValid() {
		return nil, fmt.Errorf("subscribe: %w", nats.ErrConnectionClosed)
	}
	f.stopHook = c.onReconnect(f.signal)
	if err := sub.SetPendingLimits(o.PendingMessages, o.PendingBytes); err != nil {
		f.close()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if err := c.flush(ctx); err != nil {
		f.close()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return f, nil
}

// close unsubscribes and waits for the subscription's goroutine.
func (f *feed) close() {
	f.closed.Do(func() {
		f.stopHook()
		close(f.done)
		if err := f.sub.Unsubscribe(); err != nil {
			return // the connection is closed, and the goroutine with it
		}
	})
	<-f.gone
}

func (f *feed) isClosed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// signal notes a disturbance; any goroutine may.
func (f *feed) signal() {
	select {
	case f.disturbance <- struct{}{}:
	default:
	}
}

// disturb notes a disturbance from the reader's own goroutine.
func (f *feed) disturb() { f.dirty = true }

// calm says that the reader deals with all disturbances up to now.
func (f *feed) calm() { f.dirty = false }

// disturbed reports whether frames may have been lost.
func (f *feed) disturbed() bool {
	select {
	case <-f.disturbance:
		f.dirty = true
	default:
	}
	if dropped, err := f.sub.Dropped(); err == nil && dropped != f.dropped {
		f.dropped = dropped
		f.dirty = true
	}
	return f.dirty
}

// isTail tells a tail mark from a frame.
func isTail(m *nats.Msg) bool { return strings.HasSuffix(m.Subject, "."+kindTail) }

// visibility decides which messages of a frame a watcher sees. Until a gap that is all of them.
// After one, a fragment is shown only if the start of its segment was: nobody gets the end of a
// text without its beginning, as the complete message follows anyway.
type visibility struct {
	all  bool
	open map[string]bool // segments whose start was shown
}

func newVisibility() *visibility { return &visibility{all: true, open: map[string]bool{}} }

// gap notes that fragments are missing: from now on segments are shown only from their start.
func (v *visibility) gap() {
	v.all = false
	clear(v.open)
}

// filter leaves of a whole frame what is shown.
func (v *visibility) filter(f Frame) Frame {
	hidden := false
	show := make([]bool, len(f.Messages))
	for i, m := range f.Messages {
		show[i] = v.shows(m)
		hidden = hidden || !show[i]
	}
	if !hidden {
		return f
	}
	return f.filter(func(line int, _ schemas.Message) bool { return show[line] })
}

// shows decides about one message.
func (v *visibility) shows(m schemas.Message) bool {
	segment, phase, ok := segmentOf(m)
	if !ok {
		return true
	}
	shown := v.all || v.open[segment] || phase == schemas.PhaseStart
	switch phase {
	case schemas.PhaseStart:
		v.open[segment] = true
	case schemas.PhaseStop:
		delete(v.open, segment)
	case schemas.PhaseDelta: // goes on as its start began
	}
	return shown
}

// segmentOf names the segment a fragment belongs to; false for any other message.
func segmentOf(m schemas.Message) (segment string, phase schemas.Phase, ok bool) {
	id := ""
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		phase = p.EventType
	case *schemas.PartialThinking:
		phase = p.EventType
	case *schemas.PartialToolCall:
		id, phase = p.ToolCallID, p.EventType
	case *schemas.PartialToolCallOutput:
		id, phase = p.ToolCallID, p.EventType
	default:
		return "", "", false
	}
	return strings.Join(m.Origin, "/") + " " + string(m.Kind()) + " " + id, phase, true
}
