package toolrunner

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/schemas"
)

// control does what a session's owner asks for about a call. What it finds no call for was never
// here, or ended a while ago.
func (s *server) control(request bus.Control) error {
	slots := s.runner.Slots()
	known := false
	switch request.Op {
	case bus.ControlCancel:
		known = slots.Cancel(request.Session, request.ToolCallID, nil)
	case bus.ControlResend:
		key := CallKey{Session: request.Session, ToolCallID: request.ToolCallID, Attempt: request.Attempt}
		if known = slots.Knows(key); known {
			s.resends.ask(key, request.From)
		}
	}
	if !known {
		return schemas.Errorf(schemas.CodeNotFound, "call %s does not run on this toolrunner", request.ToolCallID)
	}
	return nil
}

// resendBytes and resendFragments bound the answer to one request, to a quarter of what may wait
// at an owner. It has just been too slow: if more came at once than it can take, what it asks for
// next would be lost behind fragments that it can't use. It asks again from where it has got to.
const (
	resendBytes     = 4 << 20
	resendFragments = 1024
)

// resends sends output again, on a goroutine of its own, since that may take a while and requests
// are answered at once.
type resends struct {
	conn  *bus.Conn
	slots *Slots
	log   zerolog.Logger

	ready  chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu struct {
		sync.Mutex
		wanted map[CallKey]int64 // the least offset that was asked for
	}
}

func newResends(conn *bus.Conn, slots *Slots, log zerolog.Logger) *resends {
	r := &resends{conn: conn, slots: slots, log: log, ready: make(chan struct{}, 1)}
	r.mu.wanted = make(map[CallKey]int64)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.done.Go(func() { r.run(ctx) })
	return r
}

// ask notes that the output of a call is wanted from an offset on.
func (r *resends) ask(key CallKey, from int64) {
	r.mu.Lock()
	if least, ok := r.mu.wanted[key]; !ok || from < least {
		r.mu.wanted[key] = from
	}
	r.mu.Unlock()
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// stop ends the goroutine and waits for it. What is still wanted is not sent.
func (r *resends) stop() {
	r.cancel()
	r.done.Wait()
}

func (r *resends) run(ctx context.Context) {
	for {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		wanted := r.mu.wanted
		r.mu.wanted = make(map[CallKey]int64)
		r.mu.Unlock()
		for key, from := range wanted {
			if ctx.Err() != nil {
				return
			}
			r.send(key, from)
		}
	}
}

func (r *resends) send(key CallKey, from int64) {
	fragments, _ := r.slots.From(key, from) // none if it was forgotten a moment ago
	sent := 0
	for i, f := range fragments {
		if sent += len(f.Text); sent > resendBytes || i == resendFragments {
			return
		}
		if err := r.conn.PublishFragment(key.Session, f); err != nil {
			r.log.Debug().Err(err).Msg("a fragment was not sent again")
			return
		}
	}
}
