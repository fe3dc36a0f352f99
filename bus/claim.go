package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// ClaimState says what a claim means.
type ClaimState string

// The states of a claim.
const (
	// ClaimHeld: the instance owns the session.
	ClaimHeld ClaimState = "held"
	// ClaimReleased: nobody does; who wants may claim.
	ClaimReleased ClaimState = "released"
	// ClaimDeleted: the session is gone for good.
	ClaimDeleted ClaimState = "deleted"
)

// Claim is a session's ownership record. A session has one at a time; a newer one replaces it.
type Claim struct {
	// Sequence is the claim's place in its stream. It is the fence of what is appended under it,
	// and never 0 for a claim that exists.
	Sequence uint64
	// Time is when the broker stored it.
	Time time.Time
	// Instance is the engine that wrote it.
	Instance string
	// Nonce is unique to the claim: an engine whose own acknowledgement was lost knows itself.
	Nonce string
	State ClaimState
	// Takeovers counts the claims in a row, this one included, that took the session from an
	// owner that did not release it; the claimer sets it, see [ClaimRequest].
	Takeovers int
}

// claimBody is a claim on the wire.
type claimBody struct {
	Version   int        `json:"version"`
	Instance  string     `json:"instance"`
	Nonce     string     `json:"nonce"`
	State     ClaimState `json:"state"`
	Takeovers int        `json:"takeovers,omitzero"`
}

// ErrClaimLost says that another claim came first. The error is a *[ClaimLostError].
var ErrClaimLost = errors.New("another claim came first")

// ClaimLostError names the claim that is there instead.
type ClaimLostError struct {
	Session schemas.SessionRef
	// Winner is the claim that came first, as far as it could be read: at least its Sequence,
	// which is 0 when the claim that was to be replaced is gone.
	Winner Claim
}

// Error says who has the session.
func (e *ClaimLostError) Error() string {
	return fmt.Sprintf("claim session %s: another claim came first: %d by %q", e.Session, e.Winner.Sequence, e.Winner.Instance)
}

// Is makes errors.Is(err, ErrClaimLost) true.
func (e *ClaimLostError) Is(target error) bool { return target == ErrClaimLost }

// ClaimRequest says who claims a session and over what.
type ClaimRequest struct {
	// Instance names the claiming engine: a valid name, random at each process start.
	Instance string
	// After is the last claim the claimer saw; zero for none.
	After Claim
	// Takeovers is stored in the claim.
	Takeovers int
}

// LastClaim reads a session's claim from the stream's leader; false if there is none. A leader
// that was cut off answers from the past: what is read here is a guess that a claim then proves.
func (c *Conn) LastClaim(ctx context.Context, ref schemas.SessionRef) (Claim, bool, error) {
	if err := ref.Validate(); err != nil {
		return Claim{}, false, err
	}
	shard := c.Shard(ref)
	m, err := c.leaderRead(ctx, sessionsStream(shard), directRequest{LastFor: ownerSubject(ref, shard)})
	if errors.Is(err, errNotFound) {
		return Claim{}, false, nil
	}
	if err != nil {
		return Claim{}, false, fmt.Errorf("read claim of %s: %w", ref, err)
	}
	claim, err := decodeClaim(m)
	return claim, err == nil, err
}

func decodeClaim(m stored) (Claim, error) {
	var body claimBody
	if err := schemas.DecodeJSON(m.Data, &body); err != nil {
		return Claim{}, fmt.Errorf("claim %d on %s: %w", m.Sequence, m.Subject, err)
	}
	return Claim{
		Sequence: m.Sequence, Time: m.Time, Instance: body.Instance, Nonce: body.Nonce,
		State: body.State, Takeovers: body.Takeovers,
	}, nil
}

// newNonce is 96 random bits.
func newNonce() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// claimMessage builds the message that replaces the claim at sequence after. It rolls up its
// subject, so that a session takes one claim's room however often it changes hands.
func claimMessage(subject string, body claimBody, after uint64) (*nats.Msg, error) {
	data, err := schemas.EncodeJSON(body)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(subject)
	m.Data = data
	m.Header.Set(headerRollup, "sub")
	m.Header.Set(headerExpectSubject, formatUint(after))
	m.Header.Set(headerMsgID, body.Nonce+"."+string(body.State))
	return m, nil
}

// Claim takes the session: a compare-and-set on the claim the caller saw last. Of several that
// try, one wins and the others get a *[ClaimLostError]. From then on the broker refuses every
// append of the owner before. It waits while the broker is busy, as long as ctx allows; at
// ctx's end the outcome is unknown, and claiming again over the same claim settles it.
//
// A claim says who may append. It says nothing of what stands in the log: the owner reads that
// first, see [Owner.Ends].
func (c *Conn) Claim(ctx context.Context, ref schemas.SessionRef, r ClaimRequest) (*Owner, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	if err := schemas.ValidateName("instance", r.Instance); err != nil {
		return nil, err
	}
	if r.After.State == ClaimDeleted {
		return nil, schemas.Errorf(schemas.CodeDeleted, "session %s was deleted", ref)
	}
	body := claimBody{Version: 1, Instance: r.Instance, Nonce: newNonce(), State: ClaimHeld, Takeovers: r.Takeovers}
	reconnects := c.reconnectCount()
	claim, err := c.putClaim(ctx, ref, body, r.After.Sequence)
	if err != nil {
		return nil, err
	}
	return newOwner(c, ref, claim, reconnects), nil
}

// putClaim stores a claim over the one at sequence after, or fails with a *ClaimLostError.
func (c *Conn) putClaim(ctx context.Context, ref schemas.SessionRef, body claimBody, after uint64) (Claim, error) {
	m, err := claimMessage(ownerSubject(ref, c.Shard(ref)), body, after)
	if err != nil {
		return Claim{}, err
	}
	claim := Claim{Instance: body.Instance, Nonce: body.Nonce, State: body.State, Takeovers: body.Takeovers}
	stale := 0
	for {
		ack, err := c.publishRetry(ctx, m, func(err error) bool { return !busy(err) })
		if err == nil {
			claim.Sequence, claim.Time = ack.Sequence, time.Now()
			return claim, nil
		}
		if busy(err) {
			return Claim{}, fmt.Errorf("claim session %s: %w", ref, err)
		}
		// The condition does not hold. Perhaps because an earlier try of ours is stored.
		last, _, readErr := c.LastClaim(ctx, ref)
		switch {
		case readErr != nil:
			return Claim{}, fmt.Errorf("claim session %s: %w", ref, readErr)
		case last.Nonce == body.Nonce && last.State == body.State:
			return last, nil
		case last.Sequence > after || stale >= maxStale:
			return Claim{}, &ClaimLostError{Session: ref, Winner: last}
		}
		// Refused, yet nothing newer to be read: one of both answers came from a leader that is
		// behind. Ask again, but not for ever: the claim may have been purged.
		stale++
		if err := sleep(ctx, jitter(stale+3)); err != nil {
			return Claim{}, fmt.Errorf("claim session %s: %w", ref, err)
		}
	}
}

// maxStale is how often answers that contradict each other are asked for again.
const maxStale = 10
