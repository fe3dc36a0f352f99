package systemtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"braid/schemas"
)

// sseWatcher takes a session's stream over HTTP. It cuts itself off at random moments and resumes
// with the last id it saw, for as long as it lives.
type sseWatcher struct {
	url    string
	auth   string
	client *http.Client
	random *rand.Rand // its own

	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	first    string // the id the stream began at
	last     string
	capture  bytes.Buffer // the messages as they stood on the wire
	entries  []schemas.Entry
	lines    []string // the data of each entry
	problems []string
	connects int
	states   int // task_state events
}

func watchSSE(a *api, session string, random *rand.Rand) *sseWatcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &sseWatcher{
		url: a.base + "/v1/sessions/" + session + "/stream", auth: a.auth, random: random, cancel: cancel,
		client: &http.Client{Transport: &http.Transport{}},
	}
	w.work.Go(func() {
		for ctx.Err() == nil {
			w.connect(ctx)
			select {
			case <-time.After(time.Duration(w.random.IntN(100)) * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return w
}

func (w *sseWatcher) close() {
	w.cancel()
	w.work.Wait()
	w.client.CloseIdleConnections()
}

// connect reads for a random while, which begins with the first event. A connection that fails is nothing
// special.
func (w *sseWatcher) connect(ctx context.Context) {
	while := time.Duration(50+w.random.IntN(1500)) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		w.problem("%v", err)
		return
	}
	request.Header.Set("Authorization", w.auth)
	if w.last != "" { // written by this goroutine alone
		request.Header.Set("Last-Event-ID", w.last)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		if response.StatusCode < 500 {
			w.problem("the stream was refused: %s", response.Status)
		}
		return
	}
	w.mu.Lock()
	w.connects++
	w.mu.Unlock()
	r := bufio.NewReader(response.Body)
	if _, err := r.Peek(1); err == nil {
		defer time.AfterFunc(while, cancel).Stop()
		w.read(r, 1+w.random.IntN(40))
	}
}

// read takes events until the connection ends, or it has had enough: often in the middle of what
// the session appended at once. An event counts once its empty line is there.
func (w *sseWatcher) read(r *bufio.Reader, enough int) {
	var name, id, data string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		field, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			if data != "" {
				w.take(name, id, data)
				if enough--; enough == 0 {
					return
				}
			}
			name, id, data = "", "", ""
		case field == "event":
			name = value
		case field == "id":
			id = value
		case field == "data":
			data = value
		}
	}
}

func (w *sseWatcher) take(name, id, data string) {
	cursor, err := schemas.ParseCursor(id)
	if err != nil && name != "resync_required" {
		w.problem("event %q has the id %q: %v", name, id, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch name {
	case "task_state":
		w.states++
		if w.first == "" {
			w.first = id
		}
		w.last = id
	case "":
		m, err := schemas.Decode([]byte(data))
		if err != nil {
			w.problems = append(w.problems, fmt.Sprintf("event %s: %v", id, err))
			return
		}
		w.last = id
		fmt.Fprintf(&w.capture, "id: %s\ndata: %s\n\n", id, data)
		w.entries = append(w.entries, schemas.Entry{Position: cursor.Position, Message: m})
		w.lines = append(w.lines, data)
	default:
		w.problems = append(w.problems, fmt.Sprintf("event %q at %s: %s", name, w.last, data))
	}
}

func (w *sseWatcher) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// began reports that the watcher has its first snapshot.
func (w *sseWatcher) began() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first != ""
}

// at is the last position it has.
func (w *sseWatcher) at() schemas.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.entries) == 0 {
		return schemas.Position{}
	}
	return w.entries[len(w.entries)-1].Position
}
