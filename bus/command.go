package bus

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Lane is one of the two ways commands reach engines: those that start work wait for room, those
// that control it never do.
type Lane string

// The lanes.
const (
	LaneRun     Lane = "run"
	LaneControl Lane = "ctl"
)

func laneOf(t schemas.CommandType) Lane {
	if t.Control() {
		return LaneControl
	}
	return LaneRun
}

// Headers of commands.
const (
	headerCommandReply = "Braid-Reply" // the inbox that gets the outcome
	headerCommandHash  = "Braid-Hash"  // tells a repeat from another command under the same id
	headerCommandType  = "Braid-Type"  // what is asked for, for whoever sees the wake-up alone
)

// inboxPrefix is where outcomes may be sent: an inbox, and no other subject somebody names.
const inboxPrefix = "_INBOX."

// commandTTL is how long a command waits for an engine, and how long its id is known afterwards.
const commandTTL = 7 * 24 * time.Hour

// Receipt says where a command is stored.
type Receipt struct {
	// Sequence is the command's place in the order of commands.
	Sequence uint64
	// Duplicate says that the command was stored before, by this sender or another one. Its
	// outcome goes to whoever sent it first; everybody else asks for it (see [Conn.AskOutcome]).
	Duplicate bool
}

// SendCommand validates and stores a command, and does not wait for its outcome. The same id
// sent again within the broker's memory of ids is stored once. The error is an *[schemas.Error]:
// invalid input, [schemas.CodeConflict] if the id was used for another command, or
// [schemas.CodeUnavailable] if the broker did not answer until ctx ended; the command may be
// stored then, and is safe to send again.
func (c *Conn) SendCommand(ctx context.Context, cmd schemas.Command) (Receipt, error) {
	return c.sendCommand(ctx, cmd, "", nil)
}

// sendCommand is SendCommand; the outcome is sent to reply, unless that is empty, and final tells which
// refusals of the broker are final (nil: none is).
func (c *Conn) sendCommand(ctx context.Context, cmd schemas.Command, reply string, final func(error) bool) (Receipt, error) {
	if err := cmd.Validate(); err != nil {
		return Receipt{}, err
	}
	body, err := schemas.EncodeJSON(cmd)
	if err != nil {
		return Receipt{}, fmt.Errorf("send command: %w", err)
	}
	m := nats.NewMsg(commandSubject(cmd.Session, laneOf(cmd.Type)))
	if err := c.sealCommand(ctx, m, cmd, body, final); err != nil {
		return Receipt{}, notStored(ctx, "the command's body", err)
	}
	m.Header.Set(headerMsgID, messageID(cmd))
	m.Header.Set(headerTTL, ttl(commandTTL))
	m.Header.Set(headerCommandHash, commandHash(body))
	m.Header.Set(headerCommandType, string(cmd.Type))
	setTraceContext(m.Header, cmd.Caller)
	if reply != "" {
		m.Header.Set(headerCommandReply, reply)
	}
	ack, err := c.publishRetry(ctx, m, final)
	if err != nil {
		return Receipt{}, notStored(ctx, "the command", err)
	}
	receipt := Receipt{Sequence: ack.Sequence, Duplicate: ack.Duplicate}
	if ack.Duplicate {
		c.dropBody(ctx, m.Header.Get(headerBody)) // nothing names it
		return receipt, c.checkSameCommand(ctx, cmd, receipt.Sequence, commandHash(body))
	}
	return receipt, nil
}

// messageID is the id of a command's message: the broker's memory of ids spans the whole stream, and a
// command's id is one session's own.
func messageID(cmd schemas.Command) string {
	return cmd.Session.Project + "." + cmd.Session.ID + "." + cmd.ID
}

// checkSameCommand fails with CodeConflict when the stored command is another one than ours.
func (c *Conn) checkSameCommand(ctx context.Context, cmd schemas.Command, seq uint64, hash string) error {
	s, err := c.leaderRead(ctx, streamCommands, directRequest{Seq: seq})
	switch {
	case errors.Is(err, errNotFound): // gone since: there is nothing to compare with
		return nil
	case err != nil:
		return unavailable("the broker did not show the command that was sent before", err)
	case s.Header.Get(headerMsgID) != messageID(cmd): // of a stream that was made anew since
		return nil
	case s.Header.Get(headerCommandHash) != hash:
		return schemas.Errorf(schemas.CodeConflict, "the id %q was used for another command", cmd.ID)
	}
	return nil
}

// checkOutcome fails with CodeConflict when an outcome is that of another command, which was sent under the
// same id before the broker's memory of ids began.
func (c *Conn) checkOutcome(ctx context.Context, cmd schemas.Command, r Receipt, o schemas.Outcome) error {
	if o.Sequence == 0 || o.Sequence == r.Sequence {
		return nil
	}
	body, err := schemas.EncodeJSON(cmd)
	if err != nil {
		return fmt.Errorf("compare commands: %w", err)
	}
	return c.checkSameCommand(ctx, cmd, o.Sequence, commandHash(body))
}

// silence is how long a sender listens for the outcome before it asks an engine for it, and how long it
// waits for that answer.
const silence = time.Second

// fullRefusals is how often in a row the broker has to say that it has no room before somebody who
// waits is told so.
const fullRefusals = 3

// standsFull returns a judge of refusals: final is one that says again that there is no room.
func standsFull() func(error) bool {
	refused := 0
	return func(err error) bool {
		if !errors.Is(err, ErrStorageFull) {
			refused = 0
			return false
		}
		refused++
		return refused >= fullRefusals
	}
}

// SendAndWait sends a command and waits for its outcome, at most wait. The outcome may be a
// refusal (see [schemas.Outcome.Err]); the error is one of [Conn.SendCommand]'s, at once
// [schemas.CodeStorageFull] if the broker has no room (SendCommand waits for some), or
// [schemas.CodeUnavailable] if no engine answered in time. The receipt is valid also then, when
// its sequence is not 0: the command is stored and will be applied.
func (c *Conn) SendAndWait(ctx context.Context, cmd schemas.Command, wait time.Duration) (schemas.Outcome, Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return schemas.Outcome{}, Receipt{}, unavailable("the broker can't be reached", err)
	}
	defer sub.Unsubscribe()
	receipt, err := c.sendCommand(ctx, cmd, inbox, standsFull())
	if err != nil {
		return schemas.Outcome{}, receipt, err
	}
	// The outcome of a repeat went to its first sender, which may have been an earlier try of
	// ours, so listening alone is not enough; and a reply is sent once, so it can be lost.
	listen := silence
	if receipt.Duplicate {
		listen = 20 * time.Millisecond
	}
	for {
		if o, ok := awaitOutcome(ctx, sub, cmd.ID, listen); ok {
			return o, receipt, c.checkOutcome(ctx, cmd, receipt, o)
		}
		if o, ok := c.askOutcomeOnce(ctx, cmd, receipt); ok {
			return o, receipt, c.checkOutcome(ctx, cmd, receipt, o)
		}
		if err := ctx.Err(); err != nil {
			return schemas.Outcome{}, receipt, unavailable(
				fmt.Sprintf("the command is stored, but no engine answered within %s; send it again with the same id to learn its outcome", wait), err)
		}
		listen = min(2*listen, silence)
	}
}

// awaitOutcome listens for the outcome of a command for at most wait; false if it did not come.
func awaitOutcome(ctx context.Context, sub *nats.Subscription, id string, wait time.Duration) (schemas.Outcome, bool) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return schemas.Outcome{}, false
		}
		var o schemas.Outcome
		if err := schemas.DecodeJSON(m.Data, &o); err == nil && o.CommandID == id {
			return o, true
		}
	}
}

// askOutcomeOnce asks an engine for the outcome of a command, once; false if there is none yet.
func (c *Conn) askOutcomeOnce(ctx context.Context, cmd schemas.Command, r Receipt) (schemas.Outcome, bool) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	o, err := c.AskOutcome(ctx, cmd.Session, cmd.ID, r.Sequence)
	return o, err == nil
}

// Reply sends a command's outcome to its sender, if that one waits. It is best effort: a sender that hears
// nothing asks.
func (c *Conn) Reply(cmd StoredCommand, o schemas.Outcome) error {
	if !strings.HasPrefix(cmd.reply, inboxPrefix) {
		return nil
	}
	body, err := schemas.EncodeJSON(o)
	if err != nil {
		return fmt.Errorf("reply to command: %w", err)
	}
	if err := c.nc.Publish(cmd.reply, body); err != nil {
		return fmt.Errorf("reply to command: %w", err)
	}
	return nil
}

// Wake rings a session: some engine gets a wake-up for it. A wake has no outcome.
func (c *Conn) Wake(ctx context.Context, ref schemas.SessionRef) error {
	_, err := c.SendCommand(ctx, schemas.Command{ID: "wake-" + rand.Text(), Type: schemas.CommandWake, Session: ref})
	return err
}

func commandHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

// ttl renders a lifetime the way the broker reads it: in whole seconds, rounded up, at least one.
func ttl(d time.Duration) string {
	return strconv.FormatInt(max(int64((d+time.Second-1)/time.Second), 1), 10) + "s"
}

// notStored is an error that says why something that was sent is not stored.
func notStored(ctx context.Context, what string, cause error) error {
	if errors.Is(cause, ErrStorageFull) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", schemas.Errorf(schemas.CodeStorageFull, "the broker has no room for %s", what), cause)
	}
	return unavailable("the broker did not accept "+what, cause)
}

// unavailable is an error of code CodeUnavailable that keeps its cause.
func unavailable(message string, cause error) error {
	return fmt.Errorf("%w: %w", schemas.Errorf(schemas.CodeUnavailable, "%s", message), cause)
}
