package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

func TestApplyKeepsMessagesInOrder(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b,
		b.frame(bob, meta("m"), prompt("one")),
		b.frame(ann, prompt("hers")),
		b.frame(bob, schemas.TextFragment(schemas.PhaseStart, ""), schemas.AssistantText("two")),
	)
	want := []string{"2.0 session_meta", "2.1 one", "5.1 two"}
	if diff := cmp.Diff(want, texts(t, s, bob)); diff != "" {
		t.Errorf("bob's messages (-want +got):\n%s", diff)
	}
	head, found, err := s.Head(bob)
	wantHead := Head{Epoch: epoch, Sequence: 5, Fence: 1, N: 2, Last: schemas.Position{Sequence: 5, Line: 1}}
	if err != nil || !found || head != wantHead {
		t.Errorf("head is %+v, %v, %v, want %+v", head, found, err, wantHead)
	}
	if mark, found, err := s.Applied(0); err != nil || !found || mark != b.mark() {
		t.Errorf("mark is %+v, %v, %v, want %+v", mark, found, err, b.mark())
	}
}

func TestApplySkipsWhatRepeats(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	first, second := b.frame(bob, prompt("one")), b.frame(bob, prompt("two"))
	apply(t, s, b, first, second)
	apply(t, s, b, first, second) // the consumer delivered the batch again

	late := second // a retried publish was stored twice
	b.sequence++
	late.Sequence = b.sequence
	late.Entries = []schemas.Entry{{Position: schemas.Position{Sequence: late.Sequence}, Message: second.Entries[0].Message}}
	apply(t, s, b, late)

	b.claim(bob)
	third := b.frame(bob, prompt("three"))
	old := late // an owner that had been replaced
	b.sequence++
	old.Sequence, old.N = b.sequence, 9
	old.Entries = []schemas.Entry{{Position: schemas.Position{Sequence: old.Sequence}, Message: second.Entries[0].Message}}
	apply(t, s, b, third, old)

	want := []string{"2.0 one", "3.0 two", "6.0 three"}
	if diff := cmp.Diff(want, texts(t, s, bob)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	info, _, err := s.Session(bob)
	if err != nil || info.Messages != 3 {
		t.Errorf("session counts %d messages, %v, want 3", info.Messages, err)
	}
}

func TestApplyRefuses(t *testing.T) {
	good := func() (*script, Frame) { b := newScript(); return b, b.frame(bob, prompt("x")) }
	for _, test := range []struct {
		name   string
		change func(f *Frame, m *Mark)
	}{
		{"another shard", func(f *Frame, _ *Mark) { f.Shard = 1 }},
		{"no sequence", func(f *Frame, _ *Mark) { f.Sequence = 0 }},
		{"no fence", func(f *Frame, _ *Mark) { f.Fence = 0 }},
		{"no number", func(f *Frame, _ *Mark) { f.N = 0 }},
		{"no epoch", func(f *Frame, _ *Mark) { f.Epoch = "" }},
		{"another epoch than the mark", func(f *Frame, _ *Mark) { f.Epoch = "e2" }},
		{"a name that would break keys", func(f *Frame, _ *Mark) { f.Session.ID = "a\x00b" }},
		{"a message of another frame", func(f *Frame, _ *Mark) { f.Entries[0].Position.Sequence++ }},
		{"a mark behind the frames", func(_ *Frame, m *Mark) { m.Sequence = 1 }},
		{"a message without payload", func(f *Frame, _ *Mark) { f.Entries[0].Message.Payload = nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, Options{})
			b, f := good()
			m := b.mark()
			test.change(&f, &m)
			if err := s.Apply(context.Background(), 0, []Frame{f}, m); err == nil {
				t.Fatal("applied")
			}
			if _, found, err := s.Applied(0); found || err != nil {
				t.Errorf("mark found: %v, %v", found, err)
			}
			if _, found, err := s.Head(bob); found || err != nil {
				t.Errorf("session found: %v, %v", found, err)
			}
		})
	}
}

func TestApplyRecognisesForeignStream(t *testing.T) {
	ctx := context.Background()
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, prompt("one")))

	other := b.frame(bob, prompt("two"))
	other.Epoch = "e2"
	if err := s.Apply(ctx, 0, []Frame{other}, Mark{Epoch: "e2", Sequence: other.Sequence}); !errors.Is(err, ErrForeign) {
		t.Errorf("another epoch: %v", err)
	}
	back := newScript().frame(bob, prompt("elsewhere"))
	back.Sequence, back.N = 1, 7
	back.Entries = nil
	if err := s.Apply(ctx, 0, []Frame{back}, b.mark()); !errors.Is(err, ErrForeign) {
		t.Errorf("a newer frame at an older sequence: %v", err)
	}

	if err := s.Reset(0); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Applied(0); found || err != nil {
		t.Errorf("mark after reset: %v, %v", found, err)
	}
	if err := s.Apply(ctx, 0, []Frame{other}, Mark{Epoch: "e2", Sequence: other.Sequence}); err != nil {
		t.Errorf("after reset: %v", err)
	}
	if diff := cmp.Diff([]string{"3.0 two"}, texts(t, s, bob)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestMarkNeverGoesBack(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, prompt("one")))
	if err := s.Apply(context.Background(), 0, nil, Mark{Epoch: epoch, Sequence: 1}); err != nil {
		t.Fatal(err)
	}
	if mark, _, err := s.Applied(0); err != nil || mark != b.mark() {
		t.Errorf("mark is %+v, %v, want %+v", mark, err, b.mark())
	}
}

func TestMessagesPages(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	for i := range 10 {
		apply(t, s, b, b.frame(bob, prompt(fmt.Sprint(i, "a")), prompt(fmt.Sprint(i, "b"))))
	}
	for _, test := range []struct {
		limit Limit
		pages int
	}{
		{Limit{}, 1},            // everything fits
		{Limit{Messages: 7}, 3}, // cut by number, within a frame
		{Limit{Bytes: 1}, 20},   // a page always holds one message
		{Limit{Messages: 20}, 1},
	} {
		var got []schemas.Position
		pages := 0
		for after, more := (schemas.Position{}), true; more; pages++ {
			page, err := s.Messages(context.Background(), bob, after, test.limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				got = append(got, e.Position)
			}
			if page.Head.N != 10 {
				t.Errorf("head of page is %+v", page.Head)
			}
			after, more = page.Next, page.More
		}
		if len(got) != 20 || pages != test.pages {
			t.Errorf("%+v: %d messages on %d pages, want 20 on %d", test.limit, len(got), pages, test.pages)
		}
		for i := 1; i < len(got); i++ {
			if got[i].Compare(got[i-1]) <= 0 {
				t.Errorf("%+v: %s follows %s", test.limit, got[i], got[i-1])
			}
		}
	}
}

// manyMessages is more than one chunk of them.
func manyMessages() []schemas.Payload {
	return slices.Repeat([]schemas.Payload{prompt("x")}, 1200)
}

func TestLoadEndsWhereItBegan(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, manyMessages()...))
	seen := 0
	head, err := s.Load(context.Background(), bob, func(schemas.Entry) error {
		if seen++; seen == 1 {
			apply(t, s, b, b.frame(bob, prompt("more"))) // the session goes on meanwhile
		}
		return nil
	})
	if err != nil || seen != 1200 || head.N != 1 {
		t.Errorf("saw %d messages, head %+v, %v", seen, head, err)
	}
}

func TestLoadTellsThatTheSessionChanged(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(s *Store, b *script)
	}{
		{"deleted", func(s *Store, b *script) { apply(t, s, b, b.tombstone(bob)) }},
		{"being rebuilt", func(s *Store, b *script) {
			if err := s.Reset(0); err != nil {
				t.Fatal(err)
			}
			b.heads[bob].Entries = b.heads[bob].Entries[:10]
			apply(t, s, b, *b.heads[bob])
		}},
		{"rebuilt from another stream", func(s *Store, b *script) {
			f := *b.heads[bob]
			f.Epoch = "e2"
			err := errors.Join(s.Reset(0), s.Apply(context.Background(), 0, []Frame{f}, Mark{Epoch: "e2", Sequence: f.Sequence}))
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, b := open(t, Options{}), newScript()
			apply(t, s, b, b.frame(bob, manyMessages()...))
			seen := 0
			err := each(context.Background(), s, bob, func(schemas.Entry) error {
				if seen++; seen == 1 {
					test.change(s, b)
				}
				return nil
			})
			if !errors.Is(err, ErrChanged) {
				t.Errorf("reading ended by %v after %d messages", err, seen)
			}
		})
	}
}

func TestLoadReturnsTheErrorOfYield(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, prompt("one"), prompt("two")))
	boom := errors.New("boom")
	if err := each(context.Background(), s, bob, func(schemas.Entry) error { return boom }); err != boom {
		t.Errorf("got %v", err)
	}
}

func TestUnknownSession(t *testing.T) {
	s := open(t, Options{})
	ctx := context.Background()
	if _, found, err := s.Session(bob); found || err != nil {
		t.Errorf("session: %v, %v", found, err)
	}
	if page, err := s.Messages(ctx, bob, schemas.Position{}, Limit{}); err != nil || len(page.Entries) != 0 || page.Head != (Head{}) {
		t.Errorf("messages: %+v, %v", page, err)
	}
	if head, err := s.Load(ctx, bob, nil); head != (Head{}) || err != nil {
		t.Errorf("load: %+v, %v", head, err)
	}
	if err := s.Export(ctx, bob, nil); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnknownSession}) {
		t.Errorf("export: %v", err)
	}
	if _, _, err := s.Session(schemas.SessionRef{Project: "p", ID: "no/name"}); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
		t.Errorf("invalid name: %v", err)
	}
}

func TestTombstoneRemovesEverything(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	ctx := context.Background()
	apply(t, s, b,
		b.frame(bob, meta("m"), prompt("one"), schemas.NewToolCall("c1", "sh", "{}")),
		b.frame(bob, tokens(5, 5), requestEnd(schemas.StopFailed)),
		b.frame(ann, meta("m"), prompt("hers"), tokens(7, 7)),
	)
	late := b.frame(bob, prompt("late"), tokens(1, 6))
	gone := b.tombstone(bob)
	apply(t, s, b, late, gone)                         // frames and tombstone in one batch
	late.Sequence, late.Entries = gone.Sequence+1, nil // and a duplicate after it
	b.sequence++
	apply(t, s, b, late, gone2(gone, b))

	if _, found, err := s.Session(bob); found || err != nil {
		t.Errorf("session: %v, %v", found, err)
	}
	if got := texts(t, s, bob); len(got) != 0 {
		t.Errorf("messages left: %v", got)
	}
	if _, found, err := s.Call(bob, "c1"); found || err != nil {
		t.Errorf("call: %v, %v", found, err)
	}
	if page, err := s.Failures(ctx, "p", FailureFilter{}, Paging{}); err != nil || len(page.Failures) != 0 {
		t.Errorf("failures: %+v, %v", page, err)
	}
	rows, err := s.Usage(ctx, "p", 0, DayOf(noon)+1)
	if err != nil || len(rows) != 1 || rows[0].Tokens.Total != 7 || rows[0].Requests != 1 {
		t.Errorf("usage: %+v, %v", rows, err)
	}
	page, err := s.Sessions(ctx, "p", Filter{}, Paging{})
	if err != nil || len(page.Sessions) != 1 || page.Sessions[0].Session != ann {
		t.Errorf("sessions: %+v, %v", page, err)
	}
	if err := s.Reset(0); err != nil {
		t.Fatal(err)
	}
	if left := dump(t, s); len(left) != 1 { // the format
		t.Errorf("left after reset: %q", left)
	}
}

// gone2 is the tombstone delivered again.
func gone2(f Frame, b *script) Frame {
	b.sequence++
	f.Sequence = b.sequence
	return f
}

// dump lists all keys of a store.
func dump(t testing.TB, s *Store) (keys []string) {
	t.Helper()
	err := s.scan(context.Background(), []byte{0}, []byte{0xff}, func(k, _ []byte) error {
		keys = append(keys, string(k))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestOutcomes(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	f := b.frame(bob, meta("m"), &schemas.CommandOutcome{CommandID: "k1", Sequence: 9, Code: schemas.CodeApplied})
	f.Cursor = 9
	apply(t, s, b, f, b.frame(bob, meta("m2")))
	got, found, err := s.Outcome(bob, "k1")
	want := schemas.Outcome{CommandID: "k1", Sequence: 9, Code: schemas.CodeApplied, Log: f.Sequence}
	if err != nil || !found || got != want {
		t.Errorf("outcome %+v, %v, %v, want %+v", got, found, err, want)
	}
	if _, found, err := s.Outcome(ann, "k1"); found || err != nil {
		t.Errorf("another session's command: %v, %v", found, err)
	}
}
