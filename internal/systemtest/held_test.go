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

// heldModel is a model on a server of the test, which holds it back: it says a little, and only once it may
// go on, which is for good, the rest, that ends with a tool call. Told what came of the call it is done.
type heldModel struct {
	*httptest.Server

	goOn  chan struct{} // closed by release
	said  chan struct{} // closed when all was said up to the call
	once  sync.Once     // closes said
	calls atomic.Int64
}

func newHeldModel(t testing.TB) *heldModel {
	m := &heldModel{goOn: make(chan struct{}), said: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

// release lets the model go on, and waits until it has said all.
func (m *heldModel) release(t testing.TB) {
	t.Helper()
	close(m.goOn)
	select {
	case <-m.said:
	case <-time.After(patience):
		t.Fatalf("the model has not said all within %s", patience)
	}
}

// answer speaks as servers of OpenAI's chat completions do.
func (m *heldModel) answer(w http.ResponseWriter, r *http.Request) {
	var request struct {
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
	m.say(w, map[string]any{"content": "Let me think about that. "}, nil)
	select {
	case <-m.goOn:
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
	m.once.Do(func() { close(m.said) })
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
