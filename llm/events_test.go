package llm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/llm"
	"braid/llm/scripted"
	"braid/llm/shell"
	"braid/schemas"
)

// describe writes an event as one line.
func describe(e llm.Event) string {
	switch d := e.Data.(type) {
	case string:
		return fmt.Sprintf("%s %q", e.Type, d)
	case *schemas.ToolUseBlock:
		return fmt.Sprintf("%s %s %s", e.Type, d.Name, d.Input)
	case *llm.Response:
		line := string(e.Type)
		for _, m := range d.Content {
			line += " " + string(m.Kind())
		}
		if d.Usage != nil {
			line += fmt.Sprintf(" total=%d", d.Usage.Total)
		}
		return line
	case *llm.Error:
		return fmt.Sprintf("%s %q", e.Type, d.Message)
	}
	return fmt.Sprintf("%s %T", e.Type, e.Data)
}

func TestEvents(t *testing.T) {
	open := func(provider llm.Provider, name string) llm.Model {
		catalog, err := llm.NewCatalog(provider)
		if err != nil {
			t.Fatal(err)
		}
		m, err := catalog.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	script := func(text string) llm.Model {
		s, err := scripted.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return open(scripted.New(map[string]*scripted.Script{"s": s}), "scripted/s")
	}
	prompt := []schemas.Message{schemas.New(noon, schemas.UserText("$ pwd"))}
	tests := []struct {
		name  string
		model llm.Model
		want  []string
	}{
		{"a whole turn", script(`turns: [{steps: [{thinking: "Hm."}, {text: ["Let me ", "look."]}, {tool_call: {name: ls, arguments: {path: a}}}, {text: "Now."}, {usage: {output: 2, total: 9}}]}]`), []string{
			`reasoning "Hm."`, `text "Let me "`, `text "look."`, `tool_use ls {"path":"a"}`, `text "Now."`, `done thinking text tool_call text total=9`,
		}},
		{"a failure in mid-text", script(`turns: [{steps: [{text: ["Let me ", {fail: {message: overloaded, status_code: 529}}]}]}]`), []string{
			`text "Let me "`, `error "overloaded"`,
		}},
		{"a call that was cut off is none", saying(llm.Outcome{Status: schemas.StopFailed, Error: &llm.Error{Message: "cut"}},
			callPart(begin, "A", "ls", ""), callPart(delta, "A", "", `{"a`)), []string{`error "cut"`}},
		{"arguments that are no JSON", saying(llm.Completed(nil), schemas.NewToolCall("A", "ls", `{"a`)), []string{
			`tool_use ls "{\"a"`, `done tool_call`,
		}},
		{"nothing is said", saying(llm.Completed(nil)), []string{`done`}},
		{"nobody says why", saying(llm.Outcome{Status: schemas.StopAuth}), []string{`error "the model ended as auth and gave no reason"`}},
		{"a panic", modelFunc(func(context.Context, llm.Request, func(schemas.Message) error) llm.Outcome { panic("ouch") }), []string{
			`error "the model's adapter panicked: ouch"`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for e := range llm.Events(t.Context(), tt.model, llm.Request{Model: "s", Input: prompt, Attempt: 1}) {
				got = append(got, describe(e))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	t.Run("the demonstration", func(t *testing.T) {
		m := open(&shell.Provider{}, "shell/demo")
		calls, last := 0, llm.Event{}
		for e := range llm.Events(t.Context(), m, llm.Request{Model: "demo", Input: prompt, Attempt: 1}) {
			if e.Type == schemas.TurnToolUse {
				calls++
			}
			last = e
		}
		r, ok := last.Data.(*llm.Response)
		if calls != 1 || !ok || r.Model != "demo" || len(r.Content) != 2 {
			t.Errorf("%d calls, last %s", calls, describe(last))
		}
	})
}

// Whatever a model says, deltas and calls are those of the response, in order, and there is one
// last event.
func TestEventsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var said []schemas.Payload
		for i := range rapid.IntRange(0, 6).Draw(t, "messages") {
			words := rapid.SampledFrom([]string{"", "a", "<é\n"}).Draw(t, "words")
			said = append(said, rapid.SampledFrom([]schemas.Payload{
				schemas.AssistantText(words), schemas.AssistantThinking(words), schemas.NewToolCall(fmt.Sprint(i), "t", "{}"),
			}).Draw(t, "message"))
		}
		outcome := llm.Completed(nil)
		if rapid.Bool().Draw(t, "fails") {
			outcome = llm.Outcome{Status: schemas.StopFailed, Error: &llm.Error{Message: "no"}}
		}
		var got, want []string
		ended := 0
		for e := range llm.Events(context.Background(), saying(outcome, said...), llm.Request{}) {
			if ended > 0 {
				t.Fatalf("%s follows the last event", describe(e))
			}
			switch d := e.Data.(type) {
			case *llm.Response:
				ended++
				for _, m := range d.Content {
					want = append(want, contentOf(m.Payload)...)
				}
			case *llm.Error:
				ended++
				want = got
			default:
				got = append(got, describe(e))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || ended != 1 {
			t.Fatalf("%d last events (-response +events)\n%s", ended, diff)
		}
	})
}

// contentOf is the event of a message that came as one delta.
func contentOf(p schemas.Payload) []string {
	switch p := p.(type) {
	case *schemas.Text:
		if p.Text != "" {
			return []string{fmt.Sprintf("text %q", p.Text)}
		}
	case *schemas.Thinking:
		if p.Thinking != "" {
			return []string{fmt.Sprintf("reasoning %q", p.Thinking)}
		}
	case *schemas.ToolCall:
		return []string{fmt.Sprintf("tool_use %s %s", p.Name, p.Arguments)}
	}
	return nil
}

// endless is a model that speaks until it is stopped, and notes that it was.
func endless(stopped *bool) llm.Model {
	return modelFunc(func(ctx context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
		defer func() { *stopped = true }()
		e := llm.NewEmitter(emit, nil)
		for {
			if err := e.Text("on and "); err != nil {
				return e.End(llm.Outcome{Status: schemas.StopAborted, Error: &llm.Error{Message: "stopped", Cause: err}})
			}
			if ctx.Err() != nil {
				return e.End(llm.Interrupted(ctx))
			}
		}
	})
}

func TestEventsOfAnAbortedRequest(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stopped, deltas := false, 0
	var last llm.Event
	for e := range llm.Events(ctx, endless(&stopped), llm.Request{}) {
		if last = e; e.Type == schemas.TurnText {
			if deltas++; deltas == 3 {
				cancel(errors.New("enough"))
			}
		}
	}
	if err, ok := last.Data.(*llm.Error); !ok || err.Kind != llm.KindEngine || !stopped {
		t.Errorf("last %s, stopped %v", describe(last), stopped)
	}
}

// Whoever leaves the loop ends the request, and has waited for it.
func TestEventsThatNobodyTakes(t *testing.T) {
	stopped := false
	for e := range llm.Events(t.Context(), endless(&stopped), llm.Request{}) {
		if e.Type != schemas.TurnText {
			t.Errorf("got %s", describe(e))
		}
		break
	}
	if !stopped {
		t.Error("the model still speaks")
	}
	func() { // also by a panic
		stopped = false
		defer func() {
			if recover() == nil || !stopped {
				t.Errorf("after a panic: stopped %v", stopped)
			}
		}()
		for range llm.Events(t.Context(), endless(&stopped), llm.Request{}) {
			panic("ouch")
		}
	}()
}

// A model that hears nothing holds nobody up.
func TestEventsOfADeafModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		model := llm.Guard(modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
			_ = emit(schemas.New(noon, textPart(begin, "")))
			_ = emit(schemas.New(noon, textPart(delta, "a")))
			<-release
			return llm.Completed(nil)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []string
		for e := range llm.Events(ctx, model, llm.Request{}) {
			got = append(got, string(e.Type))
			cancel()
		}
		if diff := cmp.Diff([]string{"text", "error"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		close(release)
		if err := model.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Each loop is a request of its own.
func TestEventsTwice(t *testing.T) {
	all := llm.Events(t.Context(), saying(llm.Completed(nil), schemas.AssistantText("a")), llm.Request{})
	for range 2 {
		n := 0
		for range all {
			n++
		}
		if n != 2 {
			t.Errorf("%d events", n)
		}
	}
}
