package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// headerBody names the blob that holds a message's body, when that is over what one broker
// message can hold.
const headerBody = "Braid-Body"

// bodyMark begins the last part of the names of such blobs; the call's id and a random part follow.
const bodyMark = "body."

// sealBody puts the body of a message about a call into the message or, over the broker's max
// payload, into a blob of the session under a name used once, which the message then names.
func (c *Conn) sealBody(ctx context.Context, m *nats.Msg, ref schemas.SessionRef, call string, body []byte) error {
	if int64(len(body)) <= c.nc.MaxPayload()-headerRoom {
		m.Data = body
		return nil
	}
	name := sessionBlobs(ref) + bodyMark + call + "." + randomID()
	if err := c.putBlob(ctx, name, body); err != nil {
		return fmt.Errorf("store a body of %d bytes: %w", len(body), err)
	}
	m.Header.Set(headerBody, name)
	return nil
}

// openBody returns what sealBody put away.
func (c *Conn) openBody(ctx context.Context, header nats.Header, data []byte) ([]byte, error) {
	name := header.Get(headerBody)
	if name == "" {
		return data, nil
	}
	body, err := c.getBlob(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read a stored body: %w", err)
	}
	return body, nil
}

// BodiesInUse answers for [Conn.SweepBlobs] whether a blob that belongs to no frame is to be kept:
// the body of a call's record as long as that record is stored, the body of a queued call until
// the call has ended, a trace as long as the command that imports it. Other blobs go with their session alone, and are kept.
func (c *Conn) BodiesInUse(ctx context.Context) (keep func(name string) (bool, error)) {
	return func(name string) (bool, error) {
		if ref, ok := sessionOfTrace(name); ok {
			return c.traceInUse(ctx, ref, name)
		}
		ref, call, ok := callOfBody(name)
		if !ok {
			return true, nil
		}
		shard := c.shard(ref)
		open := false
		for next := uint64(1); ; {
			s, err := c.leaderRead(ctx, outputsStream(shard), directRequest{Seq: next, NextFor: outputSubject(ref, shard, call)})
			if errors.Is(err, errNotFound) {
				return open, nil
			}
			if err != nil {
				return false, fmt.Errorf("look for what names %s: %w", name, err)
			}
			if s.Header.Get(headerBody) == name {
				return true, nil
			}
			var rec schemas.ToolRecord // of a body that is elsewhere: a done one, which is no open call
			if err := schemas.DecodeJSON(s.Data, &rec); err != nil {
				rec = schemas.ToolRecord{}
			}
			open = rec.State == schemas.RecordQueued || rec.State == schemas.RecordStarted
			next = s.Sequence + 1
		}
	}
}

// callOfBody parses the name of a call's body.
func callOfBody(name string) (ref schemas.SessionRef, call string, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return ref, "", false
	}
	rest, ok := strings.CutPrefix(parts[2], bodyMark)
	if !ok {
		return ref, "", false
	}
	call, _, ok = strings.Cut(rest, ".")
	ref = schemas.SessionRef{Project: parts[0], ID: parts[1]}
	return ref, call, ok && validateCall(ref, call) == nil
}
