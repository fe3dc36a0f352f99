package interop

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"braid/bus"
	"braid/client"
	"braid/deploy/deploytest"
	"braid/schemas"
)

// program is a running program of node.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	ended bool
}

// node starts one of the programs of testdata, where the packages are that it imports.
func node(t *testing.T, dir, script string, arguments ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command("node", append([]string{filepath.Join(dir, script)}, arguments...)...)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// line is the next one that it prints.
func (p *program) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("it ended: %v", errors.Join(p.lines.Err(), p.cmd.Wait()))
	}
	return p.lines.Text()
}

func (p *program) kill() {
	if !p.ended {
		p.ended = true
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

func (p *program) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Error(err)
	}
}

// ends waits until it has ended in order.
func (p *program) ends() {
	p.t.Helper()
	p.ended = true
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("it ended with %v", err)
	}
}

// startToolrunner starts the toolrunner of node with the rights of a toolrunner.
func (w *world) startToolrunner() (p *program, instance string) {
	w.t.Helper()
	return w.startToolrunnerAt(w.broker.Addr().String())
}

func (w *world) startToolrunnerAt(broker string) (p *program, instance string) {
	w.t.Helper()
	p = node(w.t, installed(w.t), "toolrunner.mjs", "nats://toolrunner:"+deploytest.Password+"@"+broker)
	instance, _, _ = strings.Cut(p.line(), " ")
	return p, instance
}

// outputs are the outputs of the calls among messages, in order, each behind how it ended.
func outputs(messages []client.Message) (all []string) {
	for _, m := range messages {
		if p, ok := m.Payload.(*schemas.ToolCallOutput); ok {
			stop := p.StopReason
			if stop == "" {
				stop = schemas.StopCompleted
			}
			all = append(all, string(stop)+": "+p.Output)
		}
	}
	return all
}

// said calls do once, when a running call has said the words.
func said(words string, do func(call string)) func(client.Message) {
	text, done := "", false
	return func(m client.Message) {
		p, ok := m.Payload.(*schemas.PartialToolCallOutput)
		if !ok || done {
			return
		}
		if text += p.Output; strings.Contains(text, words) {
			done = true
			do(p.ToolCallID)
		}
	}
}

func wantOutputs(t *testing.T, messages []client.Message, want ...string) {
	t.Helper()
	got := outputs(messages)
	slices.Sort(got) // calls of a turn run side by side
	slices.Sort(want)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the outputs are\n%q, want\n%q", got, want)
	}
}

func wantEnd(t *testing.T, messages []client.Message, want schemas.StopReason) {
	t.Helper()
	if end := messages[len(messages)-1].Payload.(*schemas.TaskEnd); end.Status != want {
		t.Errorf("the task ended as %s, %+v; want %s", end.Status, end.ErrorInfo, want)
	}
}

// counted is what the tool count says.
func counted(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i+1) + " is the number ✓\n")
	}
	return b.String()
}

// docs/protocol.md suffices to write a toolrunner in another language: this one is in node.
func TestNodeToolrunner(t *testing.T) {
	installed(t)
	outer := newWorld(t)
	wire := newWire(t, outer.broker.Addr().String())
	runner, instance := outer.startToolrunnerAt(wire.Addr().String())

	t.Run("calls run side by side", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "numbers", nothing)
		wantOutputs(t, all, "completed: "+counted(3), "completed: "+counted(40))
		wantEnd(t, all, schemas.StopCompleted)
		w.stored(s)
	})

	t.Run("what fails says so", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "trouble", nothing)
		wantOutputs(t, all,
			"failed: so far, so good\n[failed: there is no such thing]",
			"completed: "+strings.Repeat("é", 500)+"\n[output truncated: kept the first 1000 of 10000 bytes]",
			"timeout: in a moment\n[timed out after 300 ms]")
		wantEnd(t, all, schemas.StopCompleted)
		w.stored(s)
	})

	t.Run("output is streamed and sent again, and a call is cancelled", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "patience", said("waiting", func(call string) {
			w.resends(instance, w.ref(s), call)
			if err := s.Abort(t.Context(), "enough", false); err != nil {
				t.Error(err)
			}
		}))
		late := "aborted: waiting\n\n[aborted; the tool did not end in time and may still be running]" // by its owner's word
		if out := outputs(all); !slices.Equal(out, []string{"aborted: waiting\n[aborted]"}) && !slices.Equal(out, []string{late}) {
			t.Errorf("the outputs are %q", out)
		}
		wantEnd(t, all, schemas.StopAborted)
		w.stored(s)
	})

	t.Run("calls that are too large for a message, withdrawn, or nonsense", func(t *testing.T) {
		w := outer.in(t)
		w.queue("large", schemas.RecordQueued, `{"n":1,"padding":"`+strings.Repeat("x", 2<<20)+`"}`)
		w.queue("nonsense", schemas.RecordQueued, `[1]`)
		w.queue("withdrawn", schemas.RecordWithdrawn, `{"n":2}`)
		if last := w.settled("large"); last.Result == nil || last.Result.Output != counted(1) {
			t.Errorf("the large call ends with %+v", last.Result)
		}
		if last := w.settled("nonsense"); last.Result == nil || last.Result.StopReason != schemas.StopFailed {
			t.Errorf("the call with nonsense ends with %+v", last.Result)
		}
		if last := w.settled("withdrawn"); last.State != schemas.RecordWithdrawn {
			t.Errorf("the last record of the call that was withdrawn is %s", last.State)
		}
	})

	t.Run("its connection is cut while a call speaks", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "numbers", said("10 is", func(string) { wire.cut() }))
		if !wire.cut() {
			t.Error("it did not come back through the wire that was cut")
		}
		wantOutputs(t, all, "completed: "+counted(3), "completed: "+counted(40))
		wantEnd(t, all, schemas.StopCompleted)
		w.stored(s)
	})

	t.Run("frozen for so long that its call was given up", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "marathon", said("10 is", func(string) { runner.signal(syscall.SIGSTOP) }))
		runner.signal(syscall.SIGCONT)
		if given := outputs(all); len(given) != 1 || !strings.HasSuffix(given[0], "whether the call took effect is unknown]") {
			t.Errorf("the outputs are %q", given)
		}
		w.stored(s)
		s = w.create("", schemas.ApproveAll)
		all = w.run(s, "numbers", nothing)
		wantOutputs(t, all, "completed: "+counted(3), "completed: "+counted(40))
		w.stored(s)
	})

	t.Run("killed with a call that is not to be repeated", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "patience", said("waiting", func(string) { runner.kill() }))
		wantOutputs(t, all, "failed: waiting\n\n[the toolrunner was lost after it had started the call; whether the call took effect is unknown]")
		wantEnd(t, all, schemas.StopCompleted)
		w.stored(s)
	})
	runner, _ = outer.startToolrunner()

	t.Run("killed with a call that is safe to repeat", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "repeat", said("attempt 1", func(string) {
			runner.kill()
			runner, instance = outer.startToolrunner()
		}))
		wantOutputs(t, all, "completed: attempt 1\n\n[the toolrunner was lost; attempt 2 follows]\nattempt 2\n")
		wantEnd(t, all, schemas.StopCompleted)
		w.stored(s)
	})

	t.Run("ends in order, when its call has", func(t *testing.T) {
		w := outer.in(t)
		s := w.create("", schemas.ApproveAll)
		all := w.run(s, "marathon", said("5 is", func(string) { runner.signal(syscall.SIGTERM) }))
		wantOutputs(t, all, "completed: "+counted(250)) // takes longer than one may be silent
		w.stored(s)
		runner.ends()
		left, err := outer.conn.Announcements(t.Context(), "default")
		for _, a := range left {
			if a.Instance == instance {
				t.Error("its announcement is still there")
			}
		}
		alive, failed := outer.conn.Instances(t.Context(), bus.KindToolrunner)
		for _, i := range alive {
			if i.Name == instance {
				t.Error("it still counts as alive")
			}
		}
		if err := errors.Join(err, failed); err != nil {
			t.Error(err)
		}
	})
}

// direct is a session that no engine knows.
var direct = schemas.SessionRef{Project: "default", ID: "direct"}

// queue puts a call into the queue as an owner does, after a last record of the given state.
func (w *world) queue(call string, state schemas.RecordState, arguments string) {
	w.t.Helper()
	queued, err := w.conn.WriteRecord(w.t.Context(), direct, call, 0, schemas.ToolRecord{State: schemas.RecordQueued, Attempt: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	if state != schemas.RecordQueued {
		result := &schemas.ToolResult{Output: "not run", StopReason: schemas.StopFailed}
		if _, err := w.conn.WriteRecord(w.t.Context(), direct, call, queued, schemas.ToolRecord{State: state, Attempt: 1, Result: result}); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.conn.QueueTool(w.t.Context(), "node", schemas.ToolRequest{
		Session: direct, ToolCallID: call, Name: "count", Arguments: arguments, Queued: queued, Attempt: 1, OutputCap: 1000, TimeoutMS: 60_000,
	}); err != nil {
		w.t.Fatal(err)
	}
}

// settled is a call's last record, when it is over and the queue is empty.
func (w *world) settled(call string) (last schemas.ToolRecord) {
	w.t.Helper()
	eventually(w.t, "the call "+call+" is over", func() bool {
		waiting, out, err := w.conn.QueueDepth(w.t.Context(), "default", "node")
		if err == nil {
			last, _, err = w.conn.LastRecord(w.t.Context(), direct, call)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return waiting+out == 0 && (last.State == schemas.RecordDone || last.State == schemas.RecordWithdrawn)
	})
	return last
}

// resends checks that a running call's output is sent again from a byte on, and no other call's.
func (w *world) resends(instance string, ref schemas.SessionRef, call string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	fragments := make(chan schemas.ToolFragment, 16)
	stop, err := w.conn.SubscribeFragments(ref, func(f schemas.ToolFragment) { fragments <- f }, func() {})
	if err != nil {
		w.t.Fatal(err)
	}
	defer stop()
	if err := w.conn.RequestResend(ctx, instance, ref, call, 1, 4); err != nil {
		w.t.Fatal(err)
	}
	select {
	case f := <-fragments:
		if want := (schemas.ToolFragment{ToolCallID: call, Attempt: 1, Offset: 4, Text: "ing\n"}); f != want {
			w.t.Errorf("sent again: %+v, want %+v", f, want)
		}
	case <-ctx.Done():
		w.t.Error("nothing was sent again")
	}
	if err := w.conn.RequestResend(ctx, instance, ref, "another", 1, 0); !errors.Is(err, &schemas.Error{Code: schemas.CodeNotFound}) {
		w.t.Errorf("asked for the output of a call that is not there it says %v", err)
	}
}
