package systemtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"braid/bus"
	"braid/schemas"
	"braid/schemas/schematest"
)

// verify checks, once the session is at rest, what must hold whatever happened to it: the stored
// stream keeps every guarantee and its own order, all watchers saw that stream, the trace holds
// what is recorded of it, and no call was started twice.
func (s *session) verify() {
	s.t.Helper()
	s.rest()
	frames := s.frames()
	s.verifyChain(frames)
	var all []schemas.Entry
	for _, f := range frames {
		all = append(all, f.Entries()...)
	}
	schematest.VerifyFinished(s.t, schemas.ViewFeed, all)
	s.verifyTasks(all)
	s.verifyFollower(all)
	s.verifySSE(all)
	s.verifyRaw(frames)
	s.verifyTrace(all)
	s.verifyCalls(all)
	if s.t.Failed() {
		s.t.Logf("%s:\n%s", s.ref, s.timeline())
	}
}

// frames reads all that is stored of the session.
func (s *session) frames() []bus.Frame {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var frames []bus.Frame
	for f, err := range s.w.conn.ReadFrames(ctx, s.ref, 0, 0, bus.LogAndLive) {
		if err != nil {
			s.t.Fatalf("read %s: %v", s.ref, err)
		}
		frames = append(frames, f)
	}
	return frames
}

// verifyChain checks that owners follow one another: none appended after a newer one, and each
// frame names the one before it.
func (s *session) verifyChain(frames []bus.Frame) {
	s.t.Helper()
	var last bus.Frame
	for _, f := range frames {
		h := f.Header
		n := uint64(1)
		if h.Fence == last.Header.Fence {
			n = last.Header.N + 1
		}
		if h.Fence < last.Header.Fence || h.N != n || h.Prev != last.Sequence || f.AfterGap || len(f.Lost) > 0 {
			s.t.Errorf("%s: frame %d (%+v) after frame %d (%+v)", s.ref, f.Sequence, h, last.Sequence, last.Header)
		}
		last = f
	}
}

// verifyTasks checks that each task that was accepted is there once, and has ended.
func (s *session) verifyTasks(all []schemas.Entry) {
	s.t.Helper()
	prompts, ends := 0, 0
	for _, e := range all {
		switch p := e.Message.Payload.(type) {
		case *schemas.Text:
			if p.Role == schemas.RoleUser && (p.Sender == "" || p.Sender == schemas.SenderUser) {
				prompts++
			}
		case *schemas.TaskEnd:
			ends++
		}
	}
	if prompts != s.tasks || ends != s.tasks {
		s.t.Errorf("%s: %d tasks were accepted, %d prompts and %d ends are stored", s.ref, s.tasks, prompts, ends)
	}
}

// verifyFollower compares what the follower delivered.
func (s *session) verifyFollower(all []schemas.Entry) {
	s.t.Helper()
	if len(all) > 0 {
		from, last := 0, all[len(all)-1].Position
		s.await("the follower's last message", &from, func(a arrival) bool { return a.Position.Compare(last) >= 0 })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.problems {
		s.t.Errorf("%s: %s", s.ref, p)
	}
	var got []schemas.Entry
	for _, a := range s.arrivals {
		got = append(got, a.Entry)
	}
	s.same("the follower", lines(s, got), lines(s, all))
}

// verifySSE compares what the HTTP stream delivered over all its connections.
func (s *session) verifySSE(all []schemas.Entry) {
	s.t.Helper()
	s.sse.mu.Lock()
	first, err := schemas.ParseCursor(s.sse.first)
	s.sse.mu.Unlock()
	if err != nil {
		s.t.Fatal(err)
	}
	var visible []schemas.Entry
	for _, e := range all {
		if e.Message.Visible() && e.Position.Compare(first.Position) > 0 {
			visible = append(visible, e)
		}
	}
	if len(visible) > 0 {
		last := visible[len(visible)-1].Position
		eventually(s.t, "the last event of "+s.ref.String(), func() bool { return s.sse.at().Compare(last) >= 0 })
	}
	s.sse.close()
	for _, p := range s.sse.problems {
		s.t.Errorf("%s: the event stream: %s", s.ref, p)
	}
	var got []string
	for i, e := range s.sse.entries {
		got = append(got, e.Position.String()+" "+s.sse.lines[i])
	}
	s.same("the event stream", got, lines(s, visible))
	schematest.VerifyFinished(s.t, schemas.ViewStream, s.sse.entries)
	s.check("stream", s.sse.capture.Bytes())
}

// verifyRaw compares what the plain subscriber saw: that may have holes, and nothing else.
func (s *session) verifyRaw(frames []bus.Frame) {
	s.t.Helper()
	s.raw.close()
	got, err := s.raw.taken(func(subject string) bool {
		return strings.HasSuffix(subject, ".log") || strings.HasSuffix(subject, ".live")
	})
	if err != nil {
		s.t.Errorf("%s: the plain subscriber: %v", s.ref, err)
	}
	stored := map[uint64]bus.Frame{}
	for _, f := range frames {
		stored[f.Sequence] = f
	}
	last, seen, again := uint64(0), map[uint64]bool{}, 0
	for _, m := range got {
		f, ok := stored[m.sequence]
		var want bytes.Buffer
		for _, message := range f.Messages {
			line, err := schemas.Encode(message)
			if err != nil {
				s.t.Fatal(err)
			}
			want.Write(append(line, '\n'))
		}
		switch {
		case !ok:
			s.t.Errorf("%s: the feed had frame %d, which is not stored: %s", s.ref, m.sequence, m.data)
		case !bytes.Equal(want.Bytes(), m.data):
			s.t.Errorf("%s: the feed's frame %d is\n%s, stored is\n%s", s.ref, m.sequence, m.data, &want)
		case seen[m.sequence]:
			again++
		case m.sequence < last:
			s.t.Errorf("%s: the feed had frame %d after %d", s.ref, m.sequence, last)
		}
		last, seen[m.sequence] = max(last, m.sequence), true
	}
	s.t.Logf("%s: %d frames stored, the plain subscriber saw %d of them (%d twice); the event stream had %d messages over %d connections",
		s.ref, len(frames), len(seen), again, len(s.sse.entries), s.sse.connects)
}

// verifyTrace compares what the trace exports.
func (s *session) verifyTrace(all []schemas.Entry) {
	s.t.Helper()
	var want bytes.Buffer
	for _, e := range all {
		if !e.Message.Recorded() {
			continue
		}
		line, err := schemas.Encode(e.Message)
		if err != nil {
			s.t.Fatal(err)
		}
		want.Write(append(line, '\n'))
	}
	got, err := s.braid("trace", "export", "--server", s.w.api.base, s.ref.ID)
	if err != nil {
		s.t.Errorf("%s: %v", s.ref, err)
		return
	}
	if !bytes.Equal(got, want.Bytes()) {
		s.same("the trace", strings.Split(string(got), "\n"), strings.Split(want.String(), "\n"))
	}
	s.check("recorded", got)
}

// check runs braid check over messages.
func (s *session) check(view string, messages []byte) {
	s.t.Helper()
	file := filepath.Join(s.w.dir, s.ref.ID+"."+view)
	if err := os.WriteFile(file, messages, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.braid("check", "--view", view, file); err != nil {
		s.t.Errorf("%s: braid check --view %s: %v\n%s", s.ref, view, err, out)
	}
}

func (s *session) braid(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "braid"), args...)
	cmd.Env = append(os.Environ(), "BRAID_TOKEN="+token)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("braid %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return out, nil
}

// verifyCalls checks that no call was started twice: by its records, where they were seen, and by
// what the commands themselves wrote. Every command of our scripts writes a line of effects.
func (s *session) verifyCalls(all []schemas.Entry) {
	s.t.Helper()
	runs := s.runs()
	records, err := s.raw.records()
	if err != nil {
		s.t.Errorf("%s: %v", s.ref, err)
	}
	for call, chain := range records {
		states := map[schemas.RecordState]map[uint64]bool{}
		for _, r := range chain {
			if states[r.State] == nil {
				states[r.State] = map[uint64]bool{}
			}
			states[r.State][r.Sequence] = true
		}
		starts, ends := len(states[schemas.RecordStarted]), len(states[schemas.RecordDone])+len(states[schemas.RecordWithdrawn])
		if starts > 1 || ends > 1 || len(states[schemas.RecordWithdrawn]) > 0 && runs[call] > 0 {
			s.t.Errorf("%s: call %s was started %d times, ended %d times and took effect %d times: %+v", s.ref, call, starts, ends, runs[call], chain)
		}
	}
	for _, e := range all {
		switch p := e.Message.Payload.(type) {
		case *schemas.ToolCallOutput:
			if p.StopReason == "" || p.StopReason == schemas.StopCompleted {
				if runs[p.ToolCallID] != 1 {
					s.t.Errorf("%s: call %s completed and took effect %d times", s.ref, p.ToolCallID, runs[p.ToolCallID])
				}
			}
		case *schemas.ApprovalDecision:
			if p.Decision != schemas.DecisionAllow && runs[p.ToolCallID] > 0 {
				s.t.Errorf("%s: call %s was not allowed and took effect", s.ref, p.ToolCallID)
			}
		}
	}
	for call, n := range runs {
		if n > 1 {
			s.t.Errorf("%s: call %s took effect %d times", s.ref, call, n)
		}
	}
}

// runs counts by call how often a command began.
func (s *session) runs() map[string]int {
	s.t.Helper()
	runs := map[string]int{}
	for _, line := range s.lines("effects") {
		mark, _, _ := strings.Cut(line, " ")
		parts := strings.Split(mark, ".") // toolrunner, project, session, call, random
		if len(parts) < 4 {
			s.t.Errorf("%s: an effect without a mark: %q", s.ref, line)
			continue
		}
		runs[parts[3]]++
	}
	return runs
}

// lines renders entries, a line each.
func lines(s *session, entries []schemas.Entry) []string {
	s.t.Helper()
	var out []string
	for _, e := range entries {
		line, err := schemas.Encode(e.Message)
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, e.Position.String()+" "+string(line))
	}
	return out
}

// same compares what a watcher has with what it should have.
func (s *session) same(who string, got, want []string) {
	s.t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			s.t.Errorf("%s: %s has %d messages, want %d; message %d is\n%s\nwant\n%s", s.ref, who, len(got), len(want), i, g, w)
			return
		}
	}
}
