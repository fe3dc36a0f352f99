package bus

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// A trace that is to become a session is too large for a command. It is an object of the session,
// named by what it holds: who sends it again, not knowing what became of it, names the same one.

// traceMark begins the last part of the names of such objects; a digest follows.
const traceMark = "trace."

// maxTrace bounds what is read of a trace, in bytes.
const maxTrace = 128 << 20

// PutTrace stores a trace for the import of a session and returns the name for the command. An
// error of r ends it, and nothing stays behind; it is [schemas.CodeStorageFull] at once if the broker
// has no room.
func (c *Conn) PutTrace(ctx context.Context, ref schemas.SessionRef, r io.Reader) (name string, err error) {
	if err := ref.Validate(); err != nil {
		return "", err
	}
	final := standsFull()
	info, err := c.putChunks(ctx, sessionBlobs(ref)+traceMark, r, final)
	if errors.Is(err, ErrStorageFull) {
		err = notStored(ctx, "the trace", err)
	}
	if err != nil {
		return "", err
	}
	digest, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(info.Digest, "SHA-256="))
	if err != nil {
		return "", fmt.Errorf("store a trace: %w", err)
	}
	info.Name += hex.EncodeToString(digest)
	again, err := c.describeAgain(ctx, info.Name, final)
	if again || err != nil {
		c.dropChunks(ctx, info) // it is there, and may be being read
		return info.Name, err
	}
	return info.Name, c.putObjectInfo(ctx, info, final)
}

// describeAgain stores the description of a trace that is there once more: it is as young then as one
// that has just come, and no sweep that took it for forgotten removes it. false if there is none, or a
// sweep was faster.
func (c *Conn) describeAgain(ctx context.Context, name string, final func(error) bool) (bool, error) {
	old, err := c.describeBlob(ctx, name)
	if errors.Is(err, errNotFound) || errors.Is(err, errNoDescription) || (err == nil && old.Deleted) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store a trace: %w", err)
	}
	old.ModTime = time.Time{} // that of the message counts
	data, err := schemas.EncodeJSON(old.ObjectInfo)
	if err != nil {
		return false, fmt.Errorf("store a trace: %w", err)
	}
	m := nats.NewMsg(objectSubject(name))
	m.Data = data
	m.Header.Set(headerRollup, "sub")
	m.Header.Set(headerMsgID, newNonce())
	m.Header.Set(headerExpectSubject, strconv.FormatUint(old.sequence, 10))
	lost := false
	_, err = c.publishRetry(ctx, m, func(err error) bool {
		lost = !busy(err)
		return lost || final(err)
	})
	if err != nil && !lost {
		return false, notStored(ctx, "the trace", err)
	}
	return !lost, nil
}

// ReadTrace returns a trace that [Conn.PutTrace] has stored. It fails with [ErrBlobMissing] when it
// is gone, or was never the session's, and with [schemas.CodeTooLarge] over 128 MiB.
func (c *Conn) ReadTrace(ctx context.Context, ref schemas.SessionRef, name string) ([]byte, error) {
	if !strings.HasPrefix(name, sessionBlobs(ref)+traceMark) {
		return nil, fmt.Errorf("%.200q is no trace of session %s: %w", name, ref, ErrBlobMissing)
	}
	return c.getBounded(ctx, name, maxTrace)
}

// DropTrace removes a trace whose import has its outcome. One that was stored after the given time, that of
// the import's command, stays: somebody has sent the same again, for another import. The zero time spares
// none.
func (c *Conn) DropTrace(ctx context.Context, ref schemas.SessionRef, name string, before time.Time) error {
	if !strings.HasPrefix(name, sessionBlobs(ref)+traceMark) {
		return nil
	}
	return c.deleteBlobBefore(ctx, name, before)
}

// sessionOfTrace parses the name of a trace.
func sessionOfTrace(name string) (schemas.SessionRef, bool) {
	ref, rest, ok := splitBlobName(name)
	return ref, ok && strings.HasPrefix(rest, traceMark)
}
