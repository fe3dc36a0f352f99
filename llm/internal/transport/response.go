package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"braid/llm/internal/sse"
)

// Response is an answer with a status of 2xx. It belongs to one goroutine.
type Response struct {
	Header http.Header

	body  *body
	watch *watch
}

// drain is how long closing an answer that has been read waits for its last bytes, so that its
// connection can be used again.
const drain = 100 * time.Millisecond

// Events reads the body as events, of [sse.MaxEvent] bytes at most.
func (r *Response) Events() *sse.Reader { return sse.NewReader(r.body, 0) }

// Hurry says that all that counts has come: what still follows must come within d from now. Then
// reading fails with [ErrHurried]. Later calls do nothing.
func (r *Response) Hurry(d time.Duration) {
	if r.watch.hurry == nil {
		r.watch.hurry = time.AfterFunc(d, func() { r.watch.cancel(ErrHurried) })
	}
}

// Done says that nothing else is expected, and closes the response.
func (r *Response) Done() {
	timer := time.AfterFunc(drain, func() { r.watch.cancel(ErrHurried) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, r.body, maxErrorBody)
	r.Close()
}

// Close closes the body and ends the request. It may be called again.
func (r *Response) Close() { r.body.close() }

// ErrHurried is the error of reading on when there was no more time for that, see [Response.Hurry].
var ErrHurried = errors.New("no more time to read on")

// watch ends a request whose provider is silent while somebody waits for it. It belongs to the
// goroutine that reads.
type watch struct {
	idle   time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer

	hurry *time.Timer // nil while there is time
}

func newWatch(idle time.Duration, cancel context.CancelCauseFunc) *watch {
	w := &watch{idle: idle, cancel: cancel}
	w.timer = time.AfterFunc(idle, func() { cancel(&silentError{idle}) })
	w.timer.Stop()
	return w
}

// start begins to wait for the provider.
func (w *watch) start() { w.timer.Reset(w.idle) }

// pause ends the wait.
func (w *watch) pause() { w.timer.Stop() }

func (w *watch) stop() {
	w.timer.Stop()
	if w.hurry != nil {
		w.hurry.Stop()
	}
}

// body is an answer's body under watch.
type body struct {
	ctx   context.Context //nolint:containedctx // of the one request: why reading failed
	in    io.ReadCloser
	watch *watch
	alive func()
}

// Read implements [io.Reader]. If the request has ended, its cause is the error.
func (b *body) Read(p []byte) (int, error) {
	b.watch.start()
	n, err := b.in.Read(p)
	b.watch.pause()
	if n > 0 && b.alive != nil {
		b.alive()
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if b.ctx.Err() != nil {
		return n, context.Cause(b.ctx)
	}
	return n, fmt.Errorf("%w: %w", errBroken, err)
}

// errBroken marks a connection that broke in the middle of an answer.
var errBroken = errors.New("the connection broke")

func (b *body) close() {
	b.watch.stop()
	b.watch.cancel(nil)
	_ = b.in.Close()
}
