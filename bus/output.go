package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"braid/schemas"
)

// KeepOutput stores the untruncated output of a call of a session and returns its name, by which
// [Conn.OpenOutput] finds it. It is deleted with the session. It tries until ctx ends.
func (c *Conn) KeepOutput(ctx context.Context, ref schemas.SessionRef, call string, text io.ReadSeeker) (string, error) {
	if err := validateCall(ref, call); err != nil {
		return "", err
	}
	name := sessionBlobs(ref) + "output." + rand.Text()
	for try := 0; ; try++ {
		err := c.putObject(ctx, name, text, nil)
		if err == nil {
			return name, nil
		}
		if permanent(err) || sleep(ctx, jitter(try+3)) != nil {
			return "", fmt.Errorf("keep the output of %s: %w", call, err)
		}
		if _, err := text.Seek(0, io.SeekStart); err != nil {
			return "", fmt.Errorf("keep the output of %s: %w", call, err)
		}
	}
}

// OpenOutput reads what [Conn.KeepOutput] stored for that session. The caller closes the reader,
// whose reads end with ctx. It fails with [ErrBlobMissing].
func (c *Conn) OpenOutput(ctx context.Context, ref schemas.SessionRef, name string) (io.ReadCloser, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(name, sessionBlobs(ref)+"output.") {
		return nil, fmt.Errorf("open output: %.100q: %w", name, ErrBlobMissing)
	}
	object, err := c.blobs.Get(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fmt.Errorf("open output %s: %w", name, ErrBlobMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open output %s: %w", name, err)
	}
	return object, nil
}
