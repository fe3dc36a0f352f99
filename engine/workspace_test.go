package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
	"braid/toolrunner"
)

// worker is a real toolrunner with a directory.
type worker struct {
	dir  string
	stop func()
}

func (h *house) worker(name, volume, dir string) worker {
	h.t.Helper()
	exec, err := toolrunner.NewExec(toolrunner.ExecOptions{Dir: dir, Environ: os.Environ()})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var served sync.WaitGroup
	served.Go(func() {
		if err := toolrunner.Serve(ctx, h.broker.Conn(h.t), toolrunner.ServeOptions{
			Instance: name, Volume: volume, Projects: []string{ref.Project}, Tools: []toolrunner.Tool{exec.Tool()},
			Ready: func() { close(ready) },
		}); err != nil {
			h.t.Error(err)
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		served.Wait()
		_ = exec.Close()
	})
	h.t.Cleanup(stop)
	<-ready
	return worker{dir: dir, stop: stop}
}

// shell has a session run a command and returns what it printed, and the place it is bound to.
func (h *house) shell(session, id, command string) (output string, bound *schemas.WorkspaceBound) {
	h.t.Helper()
	ref := schemas.SessionRef{Project: ref.Project, ID: session}
	h.send(schemas.Command{ID: session + "-create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: "shell/demo", ApprovalMode: schemas.ApproveAll}})
	if o := h.send(schemas.Command{ID: session + "-" + id, Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "$ " + command}}); o.Code != schemas.CodeApplied {
		h.t.Fatalf("task: %+v", o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	f, err := h.conn.Follow(ctx, ref, bus.FollowOptions{Beginning: true})
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	for {
		ev, err := f.Next(ctx)
		if err != nil {
			h.t.Fatal(err)
		}
		frame, _ := ev.(bus.Frame)
		for _, e := range frame.Entries() {
			switch p := e.Message.Payload.(type) {
			case *schemas.ToolCallOutput:
				output = p.Output
			case *schemas.WorkspaceBound:
				if bound != nil {
					h.t.Errorf("%s is bound twice", session)
				}
				bound = p
			case *schemas.TaskEnd:
				if p.TaskID == session+"-"+id {
					return output, bound
				}
			}
		}
	}
}

// Each session's files stay on the toolrunner of its first call, and are lost with it, which is said and
// not hidden by an empty place.
func TestFilesStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e1")
	workers := map[string]worker{"r1": h.worker("r1", "", t.TempDir()), "r2": h.worker("r2", "", t.TempDir())}
	sessions := map[string]string{} // by toolrunner
	for i := 0; len(sessions) < 2; i++ {
		if i == 40 {
			t.Fatalf("all sessions went to one toolrunner: %v", sessions)
		}
		name := fmt.Sprintf("s%d", i)
		output, bound := h.shell(name, "t1", "echo one >>"+name+"; cat "+name)
		if output != "one\n" || bound == nil || bound.Volume != "" {
			t.Fatalf("%s: %q, bound to %+v", name, output, bound)
		}
		sessions[bound.Toolrunner] = name
	}
	for toolrunner, name := range sessions {
		for _, id := range []string{"t2", "t3", "t4"} {
			h.shell(name, id, "echo more >>"+name)
		}
		if output, _ := h.shell(name, "t5", "cat "+name); output != "one\nmore\nmore\nmore\n" {
			t.Errorf("%s sees %q", name, output)
		}
		if text, err := os.ReadFile(filepath.Join(workers[toolrunner].dir, name)); err != nil || string(text) != "one\nmore\nmore\nmore\n" {
			t.Errorf("%s has %q, %v", toolrunner, text, err)
		}
	}
	workers["r1"].stop()
	lost, kept := sessions["r1"], sessions["r2"]
	if output, _ := h.shell(lost, "t6", "cat "+lost); !strings.Contains(output, "the session's files are on toolrunner r1, which is gone") || !strings.Contains(output, "it was not run") {
		t.Errorf("the session is told %q", output)
	}
	if output, _ := h.shell(kept, "t6", "cat "+kept); output != "one\nmore\nmore\nmore\n" {
		t.Errorf("the other sees %q", output)
	}
}

// Files on a shared volume are served by all who have it, also by one that comes after the last has gone.
func TestFilesOnASharedVolume(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e1")
	dir := t.TempDir()
	first := h.worker("r1", "disk", dir)
	output, bound := h.shell("s", "t1", "echo one >>f; cat f")
	if output != "one\n" || bound == nil || bound.Volume != "disk" || bound.Toolrunner != "r1" {
		t.Fatalf("%q, bound to %+v", output, bound)
	}
	h.worker("elsewhere", "", t.TempDir())
	h.worker("r2", "disk", dir)
	for i := range 6 {
		if output, _ := h.shell("s", fmt.Sprint("a", i), "cat f"); output != "one\n" {
			t.Errorf("it sees %q", output)
		}
	}
	first.stop()
	if output, _ := h.shell("s", "t2", "cat f"); output != "one\n" {
		t.Errorf("from the other toolrunner it sees %q", output)
	}
}
