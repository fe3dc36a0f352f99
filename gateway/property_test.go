package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// frames groups the messages of generated entries as their frames.
func frames(entries []schemas.Entry) [][]schemas.Message {
	var out [][]schemas.Message
	for i, e := range entries {
		if i == 0 || e.Position.Sequence != entries[i-1].Position.Sequence {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], e.Message)
	}
	return out
}

// legal is a generated session.
func legal(seed int) [][]schemas.Message {
	return frames(schematest.LegalStream().Example(seed))
}

// decode reads an "id data" line back.
func decode(t testing.TB, line string) schemas.Entry {
	t.Helper()
	_, data, _ := strings.Cut(line, " ")
	m, err := schemas.Decode([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return schemas.Entry{Position: parseID(t, line).Position, Message: m}
}

// Whatever a session says, and however often a watcher loses its connection, on whichever
// gateway it comes back: together it gets the whole stream, each message once, in order; and
// what it gets keeps every rule of a stream.
func TestReconnectsLoseAndDoubleNothing(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.RingBytes = 4000 })
	other := serve(t, w.broker.Conn(t), func(o *Options) { o.Linger = 1 })
	for seed := range 12 {
		id := fmt.Sprintf("s%d", seed)
		s := w.engine.open(id)
		start := s.cursorAt(s.lastFrame(), 0)
		var watchers sync.WaitGroup
		for n := range 4 {
			watchers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
				got := watchBadly(t, []*served{w.served, other}, id, start, r)
				want := s.seen(false)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("session %d, watcher %d (-stored +got)\n%s", seed, n, diff)
				}
				checker := schemas.NewChecker(schemas.ViewStream)
				for _, line := range got {
					for _, v := range checker.Add(decode(t, line)) {
						t.Errorf("session %d: %s", seed, v)
					}
				}
				for _, v := range checker.Finish() {
					t.Errorf("session %d: %s", seed, v)
				}
			})
		}
		for _, f := range legal(seed) {
			s.append(f...)
		}
		s.append(schemas.Message{Timestamp: "now", Type: schemas.TypeEvent, Payload: &schemas.Unknown{Of: "the_end", Raw: []byte(`{"type":"the_end"}`)}})
		watchers.Wait()
	}
}

// watchBadly follows a session to "the_end" through connections that keep breaking.
func watchBadly(t *testing.T, gateways []*served, id, cursor string, r *rand.Rand) []string {
	var got []string
	for {
		e, err := gateways[r.IntN(len(gateways))].tryStream("/v1/sessions/"+id+"/stream", cursor)
		if err != nil || e.response.StatusCode != http.StatusOK {
			t.Errorf("reconnect at %s: %v", cursor, err)
			return got
		}
		for range 1 + r.IntN(40) {
			next, err := e.read()
			if err != nil || next.name == eventResync {
				t.Errorf("session %s at %s: %+v %v", id, cursor, next, err)
				return got
			}
			if next.id != "" {
				cursor = next.id
			}
			if !next.comment && next.name == "" {
				got = append(got, next.line())
			}
			if strings.Contains(next.data, `"the_end"`) {
				e.close()
				return got
			}
		}
		e.close()
	}
}

// Whenever a page is reloaded: the history, the beginnings of incomplete messages and the stream
// from the cursor make the same transcript as that of a page that was never reloaded.
func TestCase_C25_AReloadLosesNothing(t *testing.T) {
	w := newWorld(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		all := frames(schematest.LegalStream().Draw(rt, "stream"))
		cut := rapid.IntRange(0, len(all)).Draw(rt, "reload after frame")
		id := fmt.Sprintf("s%d", n)
		s := w.engine.open(id)
		watched := rapid.Bool().Draw(rt, "somebody watches already")
		keeper := keepHub(t, w, id, watched)
		for _, f := range all[:cut] {
			s.append(f...)
		}
		var page messagesView
		w.must(200, "GET", "/v1/sessions/"+id+"/messages?limit=1000", "").decode(t, &page)
		for _, f := range all[cut:] {
			s.append(f...)
		}
		stored := s.seen(true)
		rest := 0
		for _, line := range s.seen(false) {
			if parseID(t, line).Position.Compare(mustCursor(t, page.Cursor).Position) > 0 {
				rest++
			}
		}
		e := w.openStream("/v1/sessions/"+id+"/stream", page.Cursor)
		live, _ := e.resumed(rest)
		e.close()
		keeper()
		checkReload(rt, t, stored, page, live, watched)
	})
}

func keepHub(t *testing.T, w *world, id string, want bool) func() {
	if !want {
		return func() {}
	}
	e := w.openStream("/v1/sessions/"+id+"/stream", "")
	e.state()
	return e.close
}

func mustCursor(t testing.TB, s string) schemas.Cursor {
	t.Helper()
	c, err := schemas.ParseCursor(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkReload compares what a reloaded page has with what is stored.
func checkReload(rt *rapid.T, t *testing.T, stored []string, page messagesView, live []string, watched bool) {
	if page.More {
		rt.Fatal("one page is not enough for this test")
	}
	at := mustCursor(t, page.Cursor).Position
	var history, want []string
	for _, m := range page.Messages {
		line, err := schemas.Encode(m.Message)
		if err != nil {
			rt.Fatal(err)
		}
		history = append(history, m.ID+" "+string(line))
	}
	var after []string
	seen := &partials{}                  // what somebody saw who was there from the beginning
	ends := map[string][]schemas.Entry{} // of a request of each session, if these are its last messages
	for _, line := range stored {
		e := decode(t, line)
		if e.Position.Compare(at) > 0 {
			if e.Message.Visible() {
				after = append(after, line)
			}
			continue
		}
		seen.apply(e.Message)
		origin := strings.Join(e.Message.Origin, "/")
		switch e.Message.Kind() {
		case schemas.KindTokenUsage, schemas.KindRequestEnd, schemas.KindBudgetExceeded:
			ends[origin] = append(ends[origin], e)
		default:
			delete(ends, origin)
		}
		if e.Message.Recorded() {
			want = append(want, line)
		}
	}
	if diff := cmp.Diff(want, history); diff != "" {
		rt.Errorf("history up to %s (-stored +got)\n%s", at, diff)
	}
	if diff := cmp.Diff(after, live); diff != "" {
		rt.Errorf("stream from %s (-stored +got)\n%s", at, diff)
	}
	if diff := cmp.Diff(encodeAll(t, seen.messages(), watched), encodeAll(t, page.Partials, watched)); diff != "" {
		rt.Errorf("partials at %s (-seen +got)\n%s", at, diff)
	}
	checker := schemas.NewChecker(schemas.ViewStream, schemas.FromMiddle())
	for _, m := range page.Partials {
		for _, v := range checker.Add(schemas.Entry{Message: m}) {
			rt.Errorf("partials: %s", v)
		}
	}
	for _, end := range ends { // it stands in the history, and directly before what is streamed
		for _, e := range end {
			for _, v := range checker.Add(e) {
				rt.Errorf("the end of a request at %s: %s", at, v)
			}
		}
	}
	for _, line := range live {
		for _, v := range checker.Add(decode(t, line)) {
			rt.Errorf("after a reload at %s: %s", at, v)
		}
	}
}

// encodeAll encodes messages. Those of children are left out if nobody watched before: what a
// child began before the parent's turn is not looked for.
func encodeAll(t testing.TB, messages []schemas.Message, children bool) []string {
	lines := []string{}
	for _, m := range messages {
		if len(m.Origin) > 0 && !children {
			continue
		}
		line, err := schemas.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// Pages of the history join without loss, and only the last one has the tail.
func TestPagesOfHistory(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	for _, f := range legal(3) {
		s.append(f...)
	}
	s.say(schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "open"))
	var got []string
	after := ""
	for pages := 0; ; pages++ {
		path := "/v1/sessions/s/messages?limit=3"
		if after != "" {
			path += "&after=" + after
		}
		var page messagesView
		w.must(200, "GET", path, "").decode(t, &page)
		for _, m := range page.Messages {
			got = append(got, m.ID)
		}
		if !page.More {
			if page.Cursor == "" || len(page.Partials) != 2 || page.State == "" || pages < 3 {
				t.Errorf("the last of %d pages: %+v", pages+1, page)
			}
			break
		}
		if page.Cursor != "" || len(page.Partials) != 0 || page.Next == "" || len(page.Messages) == 0 {
			t.Errorf("a page amid the history: %+v", page)
		}
		after = page.Next
	}
	var want []string
	for _, line := range s.seen(true) {
		if decode(t, line).Message.Recorded() {
			want = append(want, parseID(t, line).String())
		}
	}
	if !slices.Equal(want, got) {
		t.Errorf("(-stored +got)\n%s", cmp.Diff(want, got))
	}
}
