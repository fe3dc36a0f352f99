package bus

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// headerBody names the blob that holds a message's body, when that is over what one broker
// message can hold.
const headerBody = "Braid-Body"

// What begins the last part of the names of such blobs; the id of a call or of a command and a
// random part follow.
const (
	bodyMark    = "body."
	commandMark = "command."
)

// sealBody puts the body of a message about a call into the message or, over the broker's max
// payload, into a blob of the session under a name used once, which the message then names.
func (c *Conn) sealBody(ctx context.Context, m *nats.Msg, ref schemas.SessionRef, call string, body []byte) error {
	return c.seal(ctx, m, sessionBlobs(ref)+bodyMark+call, body, nil)
}

// sealCommand is sealBody for a command; final tells which refusals of the broker are final.
func (c *Conn) sealCommand(ctx context.Context, m *nats.Msg, cmd schemas.Command, body []byte, final func(error) bool) error {
	return c.seal(ctx, m, sessionBlobs(cmd.Session)+commandMark+cmd.ID, body, final)
}

// seal puts a body into the message or, if it is too large, into a blob whose name begins with name.
func (c *Conn) seal(ctx context.Context, m *nats.Msg, name string, body []byte, final func(error) bool) error {
	if len(body) <= c.maxBody() {
		m.Data = body
		return nil
	}
	name += "." + rand.Text()
	if err := c.putObject(ctx, name, bytes.NewReader(body), final); err != nil {
		return fmt.Errorf("store a body of %d bytes: %w", len(body), err)
	}
	m.Header.Set(headerBody, name)
	return nil
}

// openBody returns the body of a message as it was sealed.
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

// DropBody removes the blob of a command's body, if the command has one, once the command's outcome is
// stored: from then on nobody reads it. It is best effort: a blob that stays goes with its session, or
// is removed by a sweep.
func (c *Conn) DropBody(ctx context.Context, cmd StoredCommand) { c.dropBody(ctx, cmd.blob) }

func (c *Conn) dropBody(ctx context.Context, name string) {
	if name == "" {
		return
	}
	if err := c.deleteBlob(ctx, name); err != nil && ctx.Err() == nil {
		c.log.Debug().Err(err).Str("blob", name).Msg("the body of a command stays behind")
	}
}

// ownerOfBody parses the name of the body of a call or of a command, as mark says.
func ownerOfBody(name, mark string) (ref schemas.SessionRef, id string, ok bool) {
	ref, rest, session := splitBlobName(name)
	rest, marked := strings.CutPrefix(rest, mark)
	id, _, unique := strings.Cut(rest, ".")
	return ref, id, session && marked && unique && schemas.ValidName(id)
}
