package client_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/client"
	"braid/schemas"
)

// A request whose answer is lost is sent again, and takes effect once.
func TestALostAnswerStartsNoSecondTask(t *testing.T) {
	w, _ := newWorld(t, nil)
	lost := map[string]int{}
	f := &faults{lose: func(r *http.Request) bool {
		if r.Method == http.MethodGet {
			return false
		}
		lost[r.URL.Path]++
		return lost[r.URL.Path] <= 2
	}}
	c := client.New(client.HTTP(f.proxy(t, w.url), token))
	defer c.Close()
	s := create(t, c, "shell/demo", schemas.ApproveAll)
	for n := 1; n <= 3; n++ {
		clear(lost)
		if r, err := s.Run(testContext(t), client.Prompt("hello")); err != nil || r.Status != schemas.StopCompleted {
			t.Fatalf("got %+v %v", r, err)
		}
		if info, err := s.Info(testContext(t)); err != nil || info.Tasks != n {
			t.Errorf("%d tasks, want %d, %v", info.Tasks, n, err)
		}
	}
	if err := s.Delete(testContext(t), false); err != nil {
		t.Error(err)
	}
}

// Whoever begins anew with its key gets the task it began before, through either transport.
func TestAKeyFindsItsTask(t *testing.T) {
	w, _ := newWorld(t, nil)
	var s *client.Session
	var results []client.Result
	var rooms []string
	w.each(t, func(t *testing.T, c *client.Client) {
		if s == nil {
			s = create(t, c, "shell/demo", schemas.ApproveAll)
		}
		for range 2 {
			r, err := c.Session(s.ID()).Run(testContext(t), client.Prompt("hello"), client.Key("order-17"))
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, r)
		}
		if _, err := c.Session(s.ID()).Start(testContext(t), client.Prompt("bye"), client.Key("order-17")); !client.IsCode(err, schemas.CodeConflict) {
			t.Errorf("another prompt under the key: %v", err)
		}
		again, err := c.Create(testContext(t), client.CreateOptions{CreateBody: schemas.CreateBody{Model: "shell/demo"}}, client.Key("room-4"))
		if err != nil {
			t.Fatal(err)
		}
		rooms = append(rooms, again.ID())
	})
	if len(rooms) != 2 || rooms[0] != rooms[1] {
		t.Errorf("one key made %v", rooms)
	}
	for _, r := range results {
		if diff := cmp.Diff(results[0], r); diff != "" || r.TaskID != "order-17" {
			t.Errorf("the results differ\n%s", diff)
		}
	}
}

// However often connections break, a range gives each event once and in order.
func TestBrokenConnectionsLoseAndRepeatNothing(t *testing.T) {
	w, _ := newWorld(t, nil)
	whole := client.New(client.HTTP(w.url, token))
	defer whole.Close()
	session := create(t, whole, "shell/demo", schemas.ApproveAll)
	task, err := session.Start(testContext(t), client.Prompt("$ seq 100\n$ echo two"))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	f := &faults{cut: func() int { return 200 + random.IntN(3000) }}
	cut := client.New(client.HTTP(f.proxy(t, w.url), token))
	defer cut.Close()
	for _, turns := range []bool{false, true} {
		want := untilEnd(t, session, turns, task.Cursor)
		before := f.requests.Load()
		got := untilEnd(t, cut.Session(session.ID()), turns, task.Cursor)
		if diff := cmp.Diff(slices.Concat(want.messages, want.turns), slices.Concat(got.messages, got.turns)); diff != "" {
			t.Errorf("(-whole +cut)\n%s", diff)
		}
		if f.requests.Load()-before < 2 {
			t.Error("the connection never broke")
		}
	}
}

// A cursor of a stream that is no more begins anew, and says so; a task that ran there is lost.
func TestAStreamMadeAnew(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		s := create(t, c, "shell/demo", schemas.ApproveAll)
		for name, events := range map[string]func() func(func(client.Event, error) bool){
			"stream": func() func(func(client.Event, error) bool) {
				return s.Stream(testContext(t), client.WatchOptions{After: "gone-7.0"})
			},
			"turns": func() func(func(client.Event, error) bool) {
				return s.Turns(testContext(t), client.WatchOptions{After: "gone-7.0"})
			},
		} {
			var got []string
			for event, err := range events() {
				if err != nil {
					t.Fatal(err)
				}
				switch e := event.(type) {
				case client.Gap:
					got = append(got, "gap")
					if !e.Reset || e.Reason == "" {
						t.Errorf("the gap is %+v", e)
					}
				case client.State:
					got = append(got, string(e.State))
				}
				if len(got) == 2 {
					break
				}
			}
			if diff := cmp.Diff([]string{"gap", "idle"}, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

// Fragments that have expired are told by a gap; what is recorded comes all the same, and a task that
// waited is found.
func TestExpiredFragments(t *testing.T) {
	script := "turns:\n  - steps:\n      - text: [a, {pause: 10ms}, b, {pause: 10ms}, c]\n"
	w, _ := newWorldOf(t, map[string]string{"m": script}, bus.Topology{LiveTTL: time.Second})
	w.each(t, func(t *testing.T, c *client.Client) {
		s := create(t, c, "scripted/m", schemas.ApproveAll)
		task, cursors, whole := watched(t, s)
		place := slices.Index(whole, schemas.KindRequestBegin)
		if whole[place+1] == schemas.KindPartialText { // else they expired before they were seen
			place++
		}
		after := cursors[place]
		w.expire(t, s.ID())
		var kinds []schemas.Kind
		gaps := 0
		for event, err := range s.Stream(testContext(t), client.WatchOptions{After: after}) {
			if err != nil {
				t.Fatal(err)
			}
			if gap, ok := event.(client.Gap); ok {
				if gaps++; gap.Reset {
					t.Errorf("the gap is %+v", gap)
				}
			}
			if m, ok := event.(client.Message); ok {
				kinds = append(kinds, m.Kind())
				if m.Kind() == schemas.KindTaskEnd {
					break
				}
			}
		}
		want := slices.DeleteFunc(slices.Clone(whole[place+1:]), func(k schemas.Kind) bool { return k == schemas.KindPartialText })
		if diff := cmp.Diff(want, kinds); diff != "" || gaps != 1 {
			t.Errorf("%d gaps (-want +got)\n%s", gaps, diff)
		}
		if r, err := task.Wait(testContext(t)); err != nil || r.Output != "abc" {
			t.Errorf("got %+v %v", r, err)
		}
	})
}

// watched is a task that is watched from before its beginning to its end: the messages' cursors and kinds.
func watched(t *testing.T, s *client.Session) (task *client.Task, cursors []string, kinds []schemas.Kind) {
	t.Helper()
	for event, err := range s.Stream(testContext(t), client.WatchOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case client.State:
			if task != nil {
				continue
			}
			if task, err = s.Start(testContext(t), client.Prompt("hello")); err != nil {
				t.Fatal(err)
			}
		case client.Message:
			cursors, kinds = append(cursors, e.Cursor), append(kinds, e.Kind())
			if e.Kind() == schemas.KindTaskEnd {
				return task, cursors, kinds
			}
		}
	}
	t.Fatal("the range ended")
	return nil, nil, nil
}

// expire waits until no live frame of the session is left.
func (w *world) expire(t *testing.T, id string) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for ctx, live := testContext(t), true; live; <-ticker.C {
		live = false
		for f, err := range w.conn.ReadFrames(ctx, schemas.SessionRef{Project: project, ID: id}, 0, 0, bus.LogAndLive) {
			if err != nil {
				t.Fatal(err)
			}
			live = live || !f.Header.Recorded
		}
	}
}

// A range that is not taken from holds up nobody: the task ends, and then all of it comes.
func TestASlowRange(t *testing.T) {
	script := "turns:\n  - steps:\n      - text: " + strings.Repeat("0123456789abcdef", 512<<10/16) + "\n        deltas: 200\n"
	w, _ := newWorld(t, map[string]string{"m": script})
	w.each(t, func(t *testing.T, c *client.Client) {
		s := create(t, c, "scripted/m", schemas.ApproveAll)
		var text strings.Builder
		ended := false
		for event, err := range s.Stream(testContext(t), client.WatchOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			switch e := event.(type) {
			case client.State: // nothing is taken until the task is over
				if ended {
					continue
				}
				if r, err := s.Run(testContext(t), client.Prompt("go")); err != nil || len(r.Output) != 512<<10 {
					t.Fatalf("got %d bytes, %v", len(r.Output), err)
				}
				ended = true
			case client.Gap:
				t.Errorf("a gap: %+v", e)
			case client.Message:
				if p, ok := e.Payload.(*schemas.PartialText); ok {
					text.WriteString(p.Text)
				}
			}
			if m, ok := event.(client.Message); ok && m.Kind() == schemas.KindTaskEnd {
				break
			}
		}
		if text.Len() != 512<<10 {
			t.Errorf("%d bytes were streamed", text.Len())
		}
	})
}

// stacks counts goroutines in whose stack all of the words are.
func stacks(words ...string) int {
	buffer := make([]byte, 8<<20)
	n := 0
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(stack, w) }) {
			n++
		}
	}
	return n
}

// Leaving a range ends all that it needed, whatever its turn.
func TestLeavingARange(t *testing.T) {
	w, err := startWorld(nil, bus.Topology{}) // alone: other tests have goroutines of the same kind
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	}()
	w.each(t, func(t *testing.T, c *client.Client) {
		s := create(t, c, "shell/demo", schemas.ApproveAll)
		task, err := s.Start(testContext(t), client.Prompt("hello"))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		ours := []string{"net/http.(*persistConn).readLoop", "nats%2ego.(*Conn).waitForMsgs"}
		count := func() (n int) {
			for _, word := range ours {
				n += stacks(word)
			}
			return n
		}
		begun := count()
		for leave := range 3 { // fewer than there are events
			for _, events := range []func(context.Context, client.WatchOptions) func(func(client.Event, error) bool){
				func(ctx context.Context, o client.WatchOptions) func(func(client.Event, error) bool) {
					return s.Stream(ctx, o)
				},
				func(ctx context.Context, o client.WatchOptions) func(func(client.Event, error) bool) {
					return s.Turns(ctx, o)
				},
			} {
				n := 0
				for _, err := range events(testContext(t), client.WatchOptions{After: task.Cursor}) {
					if n++; n > leave || err != nil {
						break
					}
				}
			}
		}
		c.Close()
		for ctx := testContext(t); count() > begun; runtime.Gosched() {
			if ctx.Err() != nil {
				t.Fatalf("%d goroutines more than before", count()-begun)
			}
		}
	})
}

// What is no Braid is told as such, at once; what may come back is waited for.
func TestForeignAnswers(t *testing.T) {
	ctx := testContext(t)
	info := func(answer ...string) (client.Info, []string, error) {
		url, asked := answers(t, answer...)
		c := client.New(client.HTTP(url, token))
		defer c.Close()
		i, err := c.Session("s").Info(ctx)
		return i, *asked, err
	}
	for _, test := range []struct {
		why, answer string
		code        schemas.Code
	}{
		{"another server", "404\nno such page", schemas.CodeInternal},
		{"a redirect, which the token must not follow", "302\n", schemas.CodeInternal},
		{"no JSON", "200\n<html>", schemas.CodeInternal},
		{"somebody else's JSON", "404\n" + `{"error":{"message":"no such page"}}`, schemas.CodeInternal},
		{"a code of a later version", "409\n" + `{"error":{"code":"odd","message":"m","field":"f"}}`, "odd"},
	} {
		if _, asked, err := info(test.answer); !client.IsCode(err, test.code) || len(asked) != 1 {
			t.Errorf("%s: %v, asked %d times", test.why, err, len(asked))
		}
	}
	i, asked, err := info("502\n", `502`+"\n"+`{"error":{"code":"unavailable","message":"m"}}`, `200`+"\n"+`{"session":{"id":"s","later":1}}`)
	if err != nil || i.ID != "s" || len(asked) != 3 {
		t.Errorf("got %+v %v, asked %d times", i, err, len(asked))
	}
	for why, ask := range map[string]func(c *client.Client) error{
		"create": func(c *client.Client) error {
			_, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{Model: "shell/demo"}})
			return err
		},
		"delete":       func(c *client.Client) error { return c.Session("s").Delete(ctx, false) },
		"put an agent": func(c *client.Client) error { return c.PutAgent(ctx, schemas.Agent{Name: "a", Model: "shell/demo"}) },
		"import": func(c *client.Client) error {
			_, err := c.Import(ctx, []byte("{}"), client.ImportOptions{})
			return err
		},
		"export": func(c *client.Client) error { return c.Session("s").Export(ctx, io.Discard) },
		"watch": func(c *client.Client) (err error) {
			for _, err = range c.Session("s").Stream(ctx, client.WatchOptions{}) {
			}
			return err
		},
	} {
		url, asked := answers(t, "200\n<html>Please log in.")
		c := client.New(client.HTTP(url, token))
		if err := ask(c); !client.IsCode(err, schemas.CodeInternal) || len(*asked) != 1 {
			t.Errorf("%s, where a proxy says 200: %v, asked %d times", why, err, len(*asked))
		}
		c.Close()
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	c := client.New(client.HTTP("http://127.0.0.1:1", token))
	defer c.Close()
	if _, err := c.Session("s").Info(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	for _, url := range []string{"::", "http://127.0.0.1:1/?token=t", "http://127.0.0.1:1/#/session/s"} {
		bad := client.New(client.HTTP(url, token))
		if _, err := bad.Session("s").Info(ctx); !client.IsCode(err, schemas.CodeInvalid) {
			t.Errorf("%s, which is no URL of a server: %v", url, err)
		}
		bad.Close()
	}
}

// Case F06: the end of a connection is not the end of the stream, and half an event is none.
func TestCase_F06_BrokenStreamIsNoEnd(t *testing.T) {
	event := func(n string) string {
		return "id: e-" + n + ".0\ndata: " + `{"timestamp":"2026-01-01T00:00:00.000Z","type":"event_msg","payload":{"type":"request_begin","attempt":` + n + `,"model":"m"}}`
	}
	url, asked := answers(t,
		"200\n: hello\n\nevent: odd\ndata: {}\n\n"+event("1")+"\n\n",
		"200\n"+event("2")+"\n\n"+event("9"), // no end: it must not be delivered
		"200\n"+event("3")+"\n\n",
		"200\nevent: session_deleted\ndata: {}\n\n")
	c := client.New(client.HTTP(url, token))
	defer c.Close()
	var got []string
	for e, err := range c.Session("s").Stream(testContext(t), client.WatchOptions{After: "e-0.0", Prompts: true}) {
		if err != nil {
			if !client.IsCode(err, schemas.CodeDeleted) {
				t.Error(err)
			}
			got = append(got, "deleted")
			continue
		}
		got = append(got, e.(client.Message).Cursor)
	}
	if diff := cmp.Diff([]string{"e-1.0", "e-2.0", "e-3.0", "deleted"}, got); diff != "" {
		t.Error(diff)
	}
	path := "GET /v1/sessions/s/stream?include=prompt e-"
	if diff := cmp.Diff([]string{path + "0.0", path + "1.0", path + "2.0", path + "3.0"}, *asked); diff != "" {
		t.Error(diff)
	}
}
