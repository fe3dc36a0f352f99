package bus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"braid/schemas"
)

// Blobs are read piece by piece, with what is read so far kept when an answer is lost: how long that
// takes grows with the blob and with nothing else. The client library reads them by a consumer, in one
// go, and waits for a piece that is lost as long as it may.

// blobInfo describes a blob, and where in the stream that is stored.
type blobInfo struct {
	jetstream.ObjectInfo
	sequence uint64
}

var (
	// errNoDescription says that what is stored as the description of a blob is none.
	errNoDescription = errors.New("the description of the blob can't be read")
	// errDamaged says that a blob lacks a piece, or is not what its description says.
	errDamaged = errors.New("the blob is damaged")
)

// describeBlob returns what the leader has as the description of a blob: errNotFound if there is none.
// Of one that can't be read, errNoDescription, it returns the name and the sequence.
func (c *Conn) describeBlob(ctx context.Context, name string) (blobInfo, error) {
	m, err := c.leaderRead(ctx, streamBlobs, directRequest{LastFor: objectSubject(name)})
	if err != nil {
		return blobInfo{}, err
	}
	return blobOf(name, m)
}

func blobOf(name string, m stored) (blobInfo, error) {
	info := blobInfo{sequence: m.Sequence}
	err := schemas.DecodeJSON(m.Data, &info.ObjectInfo)
	if err != nil {
		info.ObjectInfo = jetstream.ObjectInfo{}
		err = fmt.Errorf("%w: %w", errNoDescription, err)
	}
	info.Name, info.ModTime = name, m.Time
	return info, err
}

const (
	// blobTimeout bounds one try to get pieces of a blob: a slow line needs that for one.
	blobTimeout = 10 * time.Second
	// blobPatience is how long a blob, or a piece of it, is asked for that isn't found.
	blobPatience = 3 * time.Second
	// blobStall is how long those who must not wait for ever wait for the next piece.
	blobStall = time.Minute
)

// blobBound is what somebody who reads a blob puts up with.
type blobBound struct {
	most  uint64        // bytes, 0: any number
	stall time.Duration // without any progress, while the broker is connected; 0: for ever
}

// getBounded is getBlob for one that anybody may have stored, and whose reader others wait for. It fails
// with [schemas.CodeTooLarge] when it has more than so many bytes, before it is read, and with
// [schemas.CodeUnavailable] when the broker is there and nothing more comes.
func (c *Conn) getBounded(ctx context.Context, name string, most uint64) ([]byte, error) {
	return c.readBlob(ctx, name, blobBound{most: most, stall: blobStall})
}

// getBlob reads a blob, however long the broker takes. It fails with ErrBlobMissing when the blob, or a
// piece of it, stays absent, or when it is not what it was.
func (c *Conn) getBlob(ctx context.Context, name string) ([]byte, error) {
	return c.readBlob(ctx, name, blobBound{})
}

func (c *Conn) readBlob(ctx context.Context, name string, b blobBound) ([]byte, error) {
	data, err := c.readWhole(ctx, name, b)
	switch {
	case errors.Is(err, errDamaged), errors.Is(err, errNoDescription):
		return nil, fmt.Errorf("read blob %s: %w: %w", name, ErrBlobMissing, err)
	case err != nil:
		return nil, fmt.Errorf("read blob %s: %w", name, err)
	}
	return data, nil
}

// readWhole is one read of a blob, and another one if it turns out to be damaged: a trace may be
// stored anew while it is being read, and a replica may be behind.
func (c *Conn) readWhole(ctx context.Context, name string, b blobBound) ([]byte, error) {
	for damaged := ""; ; {
		var info blobInfo
		err := c.progress(ctx, b, func(ctx context.Context) (err error) {
			info, err = c.findBlob(ctx, name, damaged == "")
			return err
		})
		if err != nil {
			return nil, err
		}
		if b.most > 0 && info.Size > b.most {
			return nil, schemas.Errorf(schemas.CodeTooLarge, "blob %s has %d bytes, the limit is %d", name, info.Size, b.most)
		}
		data, err := c.readPieces(ctx, info, b)
		if !errors.Is(err, errDamaged) || info.NUID == damaged {
			return data, err
		}
		damaged = info.NUID
	}
}

// findBlob returns the description of a blob that is there, from a replica if that may be. Only the
// leader is believed that it isn't, when it has said so for a while.
func (c *Conn) findBlob(ctx context.Context, name string, replica bool) (blobInfo, error) {
	if replica {
		found, err := c.tryDirect(ctx, streamBlobs, directRequest{LastFor: objectSubject(name)})
		if err == nil && len(found) == 1 {
			if info, err := blobOf(name, found[0]); err == nil && !info.Deleted {
				return info, nil
			}
		}
	}
	since := time.Now()
	for try := 0; ; try++ {
		info, err := c.describeBlob(ctx, name)
		if err == nil && !info.Deleted {
			return info, nil
		}
		if err != nil && !errors.Is(err, errNotFound) {
			return info, err
		}
		if time.Since(since) > blobPatience {
			return info, ErrBlobMissing
		}
		if err := sleep(ctx, jitter(try+3)); err != nil {
			return info, err
		}
	}
}

// readPieces reads the content of a blob, which never is more than its description says.
func (c *Conn) readPieces(ctx context.Context, info blobInfo, b blobBound) ([]byte, error) {
	data := make([]byte, 0, min(info.Size, pageBytes))
	for after := uint64(0); uint64(len(data)) < info.Size; {
		var page []stored
		err := c.progress(ctx, b, func(ctx context.Context) (err error) {
			page, err = c.nextPieces(ctx, objectChunks(info.NUID), after)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			data, after = append(data, m.Data...), m.Sequence
		}
	}
	digest := sha256.New()
	digest.Write(data)
	if uint64(len(data)) != info.Size || jetstream.GetObjectDigestValue(digest) != info.Digest {
		return nil, fmt.Errorf("%w: its content has another digest than it was stored with", errDamaged)
	}
	return data, nil
}

// nextPieces returns the next pieces above a sequence, of which there is at least one: many at once from
// a replica, or, if that has none or is too slow, one from the leader. errDamaged if that one has none
// either.
func (c *Conn) nextPieces(ctx context.Context, subject string, after uint64) ([]stored, error) {
	var missing time.Time
	for try := 0; ; try++ {
		page, err := c.tryPieces(ctx, directRequest{Seq: after + 1, NextFor: subject}, try%2 == 1)
		switch {
		case err == nil && len(page) > 0:
			return page, nil
		case permanent(err):
			return nil, err
		case errors.Is(err, errNotFound) && missing.IsZero():
			missing = time.Now()
		case errors.Is(err, errNotFound) && time.Since(missing) > blobPatience:
			return nil, fmt.Errorf("%w: a piece is lost", errDamaged)
		}
		if waitErr := sleep(ctx, jitter(try+3)); waitErr != nil {
			return nil, fmt.Errorf("%w (last answer: %w)", waitErr, err)
		}
	}
}

func (c *Conn) tryPieces(ctx context.Context, request directRequest, leader bool) ([]stored, error) {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	if leader {
		m, err := c.leaderGet(ctx, streamBlobs, request)
		return []stored{m}, err
	}
	request.Batch, request.MaxBytes = readPage, pageBytes
	return c.directGet(ctx, streamBlobs, request)
}

// progress repeats a step of a read until it is done or has failed. One that gets nowhere is unavailable
// after a while, unless the connection was lost meanwhile: then everybody waits for that.
func (c *Conn) progress(ctx context.Context, b blobBound, step func(context.Context) error) error {
	if b.stall == 0 {
		return step(ctx)
	}
	for {
		reconnects := c.nc.Stats().Reconnects
		attempt, cancel := context.WithTimeout(ctx, b.stall)
		err := step(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if c.nc.IsConnected() && c.nc.Stats().Reconnects == reconnects {
			return unavailable(fmt.Sprintf("the broker has shown nothing of what it stores for %s", b.stall), err)
		}
	}
}
