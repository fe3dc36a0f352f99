package interop

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/client"
	"braid/schemas"
)

// seen is an event as a watcher tells it. Its data are the bytes that came.
type seen struct {
	Event string `json:"event"`
	ID    string `json:"id"`
	Data  string `json:"data"`
}

// watcher is a program of others that watches a session over a gateway of its own.
type watcher struct {
	name   string
	cutter *cutter
	events chan seen
}

// take takes an event as a watcher tells it, in JSON.
func (v *watcher) take(t *testing.T, line []byte) {
	var e seen
	if err := schemas.DecodeJSON(line, &e); err != nil {
		t.Errorf("%s: %s: %v", v.name, line, err)
	}
	v.events <- e
}

// next is the next event but those about lost connections.
func (v *watcher) next(t *testing.T) seen {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case e := <-v.events:
			if e.Event != "error" {
				return e
			}
		case <-timeout.C:
			t.Fatalf("%s: nothing comes any more", v.name)
		}
	}
}

// told are the messages or turns that it told up to the end of a task.
func (v *watcher) told(t *testing.T) (all []string) {
	t.Helper()
	for resumed := 0; ; {
		switch e := v.next(t); e.Event {
		case "message":
			all = append(all, e.ID+" "+e.Data)
			if !strings.Contains(e.Data, `"type":"task_end"`) && !strings.HasPrefix(e.Data, `{"type":"done"`) {
				continue
			}
			if began := v.cutter.streams.Load(); began != cuts+1 || resumed == 0 {
				t.Errorf("%s: %d streams were begun for %d cuts, of which %d were resumed to the present", v.name, began, cuts, resumed)
			}
			return all
		case "task_state":
			resumed++
		default:
			t.Fatalf("%s: %+v", v.name, e)
		}
	}
}

// leaves checks that it is told that the session is deleted, asks again, and gives up: at the first time, if
// the session is gone from everywhere by then.
func (v *watcher) leaves(t *testing.T) {
	t.Helper()
	for told := false; ; {
		switch e := v.next(t); {
		case e.Event == "task_state":
		case e.Event == "session_deleted":
			told = true
		case e.Event == "closed" && told:
			return
		default:
			t.Fatalf("%s: the session is deleted, told already: %v; it is told %+v", v.name, told, e)
		}
	}
}

func newWatcher(t *testing.T, name string, after int) *watcher {
	return &watcher{name: name, cutter: &cutter{Listener: listen(t), after: after}, events: make(chan seen, 1<<14)}
}

// eventsource is the package of that name, in node.
func (w *world) eventsource(session, view string, after int) *watcher {
	w.t.Helper()
	v := newWatcher(w.t, "eventsource in node, "+view, after)
	base := w.serve(v.cutter)
	p := node(w.t, installed(w.t), "watch.mjs", base+streamPath(session)+view, token)
	var reading sync.WaitGroup
	reading.Go(func() {
		for p.lines.Scan() {
			v.take(w.t, p.lines.Bytes())
		}
	})
	w.t.Cleanup(func() { p.kill(); reading.Wait() })
	return v
}

// The views of a stream.
const (
	messages = "include=prompt"
	turns    = "view=turns"
)

func streamPath(session string) string { return "/v1/sessions/" + session + "/stream?" }

// chromium has an EventSource of its own, in a page that tells what it gets to where it came from.
func (w *world) chromium(session, view string, after int) *watcher {
	w.t.Helper()
	program := os.Getenv("BRAID_CHROMIUM")
	if program == "" {
		w.t.Log("WARNING: NOT TESTED IN A BROWSER. There is no Chromium.")
		return nil
	}
	v := newWatcher(w.t, "EventSource in Chromium, "+view, after)
	g := w.newGateway()
	pages := http.NewServeMux()
	pages.Handle("/", g.Handler())
	pages.HandleFunc("GET /interop/watch.html", func(rw http.ResponseWriter, r *http.Request) {
		http.ServeFile(rw, r, "testdata/watch.html")
	})
	pages.HandleFunc("POST /interop/event", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.t.Error(err)
		}
		v.take(w.t, body)
	})
	server := &http.Server{Handler: pages, ReadHeaderTimeout: patience}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(v.cutter) })
	w.t.Cleanup(func() { g.Close(); server.Close(); serving.Wait() })

	ctx, cancel := context.WithCancel(context.Background())
	stream := streamPath(session) + view + "&token=" + token
	// The sandbox needs privileges that containers lack; all that is loaded is our own page.
	cmd := exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
		"--user-data-dir="+w.t.TempDir(), "http://"+v.cutter.Addr().String()+"/interop/watch.html?stream="+url.QueryEscape(stream))
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, patience
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cancel(); _ = cmd.Wait() }) // however it ends, it is gone
	return v
}

// Programs of others watch a session in which tools are called; their connections are cut twice in the
// middle of it. Each gets what one gets that was never cut: the same events under the same ids.
func TestWatchersOfOthers(t *testing.T) {
	installed(t)
	w := newWorld(t)
	w.startToolrunner()
	cli := w.startCommand("watched")
	s := w.create("watched", schemas.ApproveAsk)
	watchers := []*watcher{w.eventsource(s.ID(), messages, 3000), w.eventsource(s.ID(), turns, 600)}
	if browser := w.chromium(s.ID(), messages, 3000); browser != nil {
		watchers = append(watchers, browser)
	}
	for _, v := range watchers {
		if first := v.next(t); first.Event != "task_state" {
			t.Fatalf("%s: the first event is %+v", v.name, first)
		}
	}
	asked := 0
	all := w.run(s, "numbers", func(m client.Message) {
		if question, ok := m.Payload.(*schemas.ApprovalRequest); ok {
			if asked++; asked == 2 { // what follows comes over their last connections
				for _, v := range watchers {
					v.awaitCuts(t)
				}
			}
			if err := s.Approve(t.Context(), question.ToolCallID, question.Hash); err != nil {
				t.Error(err)
			}
		}
	})
	wantOutputs(t, all, "completed: "+counted(3), "completed: "+counted(40))
	wantEnd(t, all, schemas.StopCompleted)
	want := map[string][]string{messages: encoded(t, all), turns: w.turns(s, all[0].Cursor)}
	for _, v := range watchers {
		_, view, _ := strings.Cut(v.name, ", ")
		got := v.told(t)
		if diff := cmp.Diff(want[view], got); diff != "" {
			t.Errorf("%s (-never cut +cut twice)\n%s", v.name, diff)
		}
		t.Logf("%s: %d events", v.name, len(got))
	}
	cli.verify(w.stored(s))
	if err := s.Delete(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, v := range watchers {
		v.leaves(t)
	}
}

// encoded are messages as watchers tell them.
func encoded(t *testing.T, all []client.Message) (told []string) {
	t.Helper()
	for _, m := range all {
		line, err := schemas.Encode(m.Message)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, m.Cursor+" "+string(line))
	}
	return told
}

// turns are those of a task that has ended, as watchers tell them.
func (w *world) turns(s *client.Session, after string) (told []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for event, err := range s.Turns(ctx, client.WatchOptions{After: after}) {
		if err != nil {
			w.t.Fatal(err)
		}
		turn, ok := event.(client.Turn)
		if !ok {
			continue
		}
		line, err := schemas.EncodeJSON(turn.TurnEvent)
		if err != nil {
			w.t.Fatal(err)
		}
		told = append(told, turn.Cursor+" "+string(line))
		if _, ended := turn.Data.(*schemas.TaskResult); ended {
			break
		}
	}
	return told
}

// awaitCuts waits until its connection was cut for the last time, and made again.
func (v *watcher) awaitCuts(t *testing.T) {
	t.Helper()
	eventually(t, v.name+" is cut and comes back", func() bool { return v.cutter.streams.Load() > cuts })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer timeout.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
