package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"braid/schemas"
)

// Names of the events that are no messages.
const (
	eventTaskState = "task_state"
	eventResync    = "resync_required"
	eventDeleted   = "session_deleted"
	eventWatching  = "watching"
)

func (t *httpTransport) watch(ctx context.Context, id string, w watch) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for raw, err := range t.rawEvents(ctx, streamPath(id, w), w.after) {
			var event Event
			if err == nil {
				event, err = decodeEvent(raw, w.turns)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if event != nil && !yield(event, nil) {
				return
			}
		}
	}
}

func (t *httpTransport) events(ctx context.Context, after string) iter.Seq2[ProjectEvent, error] {
	return func(yield func(ProjectEvent, error) bool) {
		for raw, err := range t.rawEvents(ctx, "/v1/events", after) {
			var event ProjectEvent
			if err == nil {
				event, err = decodeProjectEvent(raw)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if event != nil && !yield(event, nil) {
				return
			}
		}
	}
}

// rawEvents are the events of one connection, from behind one of them on; an error is the last element.
func (t *httpTransport) rawEvents(ctx context.Context, path, after string) iter.Seq2[rawEvent, error] {
	return func(yield func(rawEvent, error) bool) {
		events, done, err := t.openStream(ctx, path, after)
		if err != nil {
			yield(rawEvent{}, err)
			return
		}
		defer done()
		for {
			raw, err := events.next()
			if err != nil {
				yield(raw, fmt.Errorf("read the stream: %w", err))
				return
			}
			if !yield(raw, nil) {
				return
			}
		}
	}
}

func streamPath(id string, w watch) string {
	path := "/v1/sessions/" + id + "/stream"
	switch {
	case w.turns:
		path += "?view=turns"
	case w.prompts:
		path += "?include=prompt"
	}
	return path
}

// openStream opens a stream of events behind one of them. done ends it.
func (t *httpTransport) openStream(ctx context.Context, path, after string) (events *eventReader, done func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	header := http.Header{}
	if after != "" {
		header.Set("Last-Event-ID", after)
	}
	response, err := t.open(ctx, route{http.MethodGet, path, nil}, header, mediaEvents) //nolint:bodyclose // done closes it
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	body, closed := t.listen(response.Body, cancel)
	return newEventReader(body), func() { closed(); cancel(nil) }, nil
}

// listen is a body that is given up when it says nothing for too long: a connection may die without a
// word. done closes it.
func (t *httpTransport) listen(body io.ReadCloser, giveUp context.CancelCauseFunc) (_ io.Reader, done func()) {
	silence := time.AfterFunc(t.silence, func() {
		giveUp(unavailable("the server has said nothing for %s", t.silence))
	})
	return &listening{body, silence, t.silence}, func() { silence.Stop(); body.Close() }
}

// listening is a body whose timer runs only while something is waited for, so that a slow caller is not
// taken for a silent server.
type listening struct {
	io.Reader
	silence *time.Timer
	longest time.Duration
}

func (l *listening) Read(b []byte) (int, error) {
	l.silence.Reset(l.longest)
	defer l.silence.Stop()
	return l.Reader.Read(b) //nolint:wrapcheck // a reader's own errors, io.EOF among them
}

// decodeEvent is what a server-sent event says; nil if this version does not know it.
func decodeEvent(e rawEvent, turns bool) (Event, error) {
	event, err := decodeNamed(e, turns)
	return event, unreadable(err)
}

// unreadable is an error of what the server said, as callers get it.
func unreadable(err error) error {
	if _, ok := errors.AsType[*schemas.Error](err); err == nil || ok {
		return err
	}
	return schemas.Errorf(schemas.CodeInternal, "an event of the stream can't be read: %v", err)
}

// decodeProjectEvent is decodeEvent of the stream of all sessions.
func decodeProjectEvent(e rawEvent) (ProjectEvent, error) {
	switch e.name {
	case "":
		var shown struct {
			Session Info `json:"session"`
		}
		err := schemas.DecodeJSON(e.data, &shown)
		return Changed{Cursor: e.id, Info: shown.Session}, unreadable(err)
	case eventDeleted:
		d := Deleted{Cursor: e.id}
		err := schemas.DecodeJSON(e.data, &d)
		return d, unreadable(err)
	case eventWatching:
		var w Watching
		err := schemas.DecodeJSON(e.data, &w)
		return w, unreadable(err)
	case eventResync:
		var m Missed
		err := schemas.DecodeJSON(e.data, &m)
		return m, unreadable(err)
	}
	return nil, nil //nolint:nilnil // an event of a later version
}

func decodeNamed(e rawEvent, turns bool) (Event, error) {
	switch e.name {
	case "":
		if turns {
			t := Turn{Cursor: e.id}
			err := schemas.DecodeJSON(e.data, &t.TurnEvent)
			return t, err
		}
		m, err := schemas.Decode(e.data)
		return Message{Cursor: e.id, Message: m}, err
	case eventTaskState:
		var s State
		err := schemas.DecodeJSON(e.data, &s)
		return s, err
	case eventResync:
		var notice struct {
			Reason string `json:"reason"`
		}
		if err := schemas.DecodeJSON(e.data, &notice); err != nil {
			return nil, err
		}
		if turns { // nothing but another stream breaks this view
			return Gap{Reason: notice.Reason, Reset: true}, nil
		}
		return hole{notice.Reason}, nil
	case eventDeleted:
		return nil, schemas.Errorf(schemas.CodeDeleted, "the session is deleted")
	}
	return nil, nil //nolint:nilnil // an event of a later version
}
