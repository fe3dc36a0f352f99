package schemas_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
	"braid/schemas/schematest"
)

// traceOf writes a timeline as a trace.
func traceOf(timeline string) string {
	var b strings.Builder
	for _, e := range schematest.MustParse(timeline) {
		line, _ := schemas.Encode(e.Message)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func TestTraceCheck(t *testing.T) {
	for _, test := range []struct {
		name, timeline string
		line           int    // that is refused; 0 if none is
		why            string // part of the reason
	}{
		{"nothing but session_meta", "session_meta s", 0, ""},
		{"a turn, as older traces have it", "session_meta s\nuser \"a\"\nevent request_begin\ntext \"b\"\nevent request_end completed", 0, ""},
		{"unknown events stand anywhere", "session_meta s\nevent mood_changed\nevent task_end completed", 0, ""},
		{"our own outcome stands before session_meta", "trace event command_outcome c\ntrace session_meta s", 0, ""},
		{"the notice that turns are used up", "session_meta s\ntext \"[reached max turns (3); stopping]\" stop_reason=failed", 0, ""},
		{"a compaction that failed", "session_meta s\nevent compaction_begin\nevent request_begin\ntext \"b\"\nevent request_end failed\nevent compaction_end failed", 0, ""},
		{"an import is one trace, whatever its session_meta", "event session_imported 2 2\nsession_meta old\nuser \"a\"\nevent task_end completed", 0, ""},
		{"turns that were given with the first prompt", "trace session_meta s\ntrace user \"a\"\ntrace text \"b\"\ntrace tool_call A ls \"{}\"\ntrace tool_call_output A \"c\"\ntrace user \"d\"\nevent request_begin", 0, ""},
		{"and behind it", "trace session_meta s\nevent request_begin\nevent request_end completed\ntrace text \"b\"", 4, "outside of any request"},
		{"an empty file", "", -1, "no session_meta"},
		{"nobody says what it ran on", "user \"a\"", 1, "before session_meta"},
		{"two contexts", "session_meta s\nevent request_begin\nevent request_end failed\nsession_meta s", 4, "second session_meta"},
		{"a second context behind an import", "event session_imported 1 1\nsession_meta old\nsession_meta s", 3, "second session_meta"},
		{"the context goes on elsewhere", "session_meta s\nevent compaction_begin\nevent compaction_end completed", 3, "compacted"},
		{"a stream, not a trace", "session_meta s\nevent request_begin\npartial_text start", 3, "fragment"},
		{"a message of a child", "session_meta s\nkid: event request_begin", 2, "child session"},
		{"words the context would lack", "session_meta s\ntext \"b\"", 2, "outside of any request"},
		{"a call the context would lack", "session_meta s\ntool_call A ls \"{}\"", 2, "outside of any request"},
		{"reasoning the context would lack", "session_meta s\nevent request_begin\nevent request_end completed\nthinking \"b\"", 4, "outside of any request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := schemas.CheckTrace(schemas.NewLineReader(strings.NewReader(traceOf(test.timeline))))
			if test.line == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.why) || !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
				t.Fatalf("got %v, want one that says %q", err, test.why)
			}
			if at, ok := errors.AsType[*schemas.LineError](err); test.line > 0 && (!ok || at.Line != test.line) {
				t.Errorf("got %v, want line %d", err, test.line)
			}
		})
	}
}

func TestTraceCheckRefusesUnknownWords(t *testing.T) {
	trace := traceOf("session_meta s\nevent request_begin") + `{"timestamp":"","type":"model_msg","payload":{"type":"hologram"}}`
	_, err := schemas.CheckTrace(schemas.NewLineReader(strings.NewReader(trace)))
	if at, ok := errors.AsType[*schemas.LineError](err); !ok || at.Line != 3 || !strings.Contains(err.Error(), "not known") {
		t.Errorf("got %v", err)
	}
}

func TestTraceFacts(t *testing.T) {
	facts, err := schemas.CheckTrace(schemas.NewLineReader(strings.NewReader(traceOf("trace session_meta s\ntrace user \"a\"\nevent abort"))))
	if err != nil || facts.Messages != 3 || facts.Visible != 1 || facts.Meta.SessionID != "s" {
		t.Errorf("got %+v, %v", facts, err)
	}
}

func TestImportSettings(t *testing.T) {
	trace := schemas.SessionMeta{
		SessionID: "old", Provider: "pro", ModelID: "m/1", ModelContextWindow: []byte("1000"), SystemPrompt: "Be brief.",
		AgentState: "/x", Workspace: "/w", Source: "user", Agent: "ada", ApprovalMode: schemas.ApproveAll,
		Limits: schemas.Limits{MaxTurns: 3}, ApprovalTimeoutMS: 5, Extra: []byte(`{"x":1}`),
	}
	kept := schemas.SessionMeta{
		SessionID: "new", Provider: "pro", ModelID: "m/1", ModelContextWindow: []byte("1000"), SystemPrompt: "Be brief.",
		Workspace: "/w", Agent: "ada", ApprovalMode: schemas.ApproveReadOnly, Limits: schemas.Limits{MaxTurns: 3}, ApprovalTimeoutMS: 5,
	}
	got, err := (&schemas.ImportBody{}).Settings("new", trace)
	if diff := cmp.Diff(kept, got); err != nil || diff != "" {
		t.Errorf("as the trace has it: %v (-want +got)\n%s", err, diff)
	}
	got, err = (&schemas.ImportBody{
		Model: "other/m", Agent: "bob", Workspace: "/v", ApprovalMode: schemas.ApproveNone,
		Limits: schemas.Limits{MaxTurns: 9}, ApprovalTimeoutMS: 7,
	}).Settings("new", trace)
	want := schemas.SessionMeta{
		SessionID: "new", Provider: "other", ModelID: "m", SystemPrompt: "Be brief.", Workspace: "/v", Agent: "bob",
		ApprovalMode: schemas.ApproveNone, Limits: schemas.Limits{MaxTurns: 9}, ApprovalTimeoutMS: 7,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("as it is asked for: %v (-want +got)\n%s", err, diff)
	}
	for name, broken := range map[string]func(*schemas.SessionMeta){
		"no provider":               func(m *schemas.SessionMeta) { m.Provider = "" },
		"limits that make no sense": func(m *schemas.SessionMeta) { m.Limits = schemas.Limits{LoopLimit: 1} },
	} {
		m := trace
		broken(&m)
		if _, err := (&schemas.ImportBody{}).Settings("new", m); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// What is no name, or no time, is not worth a refusal.
	m := trace
	m.Agent, m.ApprovalTimeoutMS = "no name", -1
	if got, err := (&schemas.ImportBody{}).Settings("new", m); err != nil || got.Agent != "" || got.ApprovalTimeoutMS != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// seedTrace reads a trace as the first system with these messages writes it.
func seedTrace(t *testing.T) (messages []schemas.Message) {
	t.Helper()
	f, err := os.Open("../cmd/braid/testdata/first-seed-trace.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := schemas.NewLineReader(f); ; {
		_, m, err := lines.Next()
		if err != nil {
			return messages
		}
		messages = append(messages, m)
	}
}

// A trace that does not say where its tasks end is told task by task, through every view.
func TestTurnViewOfAnImport(t *testing.T) {
	trace := seedTrace(t)
	log := []schemas.Message{{Type: schemas.TypeEvent, Payload: &schemas.SessionImported{Messages: len(trace), Visible: len(trace)}}}
	log = append(log, trace...)
	log = append(log, schemas.Message{Type: schemas.TypeEvent, Payload: &schemas.TaskEnd{Status: schemas.StopAborted, Cause: schemas.CauseUser}})
	view := schemas.NewTurnView()
	var got []string
	for i, m := range log {
		for _, e := range view.Add(schemas.Entry{Position: schemas.Position{Sequence: uint64(i + 1)}, Message: m}) {
			line := string(e.Type)
			if r, ok := e.Data.(*schemas.TaskResult); ok {
				line += fmt.Sprintf(" success=%v aborted=%v turns=%d %q", r.Success, r.Aborted, r.Turns, r.Output)
			}
			got = append(got, line)
		}
	}
	want := []string{
		"text", "tool_use", "tool_use", "tool_result", "tool_result", "text",
		`done success=true aborted=false turns=2 "Yes: bed 1 is dry, and no rain comes before Sunday."`,
		"text", "tool_use", "tool_result",
		`done success=false aborted=true turns=1 "Opening the valve of bed 1."`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Who names an agent goes on as that one: the call wins over the definition, that over the trace.
func TestImportSettingsOfAnAgent(t *testing.T) {
	trace := schemas.SessionMeta{
		Provider: "pro", ModelID: "m", FallbackModels: []string{"pro/other"}, SystemPrompt: "Be brief.", Tools: []string{"old"},
		Agent: "ada", ApprovalMode: schemas.ApproveAll, Limits: schemas.Limits{MaxTurns: 3, MaxTokensTask: 4}, ApprovalTimeoutMS: 5,
	}
	all := schemas.Agent{
		Name: "bob", Model: "new/m", FallbackModels: []string{"new/other"}, SystemPrompt: "Be kind.", Tools: []string{},
		ApprovalMode: schemas.ApproveAsk, Limits: schemas.Limits{MaxTurns: 9}, ApprovalTimeoutMS: 7,
	}
	call := schemas.ImportBody{
		Trace: "t", Agent: "bob", Model: "call/m", FallbackModels: []string{"call/other"}, SystemPrompt: "Be.", Tools: []string{"called"},
		ApprovalMode: schemas.ApproveNone, Workspace: "/w", Limits: schemas.Limits{MaxTurns: 1}, ApprovalTimeoutMS: 8,
	}
	for _, row := range []struct {
		why  string
		body schemas.ImportBody
		with schemas.Agent
		want schemas.SessionMeta
	}{
		{"all that the definition says", schemas.ImportBody{Trace: "t", Agent: "bob"}, all, schemas.SessionMeta{
			SessionID: "s", Provider: "new", ModelID: "m", FallbackModels: []string{"new/other"}, SystemPrompt: "Be kind.", Tools: []string{},
			Agent: "bob", ApprovalMode: schemas.ApproveAsk, Limits: schemas.Limits{MaxTurns: 9, MaxTokensTask: 4}, ApprovalTimeoutMS: 7,
		}},
		{"what it leaves open is the trace's, but for the mode", schemas.ImportBody{Trace: "t", Agent: "bob"}, schemas.Agent{Name: "bob", Model: "new/m"}, schemas.SessionMeta{
			SessionID: "s", Provider: "new", ModelID: "m", FallbackModels: []string{"pro/other"}, SystemPrompt: "Be brief.", Tools: []string{"old"},
			Agent: "bob", ApprovalMode: schemas.ApproveReadOnly, Limits: trace.Limits, ApprovalTimeoutMS: 5,
		}},
		{"the call's own word wins", call, all, schemas.SessionMeta{
			SessionID: "s", Provider: "call", ModelID: "m", FallbackModels: []string{"call/other"}, SystemPrompt: "Be.", Tools: []string{"called"},
			Agent: "bob", ApprovalMode: schemas.ApproveNone, Workspace: "/w", Limits: schemas.Limits{MaxTurns: 1, MaxTokensTask: 4}, ApprovalTimeoutMS: 8,
		}},
	} {
		body := row.body.With(row.with)
		got, err := body.Settings("s", trace)
		if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", row.why, err, diff)
		}
	}
}
