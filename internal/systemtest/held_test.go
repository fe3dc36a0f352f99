package systemtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"braid/schemas"
)

// heldModel is a provider of two models on a server of the test, which says when they go on.
//
//	held/call  says a little, and when it goes on more, and a tool call; told what came of it, it is done
//	held/talk  talks without end, and when it goes on no more
type heldModel struct {
	*httptest.Server

	calls atomic.Int64

	mu   sync.Mutex
	goOn chan struct{} // closed by release
	said chan struct{} // holds one when all was said up to the call
}

func newHeldModel(t testing.TB) *heldModel {
	m := &heldModel{said: make(chan struct{}, 1)}
	m.hold()
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

// hold makes the models wait for the next release.
func (m *heldModel) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goOn = make(chan struct{})
}

func (m *heldModel) gate() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.goOn
}

// release lets the models go on.
func (m *heldModel) release() { close(m.gate()) }

// awaitSaid waits until held/call has said its call.
func (m *heldModel) awaitSaid(t testing.TB) {
	t.Helper()
	select {
	case <-m.said:
	case <-time.After(patience):
		t.Fatalf("the model has not said all within %s", patience)
	}
}

// answer speaks as servers of OpenAI's chat completions do.
func (m *heldModel) answer(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model    string `json:"model"`
		Messages []struct {
			Role string `json:"role"`
		} `json:"messages"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = schemas.DecodeJSON(body, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if last := len(request.Messages) - 1; last >= 0 && request.Messages[last].Role == "tool" {
		m.say(w, map[string]any{"content": "It is done."}, "stop")
		return
	}
	gate := m.gate()
	if request.Model == "talk" {
		m.talk(w, r, gate)
		return
	}
	m.say(w, map[string]any{"content": "Let me think about that. "}, nil)
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	// What is short fits in what a file has allocated, even on a disk that is full.
	m.say(w, map[string]any{"content": strings.Repeat("I have thought about it. ", 2000)}, nil)
	m.say(w, map[string]any{"tool_calls": []any{map[string]any{
		"index": 0, "id": fmt.Sprintf("call-%d", m.calls.Add(1)), "type": "function", "function": map[string]any{
			"name": "exec_command", "arguments": `{"command": "echo \"$BRAID_CALL began\" >> effects; echo ran"}`,
		},
	}}}, "tool_calls")
	select {
	case m.said <- struct{}{}:
	default: // it is known already
	}
}

// talk says the same again and again until the gate opens.
func (m *heldModel) talk(w http.ResponseWriter, r *http.Request, gate chan struct{}) {
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for {
		m.say(w, map[string]any{"content": "And then it went to another broker. "}, nil)
		select {
		case <-pace.C:
		case <-gate:
			m.say(w, map[string]any{"content": "The end."}, "stop")
			return
		case <-r.Context().Done():
			return
		}
	}
}

// say sends a part of an answer; with a reason it is the last.
func (m *heldModel) say(w http.ResponseWriter, delta map[string]any, reason any) {
	event, err := schemas.EncodeJSON(map[string]any{"object": "chat.completion.chunk", "choices": []any{
		map[string]any{"index": 0, "delta": delta, "finish_reason": reason},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "data: %s\n\n", event)
	if reason != nil {
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
	_ = http.NewResponseController(w).Flush() // who is gone misses nothing
}
