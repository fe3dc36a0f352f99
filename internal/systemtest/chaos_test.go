package systemtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"braid/schemas"
)

// chaosWait is how long a task may take while everything around it breaks.
const chaosWait = 2 * time.Minute

// Sessions run tasks of many turns and tools while processes are killed, stopped and restarted at
// random. Then it is quiet: every task has ended, and every session keeps every guarantee.
func TestChaos(t *testing.T) {
	if *chaosFlag <= 0 {
		t.Skip("-chaos 0")
	}
	t.Parallel()
	scripts := t.TempDir()
	w := newWorld(t, layout{engines: 3, toolrunners: 2, cluster: *clusterFlag, scripts: scripts, prepare: func(random *rand.Rand) {
		for i := range 3 {
			writeChaosScript(t, filepath.Join(scripts, fmt.Sprintf("chaos-%d.yaml", i)), random)
		}
	}})
	until := time.Now().Add(*chaosFlag)
	modes := []schemas.ApprovalMode{schemas.ApproveAll, schemas.ApproveAll, schemas.ApproveAsk}
	var clients []*chaosClient
	for i := range *manyFlag {
		s := w.newSession(t, fmt.Sprintf("chaos-%d", i%3), modes[i/2%3])
		clients = append(clients, &chaosClient{s: s, random: rand.New(rand.NewPCG(w.random.Uint64(), 0)), ends: map[string]int{}})
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { c.run(until) })
	}
	strikes := w.strike(until)
	wg.Wait()
	ends := map[string]int{}
	for _, c := range clients {
		if c.err != nil {
			t.Errorf("%s: %v\n%s", c.s.ref, c.err, c.s.timeline())
		}
		for status, n := range c.ends {
			ends[status] += n
		}
	}
	t.Logf("strikes: %v; tasks ended: %v", strikes, ends)
	for _, c := range clients {
		c.s.verify()
	}
}

// chaosClient runs task after task in one session, on a goroutine of its own.
type chaosClient struct {
	s      *session
	random *rand.Rand
	ends   map[string]int // by status
	err    error
}

func (c *chaosClient) run(until time.Time) {
	for n := 1; c.err == nil && time.Now().Before(until); n++ {
		r, err := c.s.w.api.try(c.s.path("tasks"), fmt.Sprintf("%s-task-%d", c.s.ref.ID, n), map[string]any{"prompt": fmt.Sprintf("round %d", n)})
		if err != nil || r.status != http.StatusAccepted {
			c.err = fmt.Errorf("task %d: %w, %d %s", n, err, r.status, r.body)
			return
		}
		c.s.tasks++
		c.err = c.follow(n)
	}
}

// follow decides what it is asked until the task has ended. Every eighth task is aborted.
func (c *chaosClient) follow(n int) error {
	limit := time.After(chaosWait)
	abort := (<-chan time.Time)(nil)
	if c.random.IntN(8) == 0 {
		abort = time.After(time.Duration(c.random.IntN(5000)) * time.Millisecond)
	}
	wait := limit
	for {
		if abort != nil {
			wait = abort
		}
		a, ok := c.s.look(&c.s.read, wait, func(a arrival) bool {
			return a.Message.Kind() == schemas.KindApprovalRequest || a.Message.Kind() == schemas.KindTaskEnd
		})
		switch p := a.Message.Payload.(type) {
		case *schemas.TaskEnd:
			c.ends[strings.TrimSuffix(string(p.Status)+" "+p.Cause, " ")]++
			return nil
		case *schemas.ApprovalRequest:
			decision := schemas.DecisionAllow
			if c.random.IntN(6) == 0 {
				decision = schemas.DecisionDeny
			}
			if err := c.post("approvals/"+p.ToolCallID, p.ToolCallID+"-decision", map[string]any{"decision": decision}); err != nil {
				return err
			}
		}
		if ok {
			continue
		}
		if abort == nil {
			return fmt.Errorf("task %d has not ended within %s", n, chaosWait)
		}
		abort, wait = nil, limit
		if err := c.post("abort", fmt.Sprintf("%s-abort-%d", c.s.ref.ID, n), map[string]any{"reason": "chaos"}); err != nil {
			return err
		}
	}
}

// post sends a command that may come too late.
func (c *chaosClient) post(path, key string, body any) error {
	r, err := c.s.w.api.try(c.s.path(path), key, body)
	if err != nil || r.status != http.StatusAccepted && r.status != http.StatusConflict {
		return fmt.Errorf("%s: %w, %d %s", path, err, r.status, r.body)
	}
	return nil
}

// strike does damage at random until then, and repairs all of it. It counts what it did.
func (w *world) strike(until time.Time) map[string]int {
	w.t.Helper()
	all := slices.Concat(w.engines, w.engines, w.toolrunners, []*process{w.gateway})
	strikes := map[string]int{}
	for time.Now().Before(until) {
		p := all[w.random.IntN(len(all))]
		what := "kill"
		switch n := w.random.IntN(20); {
		case n < 9:
			p.kill()
			<-time.After(w.upTo(2 * time.Second))
			if p.bin == "engine" && w.random.IntN(4) == 0 {
				what = "kill and lose the trace of"
				if err := os.RemoveAll(w.dataDir(p.name)); err != nil {
					w.t.Error(err)
				}
			}
			w.restart(p)
		case n < 14:
			what = "freeze"
			p.signal(syscall.SIGSTOP)
			<-time.After(w.upTo(6 * time.Second))
			p.signal(syscall.SIGCONT)
		case n < 18:
			what = "terminate"
			p.terminate()
			w.restart(p)
		case n < 19:
			what = "kill two of"
			q := all[w.random.IntN(len(all))]
			p.kill()
			if q != p {
				q.kill()
				w.restart(q)
			}
			w.restart(p)
		default:
			what, p = "restart", &process{bin: "broker"}
			node := w.random.IntN(len(w.broker.Nodes))
			w.broker.Stop(node)
			<-time.After(w.upTo(time.Second))
			w.broker.Start(w.t, node)
		}
		strikes[what+" "+p.bin]++
		<-time.After(w.upTo(*pauseFlag))
	}
	return strikes
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }

// writeChaosScript makes up a model: some turns of texts and tool calls, some of which fail at
// first, and an end.
func writeChaosScript(t *testing.T, path string, random *rand.Rand) {
	t.Helper()
	var b strings.Builder
	b.WriteString("count: prompt\nturns:\n")
	for turn := range 3 + random.IntN(4) {
		var steps strings.Builder
		fmt.Fprintf(&steps, "- {text: This is what turn %d has to say about it., deltas: %d, pace: %dms}\n", turn, 2+random.IntN(10), random.IntN(100))
		for call := range random.IntN(4) {
			fmt.Fprintf(&steps, "- {tool_call: {name: exec_command, arguments: {command: 'echo \"$BRAID_CALL t%d-c%d\" >> effects; echo begun; sleep %.1f; echo done'}}}\n",
				turn, call, random.Float64()*1.5)
		}
		if turn == 0 || strings.Count(steps.String(), "\n") == 1 { // a turn without a call would be the last
			fmt.Fprintf(&steps, "- {tool_call: {name: exec_command, arguments: {command: 'echo \"$BRAID_CALL t%d\" >> effects; seq 1 200'}}}\n", turn)
		}
		b.WriteString("  - attempts:\n")
		if random.IntN(5) == 0 {
			b.WriteString("      - steps:\n" + indent(steps.String()) + indent("- {fail: {message: overloaded, status_code: 529}}\n"))
		}
		b.WriteString("      - steps:\n" + indent(steps.String()))
	}
	b.WriteString("  - steps:\n      - {text: That was all., deltas: 3}\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func indent(steps string) string {
	var b strings.Builder
	for line := range strings.Lines(steps) {
		b.WriteString("          " + line)
	}
	return b.String()
}
