package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"braid/bus"
	"braid/schemas"
)

// This file takes traces: each line is checked on its way to the broker; an engine appends them.

// Bounds of an import: the trace in bytes, how long it may take to arrive, and how long the request
// waits for it to be appended.
const (
	maxTrace    = 64 << 20
	traceArrive = 5 * time.Minute
	traceWait   = 25 * time.Second
)

// importSession makes a session of a trace: JSON Lines in the body, what else there is to say in the
// query. Every line is looked at before anything is stored.
func (g *Gateway) importSession(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	lenient, err := flagParameter("lenient", values.Get("lenient"))
	if err != nil {
		return err
	}
	if err := checkMedia(r.Header, mediaLines, mediaOtherLines); err != nil {
		return err
	}
	id, given, err := commandID(w, r)
	if err != nil {
		return err
	}
	ref := schemas.SessionRef{Project: g.o.Project, ID: newSessionID(values.Get("id"), id)}
	if err := schemas.ValidateName("id", ref.ID); err != nil {
		return err
	}
	cmd := schemas.Command{ID: id, Type: schemas.CommandImport, Session: ref, Import: &schemas.ImportBody{
		Trace: "-", Model: values.Get("model"), Agent: values.Get("agent"),
		ApprovalMode: schemas.ApprovalMode(values.Get("approval_mode")), Workspace: values.Get("workspace"),
	}}
	if err := cmd.Validate(); err != nil {
		return err // before a large body is read
	}
	if announces(r, maxTrace) {
		return traceRefused(&http.MaxBytesError{Limit: maxTrace})
	}
	if values.Get("id") != "" || given {
		if err := g.refuseImport(r.Context(), ref, given); err != nil {
			return err
		}
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(traceArrive)); err != nil {
		g.log.Debug().Err(err).Msg("an import gets no more time than any request")
	}
	arriving, cancel := context.WithTimeout(r.Context(), traceArrive)
	defer cancel()
	trace := newTraceReader(http.MaxBytesReader(w, r.Body, maxTrace), lenient)
	if cmd.Import.Trace, err = g.conn.PutTrace(arriving, ref, trace); err != nil {
		return traceRefused(err)
	}
	outcome, receipt, err := g.sendAndWait(r, cmd, max(g.o.CommandWait, traceWait))
	if err != nil {
		return err
	}
	if receipt.Duplicate { // it was imported before this body came
		if err := g.conn.DropTrace(r.Context(), ref, cmd.Import.Trace, time.Time{}); err != nil {
			g.log.Debug().Err(err).Msg("a trace that came twice stays among the blobs")
		}
	}
	if err := outcome.Err(); err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+ref.ID)
	writeJSON(w, http.StatusCreated, importedView{id, g.created(r, ref, createRequest{Model: cmd.Import.Model, Agent: cmd.Import.Agent}, outcome.Log), trace.messages})
	return nil
}

// refuseImport says, before a large body is read, that there can be no session of that name any more: it
// is there or was deleted. What may be the repeat of an import is let through, since that one may have
// made the session; so is what nobody can tell now: the session's owner will.
func (g *Gateway) refuseImport(ctx context.Context, ref schemas.SessionRef, repeat bool) error {
	ctx, cancel := context.WithTimeout(ctx, g.o.QueryWait)
	defer cancel()
	claim, found, err := g.conn.LastClaim(ctx, ref)
	switch {
	case err != nil || !found:
		return nil
	case claim.State == bus.ClaimDeleted:
		return schemas.Errorf(schemas.CodeDeleted, "session %s was deleted", ref.ID)
	case repeat:
		return nil
	}
	if _, err := describe(ctx, g.conn, ref); err == nil {
		return schemas.Errorf(schemas.CodeSessionExists, "session %s exists already", ref.ID)
	}
	return nil
}

// importedView answers who imports a session.
type importedView struct {
	CommandID string      `json:"command_id"`
	Session   sessionView `json:"session"`
	Messages  int         `json:"messages"`
}

// newSessionID is the id that was asked for, or one that follows from the command's, so that a repeat of
// the request means the same session.
func newSessionID(asked, command string) string {
	if asked != "" {
		return asked
	}
	return schemas.DerivedSessionID(command)
}

// traceRefused is what a client gets for a trace that was not stored.
func traceRefused(err error) error {
	var tooLarge *http.MaxBytesError
	var line *schemas.LineError
	var known *schemas.Error
	switch {
	case errors.As(err, &tooLarge):
		return schemas.Errorf(schemas.CodeTooLarge, "the trace is over the limit of %d bytes", maxTrace)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return schemas.Errorf(schemas.CodeInvalid, "the trace did not come within %s", traceArrive)
	case errors.As(err, &line) && errors.As(line.Err, &known):
		return &schemas.Error{Code: schemas.CodeInvalid, Field: "line " + strconv.Itoa(line.Line), Message: line.Error()}
	case errors.As(err, &line):
		message := "line " + strconv.Itoa(line.Line) + ": it is no message"
		if line.Torn {
			message += ", and the file ends in it: lenient=true leaves such a line out"
		}
		return errors.Join(&schemas.Error{Code: schemas.CodeInvalid, Field: "line " + strconv.Itoa(line.Line), Message: message}, err)
	case errors.As(err, &known):
		return err
	}
	return readFailed(err)
}

// traceReader reads a trace as Braid writes it, and fails at the first line that can't be imported.
type traceReader struct {
	lines    *schemas.LineReader
	check    schemas.TraceCheck
	lenient  bool // a last line that is torn is left out
	messages int
	buffer   []byte
	unread   []byte
	err      error
}

func newTraceReader(r io.Reader, lenient bool) *traceReader {
	return &traceReader{lines: schemas.NewLineReader(r), lenient: lenient}
}

// Read implements io.Reader.
func (t *traceReader) Read(p []byte) (int, error) {
	for len(t.unread) == 0 && t.err == nil {
		t.err = t.next()
	}
	if len(t.unread) == 0 {
		return 0, t.err
	}
	n := copy(p, t.unread)
	t.unread = t.unread[n:]
	return n, nil
}

// next takes the next line.
func (t *traceReader) next() error {
	n, m, err := t.lines.Next()
	if at, ok := errors.AsType[*schemas.LineError](err); ok && at.Torn && t.lenient {
		err = io.EOF
	}
	if errors.Is(err, io.EOF) {
		if _, refused := t.check.Finish(); refused != nil {
			return refused
		}
		return err
	}
	if err == nil {
		err = t.check.Add(m)
		if err != nil {
			err = &schemas.LineError{Line: n, Err: err}
		}
	}
	if err != nil {
		return err
	}
	if t.buffer, err = schemas.Append(t.buffer[:0], m); err != nil {
		return &schemas.LineError{Line: n, Err: err}
	}
	t.buffer = append(t.buffer, '\n')
	t.unread = t.buffer
	t.messages++
	return nil
}
