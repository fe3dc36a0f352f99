package systemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// session is one session of a world, watched from its creation on.
type session struct {
	t     *testing.T
	w     *world
	ref   schemas.SessionRef
	dir   string // its workspace
	tasks int    // started

	sse *sseWatcher
	raw *rawSubscriber

	cancel context.CancelFunc
	work   sync.WaitGroup
	read   int // arrivals that next has passed

	mu       sync.Mutex
	arrivals []arrival
	problems []string
	changed  chan struct{}
}

// arrival is a message as the session's follower got it.
type arrival struct {
	schemas.Entry
	fence uint64
	at    time.Time
}

// newSession creates a session of a scripted model and starts its watchers. They end, and are compared, in
// verify.
func (w *world) newSession(t *testing.T, model string, mode schemas.ApprovalMode) *session {
	t.Helper()
	return w.sessionOf(t, "scripted/"+model, mode)
}

// sessionOf is newSession for any model.
func (w *world) sessionOf(t *testing.T, model string, mode schemas.ApprovalMode) *session {
	t.Helper()
	_, name, _ := strings.Cut(model, "/")
	w.sessions++
	s := &session{
		t: t, w: w, changed: make(chan struct{}),
		ref: schemas.SessionRef{Project: project, ID: fmt.Sprintf("s%d-%s", w.sessions, name)},
	}
	s.dir = filepath.Join(w.dir, "workspaces", s.ref.ID)
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.api.post("/v1/sessions", s.ref.ID+"-create", map[string]any{
		"id": s.ref.ID, "model": model, "approval_mode": mode, "workspace": s.dir,
	}).accepted(t)
	s.sse = watchSSE(w.api, s.ref.ID, rand.New(rand.NewPCG(w.random.Uint64(), 0)))
	t.Cleanup(s.sse.close)
	var err error
	s.raw, err = subscribe(w.brokerAddress, bus.FeedSubject(s.ref, "*"), "braid."+project+".record."+s.ref.ID+".*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.raw.close)
	s.follow()
	t.Cleanup(s.unfollow)
	eventually(t, "the first snapshot of the stream", s.sse.began)
	return s
}

// brokerAddress is where some node of the broker listens, another one each time.
func (w *world) brokerAddress() string {
	nodes := strings.Split(w.url, ",")
	n := int(w.dials.Add(1)) % len(nodes)
	return strings.TrimPrefix(nodes[n], "nats://")
}

// follow keeps what the session says, with the time it came.
func (s *session) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	f, err := s.w.conn.Follow(ctx, s.ref, bus.FollowOptions{Beginning: true, CheckEvery: time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	s.work.Go(func() {
		defer f.Close()
		for {
			event, err := f.Next(ctx)
			if ctx.Err() != nil {
				return
			}
			s.mu.Lock()
			switch e := event.(type) {
			case bus.Frame:
				for _, entry := range e.Entries() {
					s.arrivals = append(s.arrivals, arrival{entry, e.Header.Fence, time.Now()})
				}
			case bus.CaughtUpEvent:
			case nil:
			default:
				s.problems = append(s.problems, fmt.Sprintf("the follower got %T %+v", e, e))
			}
			if err != nil {
				s.problems = append(s.problems, fmt.Sprintf("the follower failed: %v", err))
			}
			close(s.changed)
			s.changed = make(chan struct{})
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
}

func (s *session) unfollow() {
	s.cancel()
	s.work.Wait()
}

// next waits for the next message that fits, and passes it.
func (s *session) next(what string, fits func(schemas.Message) bool) arrival {
	s.t.Helper()
	return s.await(what, &s.read, func(a arrival) bool { return fits(a.Message) })
}

// await looks for an arrival from *from on, and leaves *from behind it.
func (s *session) await(what string, from *int, fits func(arrival) bool) arrival {
	s.t.Helper()
	a, ok := s.look(from, time.After(patience), fits)
	if !ok {
		s.t.Fatalf("%s: not within %s: %s\n%s", s.ref, patience, what, s.timeline())
	}
	return a
}

// look is await for any goroutine; false when the limit is reached.
func (s *session) look(from *int, limit <-chan time.Time, fits func(arrival) bool) (arrival, bool) {
	for {
		s.mu.Lock()
		arrivals, changed := s.arrivals, s.changed
		s.mu.Unlock()
		for ; *from < len(arrivals); *from++ {
			if fits(arrivals[*from]) {
				*from++
				return arrivals[*from-1], true
			}
		}
		select {
		case <-changed:
		case <-limit:
			return arrival{}, false
		}
	}
}

// nextUnder waits for the first message under a fence newer than the one given.
func (s *session) nextUnder(fence uint64) arrival {
	s.t.Helper()
	from := 0
	return s.await("a message of another owner", &from, func(a arrival) bool { return a.fence > fence })
}

// deltas waits for n more fragments of the model's text. How many a text comes in follows from how fast the
// broker is: more than one is for a model that talks on and on.
func (s *session) deltas(n int) {
	s.t.Helper()
	for range n {
		s.next("a fragment of text", func(m schemas.Message) bool {
			p, ok := m.Payload.(*schemas.PartialText)
			return ok && p.EventType == schemas.PhaseDelta
		})
	}
}

// hears waits until the model has said the words, in whatever fragments.
func (s *session) hears(words string) {
	s.t.Helper()
	said := ""
	s.next("the words "+words, func(m schemas.Message) bool {
		if p, ok := m.Payload.(*schemas.PartialText); ok && p.EventType == schemas.PhaseDelta {
			said += p.Text
		}
		return strings.Contains(said, words)
	})
}

func payload[P schemas.Payload](s *session, what string, fits func(P) bool) P {
	s.t.Helper()
	a := s.next(what, func(m schemas.Message) bool {
		p, ok := m.Payload.(P)
		return ok && fits(p)
	})
	return a.Message.Payload.(P)
}

// task starts a task.
func (s *session) task(prompt string) accepted {
	s.t.Helper()
	s.tasks++
	return s.w.api.post(s.path("tasks"), fmt.Sprintf("%s-task-%d", s.ref.ID, s.tasks), map[string]any{"prompt": prompt}).accepted(s.t)
}

func (s *session) path(what string) string { return "/v1/sessions/" + s.ref.ID + "/" + what }

// approve decides on the call that is asked about.
func (s *session) approve(p *schemas.ApprovalRequest, d schemas.Decision) {
	s.t.Helper()
	s.w.api.post(s.path("approvals/"+p.ToolCallID), p.ToolCallID+"-decision", map[string]any{"decision": d, "hash": p.Hash}).accepted(s.t)
}

// ends waits for the end of the task, and fails the test if it did not end as it should.
func (s *session) ends(status schemas.StopReason) arrival {
	s.t.Helper()
	a := s.next("the end of the task", func(m schemas.Message) bool { return m.Kind() == schemas.KindTaskEnd })
	if end := a.Message.Payload.(*schemas.TaskEnd); end.Status != status {
		s.t.Errorf("%s: the task ended %s, want %s: %+v\n%s", s.ref, end.Status, status, end, s.timeline())
	}
	return a
}

// lines reads a file of the session's workspace that commands append to: its whole lines, none of one
// that has just been made.
func (s *session) lines(name string) []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	all := strings.Split(string(data), "\n")
	return all[:len(all)-1]
}

// awaitEffects waits until commands have appended n lines.
func (s *session) awaitEffects(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d effects of %s", n, s.ref), func() bool { return len(s.lines("effects")) >= n })
}

// allow makes the file in the session's workspace that a command waits for.
func (s *session) allow(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// wantEffects fails the test unless exactly the words stand in the file of effects.
func (s *session) wantEffects(words ...string) {
	s.t.Helper()
	var got []string
	for _, line := range s.lines("effects") {
		_, word, _ := strings.Cut(line, " ")
		got = append(got, word)
	}
	if strings.Join(got, ",") != strings.Join(words, ",") {
		s.t.Errorf("%s: effects %q, want %q\n%s", s.ref, got, words, s.timeline())
	}
}

// output is the complete output of the last tool call.
func (s *session) output() *schemas.ToolCallOutput {
	s.t.Helper()
	return payload(s, "the output of the tool", func(*schemas.ToolCallOutput) bool { return true })
}

// rest waits until nobody owns the session.
func (s *session) rest() {
	s.t.Helper()
	eventually(s.t, s.ref.String()+" is let go", func() bool { return s.w.claim(s.ref).State == bus.ClaimReleased })
}

// timeline shows what the session has said, without the fragments in the middle.
func (s *session) timeline() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	for _, a := range s.arrivals {
		line, err := schemas.Encode(a.Message)
		if err != nil {
			line = []byte(err.Error())
		}
		if a.Message.Partial() && bytes.Contains(line, []byte(`"delta"`)) {
			continue
		}
		fmt.Fprintf(&b, "%s under %d at %s: %.300s\n", a.Position, a.fence, a.at.Format("05.000"), line)
	}
	return b.String()
}

// post is a task that may be refused.
func (s *session) post(prompt, key string) reply {
	s.t.Helper()
	r, err := s.w.api.once(context.Background(), http.MethodPost, s.path("tasks"), key, map[string]any{"prompt": prompt})
	if err != nil {
		s.t.Error(err)
	}
	return r
}
