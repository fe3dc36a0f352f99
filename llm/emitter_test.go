package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// sink keeps what is emitted and fails from a certain message on.
type sink struct {
	messages []schemas.Message
	room     int // messages it takes; below zero: any number
	refused  int
}

var errFull = errors.New("no room")

func (s *sink) emit(m schemas.Message) error {
	if s.room == 0 {
		s.refused++
		return errFull
	}
	s.room--
	s.messages = append(s.messages, m)
	return nil
}

// must fails the test if any of the emitter's methods failed.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestEmitter(t *testing.T) {
	s := &sink{room: -1}
	e := llm.NewEmitter(s.emit, atNoon)
	must(t, e.Thinking("I "), e.Thinking("see"))
	e.Fidelity(jsontext.Value(`{"signature":"x"}`))
	must(t, e.Text("Well"), e.Text(""), e.ToolCallStart("c1", "read"), e.ToolCallArgs(`{"a"`), e.ToolCallArgs(`:1}`))
	e.Fidelity(jsontext.Value(`{"id":"p1"}`))
	must(t, e.Message(&schemas.ImageURL{Role: schemas.RoleAssistant, ImageURL: "data:,"}))
	o := e.End(llm.Completed(&schemas.TokenCounts{Total: 3}))
	if o.Status != schemas.StopCompleted || o.Usage.Total != 3 {
		t.Errorf("outcome %+v", o)
	}
	thinking := schemas.AssistantThinking("I see")
	thinking.Fidelity = jsontext.Value(`{"signature":"x"}`)
	call := schemas.NewToolCall("c1", "read", `{"a":1}`)
	call.Fidelity = jsontext.Value(`{"id":"p1"}`)
	var want []schemas.Message
	for _, p := range []schemas.Payload{
		schemas.ThinkingFragment(schemas.PhaseStart, ""), schemas.ThinkingFragment(schemas.PhaseDelta, "I "),
		schemas.ThinkingFragment(schemas.PhaseDelta, "see"), schemas.ThinkingFragment(schemas.PhaseStop, ""), thinking,
		schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "Well"),
		schemas.TextFragment(schemas.PhaseStop, ""), schemas.AssistantText("Well"),
		schemas.ToolCallFragment(schemas.PhaseStart, "c1", "read", ""), schemas.ToolCallFragment(schemas.PhaseDelta, "c1", "", `{"a"`),
		schemas.ToolCallFragment(schemas.PhaseDelta, "c1", "", `:1}`), schemas.ToolCallFragment(schemas.PhaseStop, "c1", "", ""), call,
		&schemas.ImageURL{Role: schemas.RoleAssistant, ImageURL: "data:,"},
	} {
		want = append(want, schemas.New(noon, p))
	}
	if diff := cmp.Diff(want, s.messages); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A call without arguments gets the empty object when it is complete, and only then.
func TestCase_A04_EmptyArguments(t *testing.T) {
	tests := []struct {
		name    string
		deltas  []string
		outcome llm.Outcome
		want    string
	}{
		{"none at all", nil, llm.Completed(nil), "{}"},
		{"an empty one", []string{""}, llm.Completed(nil), "{}"},
		{"white space", []string{" \n"}, llm.Completed(nil), " \n{}"},
		{"an empty one, then the object", []string{"", "{}"}, llm.Completed(nil), "{}"},
		{"a stream that broke off", nil, llm.Outcome{Status: schemas.StopMalformed, Error: &llm.Error{}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &sink{room: -1}
			e := llm.NewEmitter(s.emit, nil)
			must(t, e.ToolCallStart("c", "snapshot"))
			for _, d := range tt.deltas {
				must(t, e.ToolCallArgs(d))
			}
			e.End(tt.outcome)
			must(t, llmtest.Check(s.messages))
			call, ok := s.messages[len(s.messages)-1].Payload.(*schemas.ToolCall)
			if !ok || call.Arguments != tt.want {
				t.Errorf("last message %+v, want arguments %q", s.messages[len(s.messages)-1].Payload, tt.want)
			}
		})
	}
}

func TestArgumentsWithoutACall(t *testing.T) {
	s := &sink{room: -1}
	e := llm.NewEmitter(s.emit, nil)
	if err := e.ToolCallArgs("{}"); !errors.Is(err, llm.ErrNoToolCall) {
		t.Errorf("error %v, want ErrNoToolCall", err)
	}
	must(t, e.Text("a"))
	if err := e.ToolCallArgs("{}"); !errors.Is(err, llm.ErrNoToolCall) {
		t.Errorf("in a text: error %v, want ErrNoToolCall", err)
	}
	must(t, e.Text("b"))
	if o := e.End(llm.Completed(nil)); o.Status != schemas.StopCompleted {
		t.Errorf("the error stuck: %s", o.Status)
	}
}

func TestEndSaysWhyEmitFailed(t *testing.T) {
	e := llm.NewEmitter(func(schemas.Message) error { return context.DeadlineExceeded }, nil)
	if err := e.Text("a"); err == nil {
		t.Fatal("no error")
	}
	if o := e.End(llm.Completed(&schemas.TokenCounts{Total: 5})); o.Status != schemas.StopTimeout || o.Usage.Total != 5 {
		t.Errorf("outcome %+v, want timeout with the usage", o)
	}
}

// Whatever is called in whatever order, wherever emit fails: what comes out is legal.
func TestEmitterAlwaysLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sink{room: rapid.IntRange(-1, 30).Draw(t, "room")}
		e := llm.NewEmitter(s.emit, atNoon)
		delta := rapid.SampledFrom([]string{"", "a", "é", "\xff", "{\"a\":", " "})
		var said strings.Builder // what the texts must add up to
		say := func(d string, err error) {
			if err == nil {
				said.WriteString(schemas.ValidText(d))
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			d := delta.Draw(t, "delta")
			switch rapid.IntRange(0, 8).Draw(t, "op") {
			case 0, 1:
				say(d, e.Text(d))
			case 2:
				_ = e.Thinking(d)
			case 3:
				_ = e.ToolCallStart(d, d)
			case 4:
				_ = e.ToolCallArgs(d)
			case 5:
				_ = e.Close()
			case 6:
				_ = e.TextStart()
			case 7:
				_ = e.ThinkingStart()
			case 8:
				_ = e.Message(&schemas.InlineData{Role: schemas.RoleAssistant})
			}
		}
		status := rapid.SampledFrom([]schemas.StopReason{
			schemas.StopCompleted, schemas.StopFailed, schemas.StopTimeout, schemas.StopMalformed,
		}).Draw(t, "status")
		o := e.End(llm.Outcome{Status: status, Error: &llm.Error{}})
		if s.refused > 0 {
			if s.refused > 1 || !errors.Is(o.Error, errFull) || o.Status != schemas.StopAborted {
				t.Fatalf("emit failed %d times, outcome %+v", s.refused, o)
			}
			return
		}
		if err := llmtest.Check(s.messages); err != nil || o.Status != status {
			t.Fatalf("%v, status %s\n%s", err, o.Status, llmtest.Describe(s.messages))
		}
		if got := (llmtest.Result{Messages: s.messages}).Text(); got != said.String() {
			t.Fatalf("the texts are %q, said was %q", got, said.String())
		}
	})
}

func TestEstimateUsage(t *testing.T) {
	if n := llm.EstimateTokens("12345"); n != 2 {
		t.Errorf("5 bytes are %d tokens, want 2", n)
	}
	if n := llm.EstimateTokens(""); n != 0 {
		t.Errorf("no text is %d tokens", n)
	}
	msg := func(p schemas.Payload) schemas.Message { return schemas.New(noon, p) }
	req := llm.Request{
		System: "12345678",                                                                                               // 2
		Tools:  []schemas.ToolDefinition{{Name: "read", Description: "12345678", Parameters: jsontext.Value(`{"a":1}`)}}, // 4+1+2+2
		Input: []schemas.Message{
			msg(schemas.UserText("1234")), // 4+1
			msg(&schemas.ImageURL{Role: schemas.RoleUser, ImageURL: strings.Repeat("x", 1<<20)}),                                  // 4+1000
			msg(&schemas.ToolCallOutput{Role: schemas.RoleUser, Output: "1234", Images: []string{strings.Repeat("x", 9999), ""}}), // 4+1+2000
			msg(&schemas.RequestBegin{}), // nothing
		},
	}
	emitted := []schemas.Message{
		msg(schemas.TextFragment(schemas.PhaseDelta, "12345678")), // nothing: its message counts
		msg(schemas.AssistantText("12345678")),                    // 4+2
		msg(schemas.AssistantThinking("1234")),                    // 4+1
		msg(schemas.NewToolCall("c", "read", "{}")),               // 4+1+1
	}
	want := schemas.TokenCounts{Output: 17, Total: 2 + 9 + 5 + 1004 + 2005 + 17}
	if diff := cmp.Diff(want, llm.EstimateUsage(req, emitted)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
