package bus_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// A new owner's reads are answered by a replica that knows neither its claim nor the last frames,
// half of the time and then all of the time: it reads all of them, or goes on asking.
func TestTakeoverPastAReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	for _, obliging := range []bool{false, true} {
		b := bustest.Single(t)
		c, other := b.Conn(t), b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, o, said("known"))
		appendMessages(t, o, delta("known"))
		behind := addReplica(t, b, c, c.SessionsStream(ref), 50)
		behind.mu.Lock()
		behind.obliging = obliging
		behind.mu.Unlock()
		want := "known | ~known"
		for range 6 {
			appendMessages(t, o, said("new"))
			appendMessages(t, o, delta("new"))
			want += " | new | ~new"
			last := o.Last()
			o = claim(t, other, ref, "b", o.Claim())
			if got := frameWords(replay(t, o, bus.Point{}, bus.LogAndLive)); got != want {
				t.Fatalf("obliging %v: the new owner reads %q, want %q", obliging, got, want)
			}
			if o.Last() != last {
				t.Errorf("obliging %v: the log ends at %d, read up to %d", obliging, last, o.Last())
			}
			if got := frameWords(readFrames(t, other, ref, bus.LogAndLive)); got != want {
				t.Errorf("obliging %v: a reader gets %q, want %q", obliging, got, want)
			}
		}
		if behind.used() == 0 {
			t.Fatal("no read went to the replica")
		}
	}
}

// The owner whose claim is replaced while it looks for it in replicas learns so from the leader.
func TestTakeoverSupersededWhileItReads(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	c := b.Conn(t)
	ref := newSession()
	first := claim(t, c, ref, "a", bus.Claim{})
	addReplica(t, b, c, c.SessionsStream(ref), 100)
	o := claim(t, c, ref, "b", first.Claim())
	claim(t, c, ref, "c", o.Claim())
	if _, err := o.Ends(testContext(t)); !errors.Is(err, bus.ErrFenced) {
		t.Errorf("ends: %v", err)
	}
}

// Nothing but a newer one may remove a claim: a stream that drops old messages by itself would
// take the claim of a session that has been quiet.
func TestStreamsOfSessionsDropNothing(t *testing.T) {
	t.Parallel()
	c := bustest.Single(t).Conn(t)
	ref := newSession()
	s, err := c.JetStream().Stream(testContext(t), c.SessionsStream(ref))
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	if config.MaxAge != 0 || config.MaxBytes > 0 || config.MaxMsgs > 0 || config.MaxMsgsPerSubject > 0 || config.Discard != jetstream.DiscardNew {
		t.Errorf("sessions are kept by %+v", config)
	}
	if !config.AllowRollup || config.DenyPurge {
		t.Errorf("claims can't roll up: %+v", config)
	}
	// Calls are forgotten before their records are: a call without records can't start, and must
	// not hang around either.
	tools, err := c.JetStream().Stream(testContext(t), "TOOLS")
	if err != nil {
		t.Fatal(err)
	}
	for _, outputs := range outputStreams(t, c) {
		if a, b := tools.CachedInfo().Config.MaxAge, outputs.CachedInfo().Config.MaxAge; a <= 0 || 2*a >= b {
			t.Errorf("calls are kept for %s, their records for %s", a, b)
		}
	}
}

// Who claimed, was stopped, and clears only now what others left does not take the key of who
// came after it.
func TestClearOthersLeavesLaterKeys(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := schemas.SessionRef{Project: newProject(), ID: "s"}
		mark(t, c, "before-"+ref.Project, ref)
		own := mark(t, c, "self-"+ref.Project, ref)
		later := mark(t, c, "later-"+ref.Project, ref)
		if err := c.ClearOthers(testContext(t), ref, "self-"+ref.Project, own); err != nil {
			t.Fatal(err)
		}
		for instance, want := range map[string]uint64{"before-": 0, "self-": own, "later-": later} {
			eventually(t, instance+" is as it should be", func() bool {
				keys, err := c.RunningOf(testContext(t), instance+ref.Project)
				if err != nil {
					t.Fatal(err)
				}
				return (len(keys) == 0 && want == 0) || (len(keys) == 1 && keys[0].Revision == want)
			})
		}
	})
}

// A frame that was given up by nobody, and arrives twice: the one that comes late carries a
// number that was taken, and readers of the log and of the stream drop it.
func TestCase_B13_FrameStoredTwice(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, o, said("one"))
		appendMessages(t, o, said("two"))
		s, err := c.JetStream().Stream(testContext(t), c.SessionsStream(ref))
		if err != nil {
			t.Fatal(err)
		}
		sequence := readFrames(t, c, ref, bus.LogOnly)[0].Sequence
		var first *jetstream.RawStreamMsg
		eventually(t, "the replica that is asked has the frame", func() bool {
			first, err = s.GetMsg(testContext(t), sequence)
			if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
				t.Fatal(err)
			}
			return err == nil
		})
		again := &nats.Msg{Subject: first.Subject, Header: first.Header, Data: first.Data}
		for _, name := range []string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"} {
			again.Header.Del(name) // the reading added them
		}
		// Another id stands for the time past which the broker does not know the first one any more.
		again.Header.Set("Nats-Msg-Id", "late-"+first.Header.Get("Nats-Msg-Id"))
		if _, err := c.JetStream().PublishMsg(testContext(t), again); err != nil {
			t.Fatal(err)
		}
		appendMessages(t, o, said("three"))
		for _, kinds := range []bus.Kinds{bus.LogOnly, bus.LogAndLive} {
			if got := frameWords(readFrames(t, c, ref, kinds)); got != "one | two | three" {
				t.Errorf("kinds %d: read %q", kinds, got)
			}
		}
	})
}
