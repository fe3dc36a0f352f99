package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"braid/schemas"
)

// A blob is stored before what refers to it, so whoever is lost in between leaves one behind that
// nothing refers to. Sweeping removes such blobs.

// Sweep says what one pass of [Conn.SweepBlobs] looks at.
type Sweep struct {
	// Before is when a blob must have been stored: a day ago, say, which is well above the time
	// that may pass until something refers to it.
	Before time.Time
	// After is Next of the pass before; empty begins with the first blob.
	After string
	// Most is how many blobs are looked at; 0 means all.
	Most int
}

// Swept is what came of a pass.
type Swept struct {
	Removed int
	// Next is where the next pass goes on; empty if there is nothing beyond.
	Next string
}

// SweepBlobs removes blobs to which nothing refers any more: neither a frame, nor a command, nor the
// record of a call that is stored, nor a queued call that has not ended. Blobs of kinds it does not
// know go with their session alone. A pass that begins with the first blob removes pieces of blobs
// that were never completed as well; it reads the descriptions of all for that.
//
// Several may sweep at once. After an error Next is After, or beyond the blob that could not be
// judged, so that neither keeps the others from being swept.
func (c *Conn) SweepBlobs(ctx context.Context, s Sweep) (done Swept, err error) {
	done.Next = s.After
	var failed error
	if s.After == "" {
		done.Removed, failed = c.sweepPieces(ctx, s.Before)
	}
	names, err := c.listBlobs(ctx, "")
	if err != nil {
		return done, fmt.Errorf("sweep blobs: %w", errors.Join(failed, err))
	}
	names, more := s.pick(names)
	refs := newReferences(c)
	for _, name := range names {
		done.Next = name
		removed, err := c.sweepBlob(ctx, refs, name, s.Before)
		if err != nil {
			return done, fmt.Errorf("sweep blob %s: %w", name, errors.Join(failed, err))
		}
		if removed {
			done.Removed++
		}
	}
	if !more {
		done.Next = ""
	}
	return done, failed
}

// pick returns the blobs whose turn it is, of all in the order of their names, so that what is read
// of a session serves all its blobs. more says that others are left.
func (s Sweep) pick(names []string) (picked []string, more bool) {
	begin, found := slices.BinarySearch(names, s.After)
	if found {
		begin++
	}
	picked = names[begin:]
	if s.Most > 0 && len(picked) > s.Most {
		return picked[:s.Most], true
	}
	return picked, false
}

// sweepBlob removes a blob if nothing refers to it and it was stored before a time. A blob whose description
// can't be read is left alone: a newer version may read it, and it goes with its session.
func (c *Conn) sweepBlob(ctx context.Context, refs references, name string, before time.Time) (removed bool, err error) {
	blob, err := c.describeBlob(ctx, name)
	switch {
	case errors.Is(err, errNotFound): // removed meanwhile
		return false, nil
	case errors.Is(err, errNoDescription):
		c.log.Warn().Err(err).Str("blob", name).Msg("a blob is left out of the sweep")
		return false, nil
	case err != nil || !blob.ModTime.Before(before):
		return false, err
	}
	if !blob.Deleted {
		if named, err := refs.name(ctx, name); named || err != nil {
			return false, err
		}
	}
	return true, c.removeBlob(ctx, blob)
}

// sweepPieces removes pieces that belong to no blob, if the last of them was stored before a time.
func (c *Conn) sweepPieces(ctx context.Context, before time.Time) (removed int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sweep pieces of blobs: %w", err)
		}
	}()
	subjects, err := c.blobSubjects(ctx, objectChunks("*"))
	if err != nil || len(subjects) == 0 {
		return 0, err
	}
	names, err := c.listBlobs(ctx, "") // after the pieces: what was completed meanwhile is complete
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		blob, err := c.describeBlob(ctx, name)
		if err != nil && !errors.Is(err, errNotFound) && !errors.Is(err, errNoDescription) {
			return 0, err
		}
		delete(subjects, objectChunks(blob.NUID))
	}
	for subject := range subjects {
		last, err := c.leaderRead(ctx, streamBlobs, directRequest{LastFor: subject})
		if errors.Is(err, errNotFound) || (err == nil && !last.Time.Before(before)) {
			continue
		}
		if err == nil {
			err = c.purge(ctx, streamBlobs, subject)
		}
		if err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// references knows which blobs something refers to. What it has read of a session it keeps, so it is
// good for blobs that were stored well before it was made.
type references struct {
	c        *Conn
	frames   map[schemas.SessionRef]map[string]bool
	commands map[schemas.SessionRef]map[string]bool
}

func newReferences(c *Conn) references {
	return references{c: c, frames: map[schemas.SessionRef]map[string]bool{}, commands: map[schemas.SessionRef]map[string]bool{}}
}

// name reports whether something refers to a blob; true if it can't be told from the blob's name.
func (r references) name(ctx context.Context, blob string) (bool, error) {
	if ref, ok := sessionOfFrameBlob(blob); ok {
		return named(ctx, r.frames, ref, blob, r.c.blobsInFrames)
	}
	if ref, ok := sessionOfTrace(blob); ok { // one that is sent again may have a command since
		names, err := r.c.blobsInCommands(ctx, ref)
		return names[blob], err
	}
	if ref, _, ok := ownerOfBody(blob, commandMark); ok {
		return named(ctx, r.commands, ref, blob, r.c.blobsInCommands)
	}
	if ref, call, ok := ownerOfBody(blob, bodyMark); ok && validateCall(ref, call) == nil {
		return r.c.recordNames(ctx, ref, call, blob)
	}
	return true, nil
}

// named looks a blob up among those that read returns for its session.
func named(ctx context.Context, known map[schemas.SessionRef]map[string]bool, ref schemas.SessionRef, blob string,
	read func(context.Context, schemas.SessionRef) (map[string]bool, error),
) (bool, error) {
	if known[ref] == nil {
		names, err := read(ctx, ref)
		if err != nil {
			return false, err
		}
		known[ref] = names
	}
	return known[ref][blob], nil
}

// blobsInFrames collects the names of blobs that a session's frames refer to, without reading
// the blobs.
func (c *Conn) blobsInFrames(ctx context.Context, ref schemas.SessionRef) (map[string]bool, error) {
	names := map[string]bool{}
	ends, err := c.SessionEnds(ctx, ref)
	if err != nil {
		return nil, err
	}
	s := newStretch(c, ref, 0, ends, LogAndLive, func(ctx context.Context) (Ends, error) { return c.SessionEnds(ctx, ref) })
	for {
		src, err := s.next(ctx)
		if err != nil {
			return nil, err
		}
		if src == nil {
			return names, nil
		}
		for _, name := range blobNames(src.page[0].Data) {
			names[name] = true
		}
		src.page = src.page[1:]
	}
}

// blobsInCommands collects the names of blobs that a session's stored commands refer to: their
// bodies, and the traces they import.
func (c *Conn) blobsInCommands(ctx context.Context, ref schemas.SessionRef) (map[string]bool, error) {
	messages, err := c.commandMessages(ctx, ref, 0, 0)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, m := range messages {
		if name := m.Header.Get(headerBody); name != "" {
			names[name] = true
		} else if cmd, err := schemas.DecodeCommand(m.Data); err == nil && cmd.Import != nil {
			names[cmd.Import.Trace] = true
		}
	}
	return names, nil
}

// recordNames reports whether a stored record of a call refers to a blob, or the call has not ended:
// then a queued message may.
func (c *Conn) recordNames(ctx context.Context, ref schemas.SessionRef, call, blob string) (bool, error) {
	shard := c.Shard(ref)
	open := false
	for next := uint64(1); ; {
		s, err := c.leaderRead(ctx, outputsStream(shard), directRequest{Seq: next, NextFor: outputSubject(ref, shard, call)})
		if errors.Is(err, errNotFound) {
			return open, nil
		}
		if err != nil {
			return false, err
		}
		if s.Header.Get(headerBody) == blob {
			return true, nil
		}
		var rec schemas.ToolRecord // a body that is elsewhere is that of a done one, which is no open call
		open = schemas.DecodeJSON(s.Data, &rec) == nil && (rec.State == schemas.RecordQueued || rec.State == schemas.RecordStarted)
		next = s.Sequence + 1
	}
}
