package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

func TestClaimOfSeveralOneWins(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		var last bus.Claim
		for round := range 5 {
			const claimers = 6
			owners, errs := make([]*bus.Owner, claimers), make([]error, claimers)
			var wg sync.WaitGroup
			for i := range claimers {
				wg.Go(func() {
					owners[i], errs[i] = c.Claim(testContext(t), ref, bus.ClaimRequest{Instance: fmt.Sprintf("e%d", i), After: last, Takeovers: round})
				})
			}
			wg.Wait()
			var winner *bus.Owner
			for _, o := range owners {
				if o != nil && winner != nil {
					t.Fatalf("round %d: two owners, fences %d and %d", round, winner.Fence(), o.Fence())
				}
				if o != nil {
					winner = o
				}
			}
			if winner == nil {
				t.Fatalf("round %d: nobody won: %v", round, errs)
			}
			for _, err := range errs {
				var lost *bus.ClaimLostError
				if err == nil {
					continue
				}
				if !errors.Is(err, bus.ErrClaimLost) || !errors.As(err, &lost) {
					t.Fatalf("a loser got %v", err)
				}
				if lost.Winner.Sequence != winner.Fence() || lost.Winner.Instance != winner.Instance() {
					t.Errorf("a loser was told of %+v, the winner is %d by %s", lost.Winner, winner.Fence(), winner.Instance())
				}
			}
			got, ok, err := c.LastClaim(testContext(t), ref)
			if err != nil || !ok || got.Sequence != winner.Fence() || got.Takeovers != round || got.State != bus.ClaimHeld {
				t.Fatalf("last claim: %+v %v %v", got, ok, err)
			}
			if got.Sequence <= last.Sequence {
				t.Errorf("claim %d follows %d", got.Sequence, last.Sequence)
			}
			last = got
		}
	})
}

// A claimer whose acknowledgement was lost finds its own claim refused, and knows it by the nonce.
func TestCase_B10_ClaimWithLostAck(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		first, second, err := c.ClaimTwice(testContext(t), newSession(), "a", 0)
		if err != nil || first.Sequence != second.Sequence {
			t.Fatalf("claims %d and %d, %v", first.Sequence, second.Sequence, err)
		}
	})
}

// A claimer gets through to a session whose owner appends without a pause, though the broker
// refuses a claim while a frame is in flight.
func TestClaimOverABusyOwner(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c, other := b.Conn(t), b.Conn(t)
		for range 5 {
			ref := newSession()
			a := claim(t, c, ref, "a", bus.Claim{})
			appendMessages(t, a, said("first"))
			var wg sync.WaitGroup
			var stored uint64
			var fenced error
			wg.Go(func() {
				for fenced == nil {
					var ack bus.Ack
					if ack, fenced = a.Append(testContext(t), []schemas.Message{said("x")}, 0); fenced == nil {
						stored = ack.Sequence
					}
				}
			})
			next := claim(t, other, ref, "b", a.Claim())
			ends, err := next.Ends(testContext(t))
			wg.Wait()
			if err != nil || !errors.Is(fenced, bus.ErrFenced) {
				t.Fatalf("ends: %v, the old owner: %v", err, fenced)
			}
			if ends.Log < stored || ends.Log > next.Fence() {
				t.Errorf("the log ends at %d, acknowledged up to %d, claimed at %d", ends.Log, stored, next.Fence())
			}
		}
	})
}

func TestClaimRefusesBadInput(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	for name, ref := range map[string]schemas.SessionRef{
		"wildcard": {Project: "p", ID: "*"}, "tail wildcard": {Project: "p", ID: ">"}, "dot": {Project: "p", ID: "a.b"},
		"empty": {Project: "p"}, "space": {Project: "p q", ID: "a"}, "protocol": {Project: "p", ID: "x\r\nPUB y 0"},
	} {
		if _, err := c.Claim(context.Background(), ref, bus.ClaimRequest{Instance: "a"}); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
			t.Errorf("%s: claim: %v", name, err)
		}
		if _, err := c.Follow(context.Background(), ref, bus.FollowOptions{}); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
			t.Errorf("%s: follow: %v", name, err)
		}
		if _, err := c.SessionEnds(context.Background(), ref); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
			t.Errorf("%s: ends: %v", name, err)
		}
	}
	if _, err := c.Claim(context.Background(), newSession(), bus.ClaimRequest{Instance: "not a name"}); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
		t.Errorf("instance: %v", err)
	}
}

// A condition is a sequence of the stream, which all sessions of a shard share, and not a count
// of the session's own frames.
func TestCase_B12_SessionsShareAStream(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		const sessions, frames = 10, 30
		owners := make([]*bus.Owner, sessions)
		for i := range owners {
			owners[i] = claim(t, c, newSession(), "a", bus.Claim{})
		}
		var wg sync.WaitGroup
		for _, o := range owners {
			wg.Go(func() {
				for n := range frames {
					if _, err := o.Append(testContext(t), []schemas.Message{said("%d", n)}, 0); err != nil {
						t.Errorf("append: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		for _, o := range owners {
			if got := readFrames(t, c, o.Session(), bus.LogOnly); len(got) != frames {
				t.Errorf("%s holds %d frames, want %d", o.Session(), len(got), frames)
			}
		}
	})
}

func TestDeletedSessionStaysDeleted(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, o, said("one"))
		appendMessages(t, o, delta("two"))
		f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
		expectWords(t, f, "one")
		expectWords(t, f, "~two")
		expectCaughtUp(t, f)
		for range 2 { // again: nothing changes
			if err := c.DeleteSession(testContext(t), ref, "gateway"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := o.Append(testContext(t), []schemas.Message{said("three")}, 0); !errors.Is(err, bus.ErrFenced) {
			t.Errorf("append to a deleted session: %v", err)
		}
		if got := readFrames(t, c, ref, bus.LogAndLive); len(got) != 0 {
			t.Errorf("a deleted session holds %q", frameWords(got))
		}
		last, ok, err := c.LastClaim(testContext(t), ref)
		if err != nil || !ok || last.State != bus.ClaimDeleted {
			t.Fatalf("claim: %+v %v %v", last, ok, err)
		}
		if _, err := c.Claim(testContext(t), ref, bus.ClaimRequest{Instance: "b", After: last}); !errors.Is(err, &schemas.Error{Code: schemas.CodeDeleted}) {
			t.Errorf("claim of a deleted session: %v", err)
		}
		expectResync(t, f)
	})
}
