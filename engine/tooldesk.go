package engine

import (
	"sync"

	"braid/engine/internal/session"
	"braid/schemas"
)

// toolDesk is where a tenure hears from toolrunners: fragments of output, and hints that a call
// has a new record. It subscribes when the first tool is needed.
type toolDesk struct {
	r      *runner
	mu     sync.Mutex
	open   bool
	closed bool
	stop   []func()
}

func newToolDesk(r *runner) *toolDesk { return &toolDesk{r: r} }

// ready makes sure that the desk hears, before a call is queued.
func (d *toolDesk) ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errTenureEnded // nobody would end the subscriptions
	}
	if d.open {
		return nil
	}
	r := d.r
	stop, err := r.e.conn.SubscribeFragments(r.ref, func(f schemas.ToolFragment) {
		select {
		case r.stream <- session.ToolOutput{Fragment: f}:
		case <-r.ctx.Done():
		}
	}, func() { r.onLoop(r.resendAll) })
	if err != nil {
		return err
	}
	stopHints, err := r.e.conn.WatchRecords(r.ref, func(call string, rec *schemas.ToolRecord) {
		r.onLoop(func() {
			if c := r.calls[call]; c != nil {
				c.tellRecord(rec)
			}
		})
	})
	if err != nil {
		stop()
		return err
	}
	d.stop, d.open = []func(){stop, stopHints}, true
	return nil
}

// close ends the subscriptions. The tenure's context must have ended, or their handlers could
// wait for the loop.
func (d *toolDesk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stop {
		stop()
	}
	d.stop, d.open, d.closed = nil, false, true
}
