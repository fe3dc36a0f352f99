package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Copy is the owner as it is now: a process that was stopped here and goes on later.
func (o *Owner) Copy() *Owner {
	c := *o
	return &c
}

// ReadBack looks for the frame that Append of these messages would store next.
func (o *Owner) ReadBack(ctx context.Context, messages []schemas.Message) (Ack, bool, error) {
	m, err := o.encode(ctx, messages, 0)
	if err != nil {
		return Ack{}, false, err
	}
	return o.readBack(ctx, m)
}

// ClaimTwice stores one claim twice, as when the first acknowledgement is lost.
func (c *Conn) ClaimTwice(ctx context.Context, ref schemas.SessionRef, instance string, after uint64) (first, second Claim, err error) {
	body := claimBody{Version: 1, Instance: instance, Nonce: newNonce(), State: ClaimHeld}
	if first, err = c.putClaim(ctx, ref, body, after); err != nil {
		return first, second, err
	}
	second, err = c.putClaim(ctx, ref, body, after)
	return first, second, err
}

// FrameSubject and OwnerSubject are where a session's frames and claims are stored.
func (c *Conn) FrameSubject(ref schemas.SessionRef, kind string) string {
	return frameSubject(ref, c.Shard(ref), kind)
}

func (c *Conn) OwnerSubject(ref schemas.SessionRef) string { return ownerSubject(ref, c.Shard(ref)) }

func (c *Conn) SessionsStream(ref schemas.SessionRef) string { return sessionsStream(c.Shard(ref)) }

// Deafen makes the feed lose everything, unnoticed, until Hear.
func (f *Follower) Deafen() {
	f.feed.sub.Unsubscribe()
	for {
		select {
		case <-f.feed.messages: // the feed's goroutine may be waiting for a reader
		case <-f.feed.gone:
			return
		}
	}
}

// Hear ends what Deafen began. It returns when the broker knows.
func (f *Follower) Hear() error {
	gone := make(chan struct{})
	sub, err := f.c.nc.Subscribe(FeedSubject(f.ref, "*"), func(m *nats.Msg) {
		select {
		case f.feed.messages <- m:
		case <-f.feed.done:
		}
	})
	if err != nil {
		return err
	}
	sub.SetClosedHandler(func(string) { close(gone) })
	f.feed.sub, f.feed.gone = sub, gone
	return f.c.nc.Flush()
}

// BlobNames lists the blobs of a session.
func (c *Conn) BlobNames(ctx context.Context, ref schemas.SessionRef) ([]string, error) {
	names, err := c.listBlobs(ctx, sessionBlobs(ref))
	return append([]string{}, names...), err
}

// PutBlob and DeleteBlob handle a blob by name.
func (c *Conn) PutBlob(ctx context.Context, name string, data []byte) error {
	return c.putBlob(ctx, name, data)
}

func (c *Conn) DeleteBlob(ctx context.Context, name string) error { return c.deleteBlob(ctx, name) }

// ReadBlob reads a blob with so much patience for a broker that says nothing.
func (c *Conn) ReadBlob(ctx context.Context, name string, most uint64, stall time.Duration) ([]byte, error) {
	return c.readBlob(ctx, name, blobBound{most: most, stall: stall})
}

// Described returns where the pieces of a blob are stored, and what removes the blob as it is now, later.
func (c *Conn) Described(ctx context.Context, name string) (pieces string, remove func() error, err error) {
	info, err := c.describeBlob(ctx, name)
	return objectChunks(info.NUID), func() error { return c.removeBlob(ctx, info) }, err
}

// Description is where what describes a blob is stored.
func Description(name string) string { return objectSubject(name) }
