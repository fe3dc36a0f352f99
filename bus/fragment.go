package bus

import (
	"context"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Fragments carry a running call's output to the session's owner, fast and without a promise:
// they go over core NATS and may be lost. Each says at which byte it begins, so a loss shows; the
// toolrunner keeps what it sent and repeats it on request, and the call's record holds it all.

// fragmentBytes bounds a fragment's text. Text that needs escaping grows to six times its size
// in JSON, and must still fit one message.
const fragmentBytes = 128 << 10

// PublishFragment sends a piece of output, in several if it is large.
func (c *Conn) PublishFragment(ref schemas.SessionRef, f schemas.ToolFragment) error {
	if err := validateCall(ref, f.ToolCallID); err != nil {
		return err
	}
	size := min(fragmentBytes, c.maxBody()/6)
	for text := f.Text; ; {
		n := cutText(text, size)
		f.Text, text = text[:n], text[n:]
		body, err := schemas.EncodeJSON(f)
		if err == nil {
			err = c.nc.Publish(fragmentSubject(ref), body)
		}
		if err != nil {
			return fmt.Errorf("send output of call %s: %w", f.ToolCallID, err)
		}
		if text == "" {
			return nil
		}
		f.Offset += int64(n)
	}
}

// cutText is where text may be cut: at most size bytes in, never inside a character.
func cutText(text string, size int) int {
	if len(text) <= size {
		return len(text)
	}
	for n := size; n > size-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return size // no valid text, so there is no character to split
}

// How many fragments, and bytes of them, may wait for a session that is slow to take them.
const (
	fragmentBacklog      = 4096
	fragmentBacklogBytes = 16 << 20
)

// SubscribeFragments calls take for each fragment of the session's calls, in the order each
// toolrunner sent them, on a goroutine of its own. take may block: up to 4,096 fragments wait
// meanwhile and further ones are lost. After a loss (that, or a lost connection) lost is called,
// on the same goroutine, and the owner asks for what is missing (see [Conn.RequestResend]). stop
// ends it and waits; take must return then.
func (c *Conn) SubscribeFragments(ref schemas.SessionRef, take func(schemas.ToolFragment), lost func()) (stop func(), err error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	sub, err := c.nc.SubscribeSync(fragmentSubject(ref))
	if err == nil {
		err = sub.SetPendingLimits(fragmentBacklog, fragmentBacklogBytes)
	}
	if err == nil {
		err = c.subscribed(sub) // received from now on
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to output of %s: %w", ref, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reader := &fragmentReader{c: c, sub: sub, take: take, lost: lost}
	unhook := c.onReconnect(reader.interrupt)
	var done sync.WaitGroup
	done.Go(func() { reader.run(ctx) })
	return sync.OnceFunc(func() {
		unhook()
		cancel()
		if err := sub.Unsubscribe(); err != nil {
			c.log.Debug().Err(err).Msg("end of a subscription")
		}
		done.Wait()
	}), nil
}

// fragmentReader is one subscription to fragments and the state of the goroutine that reads it.
type fragmentReader struct {
	c       *Conn
	sub     *nats.Subscription
	take    func(schemas.ToolFragment)
	lost    func()
	dropped int // as the subscription counts them

	mu struct {
		sync.Mutex
		stopWaiting context.CancelFunc
	}
}

// interrupt ends the reader's wait for a message: the connection is back, and what was sent while
// it was away is lost, also when nothing follows it.
func (r *fragmentReader) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.stopWaiting != nil {
		r.mu.stopWaiting()
	}
}

// interruptible returns a context that ends with ctx or at the next interrupt.
func (r *fragmentReader) interruptible(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait, cancel := context.WithCancel(ctx)
	r.mu.stopWaiting = cancel
	return wait
}

// run reads until ctx ends or the connection is closed.
func (r *fragmentReader) run(ctx context.Context) {
	defer r.interrupt()
	wait := r.interruptible(ctx)
	for {
		m, err := r.sub.NextMsgWithContext(wait)
		if ctx.Err() != nil {
			return
		}
		interrupted := wait.Err() != nil
		if interrupted {
			wait = r.interruptible(ctx) //nolint:fatcontext // a sibling of the one that ended, not its child
		}
		// Fragments are dropped only while others wait, so a message follows and shows it.
		if r.newlyDropped() || interrupted {
			r.lost()
		}
		if err != nil { // an interrupt, or a slow consumer, which is reported once here as well
			if r.c.nc.IsClosed() || !r.sub.IsValid() {
				return
			}
			continue
		}
		var f schemas.ToolFragment
		if err := schemas.DecodeJSON(m.Data, &f); err != nil || !schemas.ValidName(f.ToolCallID) || f.Offset < 0 {
			r.c.log.Warn().Err(err).Msg("a fragment that can't be read is dropped")
			continue
		}
		r.take(f)
	}
}

// newlyDropped reports whether fragments were dropped since it was last asked.
func (r *fragmentReader) newlyDropped() bool {
	n, err := r.sub.Dropped()
	if err != nil || n == r.dropped {
		return false
	}
	r.dropped = n
	return true
}
