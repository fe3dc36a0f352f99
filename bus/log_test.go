package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// testTime bounds every test that waits for the broker.
const testTime = 60 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	return ctx
}

var sessions, projects atomic.Int64

// newProject names a project no other test uses, and no other run of the same one.
func newProject() string { return fmt.Sprintf("p%d", projects.Add(1)) }

// newSession names a session no other test uses, so that tests can share a broker.
func newSession() schemas.SessionRef {
	return schemas.SessionRef{Project: "p", ID: fmt.Sprintf("s%d", sessions.Add(1))}
}

var testNow = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// said is a recorded message, delta a live one.
func said(format string, args ...any) schemas.Message {
	return schemas.New(testNow, schemas.AssistantText(fmt.Sprintf(format, args...)))
}

func delta(format string, args ...any) schemas.Message {
	return schemas.New(testNow, schemas.TextFragment(schemas.PhaseDelta, fmt.Sprintf(format, args...)))
}

// words renders messages for comparison: deltas as "~text", others as "text".
func words(messages ...schemas.Message) string {
	var out []string
	for _, m := range messages {
		switch p := m.Payload.(type) {
		case *schemas.Text:
			out = append(out, p.Text)
		case *schemas.PartialText:
			out = append(out, "~"+p.Text)
		default:
			out = append(out, string(m.Kind()))
		}
	}
	return strings.Join(out, " ")
}

// claim claims a session that the test expects to get.
func claim(t testing.TB, c *bus.Conn, ref schemas.SessionRef, instance string, after bus.Claim) *bus.Owner {
	t.Helper()
	o, err := c.Claim(testContext(t), ref, bus.ClaimRequest{Instance: instance, After: after})
	if err != nil {
		t.Fatalf("claim %s: %v", ref, err)
	}
	return o
}

func appendMessages(t testing.TB, o *bus.Owner, messages ...schemas.Message) bus.Ack {
	t.Helper()
	ack, err := o.Append(testContext(t), messages, 0)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return ack
}

// replay reads everything an owner would fold.
func replay(t testing.TB, o *bus.Owner, after bus.Point, kinds bus.Kinds) []bus.Frame {
	t.Helper()
	var frames []bus.Frame
	for f, err := range o.Replay(testContext(t), after, kinds) {
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
		frames = append(frames, f)
	}
	return frames
}

func readFrames(t testing.TB, c *bus.Conn, ref schemas.SessionRef, kinds bus.Kinds) []bus.Frame {
	t.Helper()
	var frames []bus.Frame
	for f, err := range c.ReadFrames(testContext(t), ref, 0, 0, kinds) {
		if err != nil {
			t.Fatalf("read frames: %v", err)
		}
		frames = append(frames, f)
	}
	return frames
}

func frameWords(frames []bus.Frame) string {
	var out []string
	for _, f := range frames {
		out = append(out, words(f.Messages...))
	}
	return strings.Join(out, " | ")
}

func TestOwnerAppendsAndTheNextReadsIt(t *testing.T) {
	bustest.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		a := claim(t, c, ref, "a", bus.Claim{})
		if frames := replay(t, a, bus.Point{}, bus.LogAndLive); len(frames) != 0 {
			t.Fatalf("a new session holds %d frames", len(frames))
		}
		appendMessages(t, a, said("one"))
		appendMessages(t, a, delta("t"), delta("w"))
		appendMessages(t, a, delta("o"), said("two"))
		last := appendMessages(t, a)
		if fresh := last.Fresh(last.SentAt.Add(time.Millisecond)); fresh == last.Duplicate { // of its own first try
			t.Errorf("fresh is %v: %+v", fresh, last)
		}
		if last.Fresh(last.SentAt.Add(2 * time.Second)) {
			t.Error("an acknowledgement stays fresh for ever")
		}
		if err := a.Release(testContext(t), bus.ClaimReleased); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Append(testContext(t), nil, 0); !errors.Is(err, bus.ErrFenced) {
			t.Errorf("append after release: %v", err)
		}
		released, ok, err := c.LastClaim(testContext(t), ref)
		if err != nil || !ok || released.State != bus.ClaimReleased || released.Instance != "a" {
			t.Fatalf("claim after release: %+v %v %v", released, ok, err)
		}

		next := claim(t, c, ref, "b", released)
		frames := replay(t, next, bus.Point{}, bus.LogAndLive)
		if got, want := frameWords(frames), "one | ~t ~w | ~o two | "; got != want {
			t.Errorf("replayed %q, want %q", got, want)
		}
		prev := uint64(0)
		for i, f := range frames {
			h := f.Header
			if h.Prev != prev || h.N != uint64(i+1) || h.Fence != a.Fence() || h.Epoch != c.Epoch(ref) || f.Session != ref || f.AfterGap {
				t.Errorf("frame %d: %+v", i, f)
			}
			if h.Recorded != (i == 0 || i == 2) {
				t.Errorf("frame %d: recorded is %v", i, h.Recorded)
			}
			prev = f.Sequence
		}
		if next.Last() != last.Sequence {
			t.Errorf("the next owner's last frame is %d, want %d", next.Last(), last.Sequence)
		}
		if got := frameWords(readFrames(t, c, ref, bus.LogOnly)); got != "one | ~o two" {
			t.Errorf("recorded frames: %q", got)
		}
		appendMessages(t, next, said("three"))
		all := readFrames(t, c, ref, bus.LogAndLive)
		tip := all[len(all)-1]
		if tip.Header.Prev != last.Sequence || tip.Header.N != 1 || tip.Header.Fence != next.Fence() || tip.AfterGap {
			t.Errorf("first frame of the next owner: %+v", tip)
		}
	})
}
