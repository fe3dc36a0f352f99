package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/schemas"
)

// This file reads the trace of an import back from the broker, checks it, and gives it to the core in
// pieces that fit a frame.

// How much of a trace goes to the core at once, and so into one frame.
const (
	importBytes    = 64 << 10
	importMessages = 200
)

// readTrace reads the trace of an import on a goroutine of its own. It is checked once more, whole,
// before anything of it is appended: whoever put it there need not have been a gateway.
func (r *runner) readTrace(e session.ReadTrace) {
	ctx, stop := context.WithCancel(r.ctx)
	r.stopReading = stop
	r.spawn(func(context.Context) {
		defer stop()
		err := r.streamTrace(ctx, e)
		if err == nil || ctx.Err() != nil {
			return
		}
		refused := asError(err)
		if refused.Code == schemas.CodeInternal {
			r.log.Error().Err(err).Msg("a trace can't be imported")
		}
		r.report(session.TraceRefused{Command: e.Command, Reason: refused})
	})
}

func (r *runner) streamTrace(ctx context.Context, e session.ReadTrace) error {
	data, err := r.e.conn.ReadTrace(ctx, r.ref, e.Import.Trace)
	if errors.Is(err, bus.ErrBlobMissing) {
		return schemas.Errorf(schemas.CodeNotFound, "the trace is gone: send it again, under another id")
	}
	if err != nil {
		return err
	}
	facts, err := schemas.CheckTrace(schemas.NewLineReader(bytes.NewReader(data)))
	if err != nil {
		return invalidTrace(err)
	}
	settings, err := r.importSettings(e, facts.Meta)
	if err != nil {
		return err
	}
	read := session.TraceRead{Command: e.Command, Facts: facts, Settings: settings}
	return r.cutTrace(ctx, schemas.NewLineReader(bytes.NewReader(data)), e.From, read)
}

// importSettings says what the session is to run on: what an owner before has recorded, or what the command
// makes of the trace's own settings. The trace's fallback models are left out where this engine has none of
// that name: it had them elsewhere.
func (r *runner) importSettings(e session.ReadTrace, traced schemas.SessionMeta) (settings schemas.SessionMeta, err error) {
	if e.Settings != nil {
		settings = *e.Settings
	} else {
		if settings, err = e.Import.Settings(r.ref.ID, traced); err != nil {
			return settings, err
		}
		if refused := r.refuseModels(&schemas.CreateBody{
			Model: settings.Provider + "/" + settings.ModelID, FallbackModels: e.Import.FallbackModels, Limits: settings.Limits,
		}); refused != nil {
			return settings, refused
		}
	}
	settings.FallbackModels = slices.DeleteFunc(slices.Clone(settings.FallbackModels), func(model string) bool {
		_, err := r.e.models.Open(model)
		return err != nil
	})
	return settings, nil
}

// cutTrace hands the messages from the from-th on to the loop, a frame's worth at a time, and no
// faster than they are appended.
func (r *runner) cutTrace(ctx context.Context, lines *schemas.LineReader, from int, read session.TraceRead) error {
	size, line := 0, []byte(nil)
	for n := 0; ; n++ {
		_, m, err := lines.Next()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return invalidTrace(err)
		}
		if n < from && !end {
			continue
		}
		if !end {
			if line, err = schemas.Append(line[:0], m); err != nil {
				return err
			}
		}
		if end || len(read.Messages) > 0 && (size+len(line) > importBytes || len(read.Messages) == importMessages) {
			read.From = n - len(read.Messages)
			select {
			case r.stream <- read:
			case <-ctx.Done():
				return ctx.Err()
			}
			read.Messages, size = nil, 0
		}
		if end {
			return nil
		}
		read.Messages, size = append(read.Messages, m), size+len(line)
	}
}

// invalidTrace is what a person gets for a trace that can't be imported; it names the line.
func invalidTrace(err error) error {
	if at, ok := errors.AsType[*schemas.LineError](err); ok {
		return schemas.Errorf(schemas.CodeInvalid, "%v", at)
	}
	return err
}

// dropBound is how long the removal of a trace may take, also if the session is let go of meanwhile: one
// that came to nothing is at rest at once.
const dropBound = 10 * time.Second

// dropTrace removes a trace that is in the log, or never will be. If that fails a sweep will. What reads it,
// if anything still does, stops.
func (r *runner) dropTrace(e session.DropTrace) {
	if r.stopReading != nil {
		r.stopReading()
	}
	r.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropBound)
		defer cancel()
		if err := r.e.conn.DropTrace(ctx, r.ref, e.Trace, e.Before); err != nil {
			r.log.Debug().Err(err).Msg("an imported trace stays among the blobs")
		}
	})
}
