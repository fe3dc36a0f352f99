package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
// know go with their session alone. Pieces of blobs that were never completed are removed as well.
//
// Several may sweep at once. After an error Next lies beyond the blob that could not be judged, so
// that one does not keep the others from being swept.
func (c *Conn) SweepBlobs(ctx context.Context, s Sweep) (done Swept, err error) {
	pieces, err := c.blobSubjects(ctx, objectChunks("*"))
	if err != nil {
		return done, fmt.Errorf("sweep blobs: %w", err)
	}
	blobs, err := c.listBlobs(ctx, "") // after the pieces: what was completed meanwhile is complete
	if err != nil {
		return done, fmt.Errorf("sweep blobs: %w", err)
	}
	for _, blob := range blobs {
		delete(pieces, objectChunks(blob.NUID))
	}
	if done.Removed, err = c.sweepPieces(ctx, pieces, s.Before); err != nil {
		return done, fmt.Errorf("sweep blobs: %w", err)
	}
	blobs, more := s.pick(blobs)
	refs := newReferences(c)
	for _, blob := range blobs {
		done.Next = blob.Name
		removed, err := c.sweepBlob(ctx, refs, blob)
		if err != nil {
			return done, fmt.Errorf("sweep blob %s: %w", blob.Name, err)
		}
		if removed {
			done.Removed++
		}
	}
	if !more {
		done.Next = ""
	}
	return done, nil
}

// pick returns the blobs whose turn it is, by name, so that what is read of a session serves all its
// blobs. more says that others are left.
func (s Sweep) pick(blobs []*jetstream.ObjectInfo) (picked []*jetstream.ObjectInfo, more bool) {
	picked = slices.DeleteFunc(blobs, func(b *jetstream.ObjectInfo) bool {
		return b.Name <= s.After || !b.ModTime.Before(s.Before)
	})
	slices.SortFunc(picked, func(a, b *jetstream.ObjectInfo) int { return cmp.Compare(a.Name, b.Name) })
	if s.Most > 0 && len(picked) > s.Most {
		return picked[:s.Most], true
	}
	return picked, false
}

// sweepBlob removes a blob that nothing refers to.
func (c *Conn) sweepBlob(ctx context.Context, refs references, blob *jetstream.ObjectInfo) (removed bool, err error) {
	if !blob.Deleted {
		if named, err := refs.name(ctx, blob.Name); named || err != nil {
			return false, err
		}
	}
	return true, c.deleteBlob(ctx, blob.Name)
}

// sweepPieces removes pieces that belong to no blob, if the last of them was stored before a time.
func (c *Conn) sweepPieces(ctx context.Context, subjects map[string]uint64, before time.Time) (removed int, err error) {
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
	if ref, _, _, ok := frameOfBlob(blob); ok {
		return named(ctx, r.frames, ref, blob, r.c.blobsInFrames)
	}
	ref, ok := sessionOfTrace(blob)
	if !ok {
		ref, _, ok = ownerOfBody(blob, commandMark)
	}
	if ok {
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
	shard := c.shard(ref)
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
