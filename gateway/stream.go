package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"braid/schemas"
)

// watch is what a watcher asked for.
type watch struct {
	after   schemas.TurnCursor // zero: from now
	prompts bool
	turns   bool // the turn view instead of the messages
}

// headerLastEvent is the header by which a stream is resumed.
const headerLastEvent = "Last-Event-ID"

// The views of a stream.
const (
	viewStream = "stream"
	viewTurns  = "turns"
)

// readWatch reads a stream's parameters. The header wins over the parameter, since a browser's
// own reconnect sends the header and repeats the URL.
func readWatch(r *http.Request) (watch, error) {
	var w watch
	values := r.URL.Query()
	switch values.Get("include") {
	case "":
	case "prompt":
		w.prompts = true
	default:
		return w, &schemas.Error{Code: schemas.CodeInvalid, Field: "include", Message: "include must be prompt"}
	}
	switch view := values.Get("view"); {
	case !values.Has("view"), view == viewStream:
	case view != viewTurns:
		return w, &schemas.Error{Code: schemas.CodeInvalid, Field: "view", Message: "view must be stream or turns"}
	case w.prompts:
		return w, &schemas.Error{Code: schemas.CodeInvalid, Field: "include", Message: "the view of turns has no prompts"}
	default:
		w.turns = true
	}
	name, id := lastEventID(r)
	var err error
	if w.turns {
		w.after, err = turnCursorParameter(name, id)
	} else {
		w.after.Part = schemas.WholeMessage
		w.after.Cursor, err = cursorParameter(name, id)
	}
	return w, err
}

// lastEventID is the id after which a stream is wanted, empty for none, and where it is said.
func lastEventID(r *http.Request) (name, id string) {
	if id = r.Header.Get(headerLastEvent); id != "" {
		return headerLastEvent, id
	}
	return "last_event_id", r.URL.Query().Get("last_event_id")
}

// stream serves a session as server-sent events until the client leaves, is too slow, or the
// gateway stops. The session is not affected by any of it.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	watch, err := readWatch(r)
	if err != nil {
		return err
	}
	leave, err := g.watchers.enter(ref)
	if err != nil {
		return err
	}
	defer leave()
	h, release, err := g.follow(r.Context(), ref)
	if err != nil {
		return err
	}
	defer release()
	out, err := g.beginEvents(w)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return nil
	}
	defer g.watching()()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.stopping, cancel)()
	s := &watcher{hub: h, replays: g.replays, out: out, prompts: watch.prompts, patience: g.o.Patience}
	if watch.turns {
		err = (&turnWatcher{watcher: s}).run(ctx, watch.after, g.o.Heartbeat)
	} else {
		err = s.run(ctx, watch.after.Cursor, g.o.Heartbeat)
	}
	g.sayWhy(s, r, err)
	return nil // the answer has begun long ago
}

// beginEvents begins an answer of server-sent events.
func (g *Gateway) beginEvents(w http.ResponseWriter) (*eventWriter, error) {
	out, err := newEventWriter(w, g.o.WriteTimeout)
	if err != nil {
		return nil, err
	}
	header := w.Header()
	header.Set("Content-Type", mediaEvents)
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return out, nil
}

// follow returns the session's hub. It waits as long as a question may take.
func (g *Gateway) follow(ctx context.Context, ref schemas.SessionRef) (*hub, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, g.o.QueryWait)
	defer cancel()
	h, release, err := g.hubs.use(ctx, ref)
	return h, release, readFailed(err)
}

// sayWhy ends a stream with a comment, if the client may still be there.
func (g *Gateway) sayWhy(s *watcher, r *http.Request, err error) {
	comment := ""
	switch {
	case r.Context().Err() != nil:
		return
	case g.stopping.Err() != nil:
		comment = commentStopping
	case errors.Is(err, errSlow):
		comment = commentSlow
	case errors.Is(err, errHubEnded) && s.hub.deleted:
		comment = string(appendEvent(nil, eventDeleted, "", []byte("{}")))
	case errors.Is(err, errHubEnded):
		comment = commentGone
	}
	g.log.Debug().Err(err).Stringer("session", s.hub.ref).Msg("a stream is ended")
	if comment != "" {
		s.out.timeout = min(s.out.timeout, time.Second)
		_ = s.out.send([]byte(comment)) // a courtesy
	}
}

// errSlow says that a watcher reads more slowly than the session runs.
var errSlow = errors.New("the watcher is too slow")

// watcher serves one client. It belongs to the goroutine of the client's request.
type watcher struct {
	hub     *hub
	replays replays
	out     *eventWriter
	prompts bool
	// patience is how long it may take to come back once the ring has gone on without it.
	patience time.Duration

	at     schemas.Position // everything up to here was written
	next   uint64           // the entry to go on with
	broken int              // breaks of the stream that the client knows of
}

// run writes the stream until something ends it; the error says what.
func (w *watcher) run(ctx context.Context, after schemas.Cursor, heartbeat time.Duration) error {
	err := w.out.open(!after.IsZero())
	switch {
	case err != nil:
		return err
	case after.IsZero():
		err = w.arrived(w.hub.now())
	case after.Epoch != w.hub.epoch:
		err = w.resync(reasonEpoch, schemas.Cursor{})
	default:
		w.at = after.Position
		err = w.resume(ctx)
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for err == nil {
		err = w.step(ctx, ticker.C)
	}
	return err
}

// resume writes what was missed, and then how the session stands.
func (w *watcher) resume(ctx context.Context) error {
	now, broken, err := w.catchUp(ctx, 0)
	if err != nil || broken {
		return err
	}
	return w.arrived(now)
}

// catchUp writes everything from the watcher's place on, up to a moment of the hub: from the
// broker as long as the ring does not go back that far, and as long as patience lasts (0: for
// ever). broken means that this can't be done, and the client was told.
func (w *watcher) catchUp(ctx context.Context, patience time.Duration) (now moment, broken bool, err error) {
	anew := w.hub.now().anew
	for begun := time.Now(); ; {
		if rest, now, ok := w.hub.arrive(w.at); ok {
			if now.anew != anew { // what was replayed meanwhile may be of a stream that is no more
				return moment{}, true, w.resync(now.reason, schemas.Cursor{})
			}
			return now, false, w.write(rest)
		}
		if patience > 0 && time.Since(begun) > patience {
			return moment{}, false, errSlow
		}
		missed, err := w.replays.read(ctx, w.hub, w.cursor())
		if err != nil {
			return moment{}, false, err
		}
		if err := w.write(missed.entries); err != nil {
			return moment{}, false, err
		}
		if missed.broken != "" {
			return moment{}, true, w.resync(missed.broken, missed.first)
		}
		if missed.caught { // no further than the hub will be in an instant
			if err := w.hub.reach(ctx, w.at.Sequence); err != nil {
				return moment{}, false, err
			}
		}
	}
}

func (w *watcher) cursor() schemas.Cursor {
	return schemas.Cursor{Epoch: w.hub.epoch, Position: w.at}
}

// arrived tells how the session stands at a moment, and goes on from there.
func (w *watcher) arrived(now moment) error {
	data, err := schemas.EncodeJSON(viewOfActivity(now.state, now.cursor))
	if err != nil {
		return err
	}
	w.join(now)
	return w.out.send(appendEvent(nil, eventTaskState, now.cursor.String(), data))
}

func (w *watcher) join(now moment) {
	w.at, w.next, w.broken = now.cursor.Position, now.next, now.broken
}

// resync tells that what the client has can't be continued, and how the session stands now.
func (w *watcher) resync(reason string, first schemas.Cursor) error {
	if err := w.notice(reason, first); err != nil {
		return err
	}
	return w.arrived(w.hub.now())
}

// resyncView says why what a client has can't be continued.
type resyncView struct {
	Reason string `json:"reason"`
	First  string `json:"first_available,omitzero"`
}

// notice tells that what the client has can't be continued.
func (w *watcher) notice(reason string, first schemas.Cursor) error {
	notice := resyncView{Reason: reason}
	if !first.IsZero() {
		notice.First = first.String()
	}
	data, err := schemas.EncodeJSON(notice)
	if err != nil {
		return err
	}
	return w.out.write(appendEvent(nil, eventResync, "", data))
}

// write sends what entries hold beyond the watcher's place.
func (w *watcher) write(entries []*entry) error {
	wrote := false
	for _, e := range entries {
		chunks := e.after(w.at, w.prompts)
		if err := w.out.write(chunks...); err != nil {
			return err
		}
		wrote = wrote || len(chunks) > 0
		w.at = e.position
	}
	if !wrote {
		return nil
	}
	return w.out.flush()
}

// step writes what has come, or waits for something to come.
func (w *watcher) step(ctx context.Context, heartbeat <-chan time.Time) error {
	batch, changed, broken, ok := w.hub.read(w.next)
	switch {
	case broken != w.broken:
		return w.resync(w.hub.now().reason, schemas.Cursor{})
	case !ok:
		now, broken, err := w.catchUp(ctx, w.patience)
		if err == nil && !broken {
			w.join(now)
		}
		return err
	case len(batch) > 0:
		w.next += uint64(len(batch))
		return w.write(batch)
	}
	return w.wait(ctx, changed, heartbeat)
}

// wait waits for something to come.
func (w *watcher) wait(ctx context.Context, changed <-chan struct{}, heartbeat <-chan time.Time) error {
	select {
	case <-changed:
		return nil
	case <-heartbeat:
		return w.out.send([]byte(commentHeartbeat))
	case <-w.hub.done:
		if batch, _, _, ok := w.hub.read(w.next); ok && len(batch) > 0 {
			return nil // what came last is still to be written
		}
		return errHubEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}
