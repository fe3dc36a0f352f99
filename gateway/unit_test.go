package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"braid/bus"
	"braid/schemas"
)

// The ring keeps what it says: everything behind its base, within its limit.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5000).Draw(t, "limit")
		r := &ring{limit: limit}
		var all []*entry
		for i := range rapid.IntRange(0, 60).Draw(t, "entries") {
			e := &entry{
				position: schemas.Position{Sequence: uint64(3*i + 3), Line: i % 3},
				encoded:  make([]byte, rapid.IntRange(0, 700).Draw(t, "size")),
			}
			r.push(e)
			all = append(all, e)
			size := 0
			for _, kept := range r.entries {
				size += len(kept.encoded) + entryOverhead
			}
			if size != r.bytes || size > limit && len(r.entries) > 1 {
				t.Fatalf("%d bytes counted as %d, the limit is %d", size, r.bytes, limit)
			}
		}
		at := schemas.Position{Sequence: rapid.Uint64Range(0, 200).Draw(t, "sequence"), Line: rapid.IntRange(0, 3).Draw(t, "line")}
		want := slices.Clone(all)
		want = slices.DeleteFunc(want, func(e *entry) bool { return e.position.Compare(at) <= 0 })
		number, ok := r.find(at)
		if !ok {
			if len(want) == len(r.entries) && at.Compare(r.base) >= 0 {
				t.Fatal("refused a place it has everything behind")
			}
			return
		}
		got, ok := r.from(number, 1<<30)
		if !ok || !slices.Equal(want, got) {
			t.Fatalf("after %s: %d entries, want %d", at, len(got), len(want))
		}
		if _, ok := r.from(r.end()+1, 1); ok {
			t.Fatal("an entry that does not exist yet")
		}
		if batch, ok := r.from(number, 1); ok && len(want) > 0 && len(batch) != 1 {
			t.Fatalf("a batch of %d", len(batch))
		}
	})
}

// What a watcher keeps of the server's memory does not grow with what it does not read.
func TestCase_C09_MemoryIsBounded(t *testing.T) {
	h := &hub{epoch: "e"}
	h.mu.ring.limit = 100 << 10
	h.mu.changed = make(chan struct{})
	for i := range 10000 {
		f := bus.Frame{Sequence: uint64(i + 1), Messages: []schemas.Message{schemas.New(time.Now(), schemas.AssistantText(strings.Repeat("x", 1000)))}}
		if err := h.push(f); err != nil {
			t.Fatal(err)
		}
	}
	if h.mu.ring.bytes > 100<<10 || cap(h.mu.ring.entries) > 1000 {
		t.Errorf("%d bytes, room for %d entries", h.mu.ring.bytes, cap(h.mu.ring.entries))
	}
	if len(h.mu.partials.open) != 0 {
		t.Error("complete messages are kept")
	}
}

// An entry gives every suffix of itself, with and without prompts.
func TestEntryAfter(t *testing.T) {
	now := time.Now()
	f := bus.Frame{Sequence: 7, Messages: []schemas.Message{
		schemas.NewTraceOnly(now, &schemas.CommandOutcome{}),
		schemas.NewTraceOnly(now, schemas.UserText("p")),
		schemas.New(now, &schemas.RequestBegin{}),
		schemas.New(now, &schemas.RequestEnd{}),
	}}
	e, err := encodeFrame("e", f)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		sequence uint64
		line     int
		prompts  bool
		want     string
	}{
		{3, 9, true, "1 2 3"},
		{3, 9, false, "2 3"},
		{7, 0, true, "1 2 3"},
		{7, 0, false, "2 3"},
		{7, 1, true, "2 3"},
		{7, 2, true, "3"},
		{7, 3, true, ""},
		{7, 99, false, ""},
	} {
		var got []string
		for _, chunk := range e.after(schemas.Position{Sequence: row.sequence, Line: row.line}, row.prompts) {
			for line := range strings.Lines(string(chunk)) {
				if id, ok := strings.CutPrefix(line, "id: e-7."); ok {
					got = append(got, strings.TrimSpace(id))
				}
			}
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("after %d.%d, prompts %v: %q, want %q", row.sequence, row.line, row.prompts, got, row.want)
		}
	}
}

// Whatever a body holds, it decodes or is refused with a clear error, which does not repeat what
// was in it.
func FuzzDecodeBody(f *testing.F) {
	for _, seed := range []string{
		`{"prompt":"x"}`, `{"prompt":"x","y":1}`, `{"prompt":1}`, `{"prompt":"a","prompt":"b"}`, `{`, ``, `[]`, `null`,
		`{"id":"a","model":"shell/demo","approval_mode":"always-ask"}`, "{\"prompt\":\"\xff\"}", `{"decision":{"a":[1]}}`, `{"a/b~c":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []any{new(createRequest), new(schemas.TaskBody), new(decisionRequest), new(abortRequest)} {
			err := schemas.DecodeInput(body, v)
			if err == nil {
				continue
			}
			known, ok := err.(*schemas.Error)
			if !ok || known.Code != schemas.CodeInvalid || known.Message == "" || len(known.Field) > 200 {
				t.Errorf("%q: %#v", body, err)
			}
			if _, err := schemas.EncodeJSON(known); err != nil {
				t.Errorf("%q: the error can't be sent: %v", body, err)
			}
		}
	})
}

// Whatever a client gives as its cursor, it is the very cursor or is refused.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"e-1.0", "", "e-1", "-1.0", "e-1.0.0", "e--1.0", "a-b-1.0", "e-18446744073709551615.2147483647", "e-+1.0"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, cursor string, inHeader bool) {
		r := httptest.NewRequest(http.MethodGet, "/v1/sessions/s/stream", nil)
		if inHeader {
			r.Header.Set("Last-Event-ID", cursor)
		} else {
			r.URL.RawQuery = url.Values{"last_event_id": {cursor}}.Encode()
		}
		w, err := readWatch(r)
		switch known, ok := err.(*schemas.Error); {
		case err != nil:
			if !ok || statusOf(known.Code) != http.StatusBadRequest || known.Field == "" {
				t.Errorf("%q: %#v", cursor, err)
			}
		case cursor == "":
			if !w.after.IsZero() {
				t.Errorf("no cursor became %s", w.after)
			}
		case w.after.String() != cursor:
			t.Errorf("%q became %s", cursor, w.after)
		}
	})
}

// Encoding a frame as watchers get it.
func BenchmarkEncodeFrame(b *testing.B) {
	for _, n := range []int{1, 20} {
		f := bus.Frame{Sequence: 7}
		for i := range n {
			f.Messages = append(f.Messages, schemas.New(time.Now(), schemas.TextFragment(schemas.PhaseDelta, fmt.Sprint("some words ", i))))
		}
		b.Run(fmt.Sprintf("%d messages", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := encodeFrame("e0123456789ab", f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// discard is a client that takes everything.
type discard struct{ header http.Header }

func (d discard) Header() http.Header                { return d.header }
func (d discard) Write(b []byte) (int, error)        { return len(b), nil }
func (d discard) WriteHeader(int)                    {}
func (d discard) FlushError() error                  { return nil }
func (d discard) SetReadDeadline(time.Time) error    { return nil }
func (d discard) SetWriteDeadline(_ time.Time) error { return nil }

// Whoever may try again is told when, also if it is a full queue that is in the way.
func TestRefusalsThatPassSayWhen(t *testing.T) {
	for _, row := range []struct {
		code    schemas.Code
		status  int
		seconds string
	}{
		{schemas.CodeQueueFull, 429, "5"},
		{schemas.CodeTooMany, 429, "5"},
		{schemas.CodeUnavailable, 503, "1"},
		{schemas.CodeStorageFull, 503, "30"},
		{schemas.CodeTaskInProgress, 409, ""},
		{schemas.CodeInternal, 500, ""},
	} {
		w := httptest.NewRecorder()
		writeError(w, statusOf(row.code), schemas.Errorf(row.code, "no"))
		if got := w.Header().Get("Retry-After"); w.Code != row.status || got != row.seconds {
			t.Errorf("%s: %d, Retry-After %q, want %d, %q", row.code, w.Code, got, row.status, row.seconds)
		}
	}
}
