package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// headerBody names the blob that holds a message's body, when that is over what one broker
// message can hold.
const headerBody = "Braid-Body"

// sealBody puts the body into the message or, over the broker's max payload, into a blob of the
// session under a name used once, which the message then names.
func (c *Conn) sealBody(ctx context.Context, m *nats.Msg, ref schemas.SessionRef, body []byte) error {
	if int64(len(body)) <= c.nc.MaxPayload()-headerRoom {
		m.Data = body
		return nil
	}
	name := sessionBlobs(ref) + "body." + randomID()
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
