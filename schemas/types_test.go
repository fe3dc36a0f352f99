package schemas_test

import (
	stdjson "encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/schemas"
)

func TestCommandValidate(t *testing.T) {
	session := schemas.SessionRef{Project: "p", ID: "s"}
	create := func(b schemas.CreateBody) schemas.Command {
		return schemas.Command{ID: "c", Type: schemas.CommandCreate, Session: session, Create: &b}
	}
	approve := func(b schemas.ApproveBody) schemas.Command {
		return schemas.Command{ID: "c", Type: schemas.CommandApprove, Session: session, Approve: &b}
	}
	prompt := func(p string) schemas.Command {
		return schemas.Command{ID: "c", Type: schemas.CommandTask, Session: session, Task: &schemas.TaskBody{Prompt: p}}
	}
	tests := []struct {
		name  string
		c     schemas.Command
		field string // of the error, empty if there is none
		code  schemas.Code
	}{
		{"create", create(schemas.CreateBody{Model: "shell/demo", Agent: "a", ApprovalMode: schemas.ApproveAsk}), "", ""},
		{"task", prompt("x"), "", ""},
		{"approve", approve(schemas.ApproveBody{ToolCallID: "t", Decision: schemas.DecisionDeny}), "", ""},
		{"wake", schemas.Command{ID: "c", Type: schemas.CommandWake, Session: session}, "", ""},
		{"abort without a reason", schemas.Command{ID: "c", Type: schemas.CommandAbort, Session: session}, "", ""},
		{"abort with one", schemas.Command{ID: "c", Type: schemas.CommandAbort, Session: session, Abort: &schemas.AbortBody{Reason: "x"}}, "", ""},
		{"deadline", schemas.Command{ID: "c", Type: schemas.CommandDeadline, Session: session, Deadline: &schemas.DeadlineBody{ToolCallID: "t"}}, "", ""},
		{"deadline without body", schemas.Command{ID: "c", Type: schemas.CommandDeadline, Session: session}, "deadline", schemas.CodeInvalid},
		{"deadline of no name", schemas.Command{ID: "c", Type: schemas.CommandDeadline, Session: session, Deadline: &schemas.DeadlineBody{}}, "tool_call_id", schemas.CodeInvalid},
		{"the longest wait for a decision", create(schemas.CreateBody{Model: "a/b", ApprovalTimeoutMS: schemas.MaxApprovalTimeout}), "", ""},
		{"a longer one", create(schemas.CreateBody{Model: "a/b", ApprovalTimeoutMS: schemas.MaxApprovalTimeout + 1}), "approval_timeout_ms", schemas.CodeInvalid},
		{"one that is over before it began", create(schemas.CreateBody{Model: "a/b", ApprovalTimeoutMS: -1}), "approval_timeout_ms", schemas.CodeInvalid},
		{"retry now", schemas.Command{ID: "c", Type: schemas.CommandRetryNow, Session: session}, "", ""},
		{"set", schemas.Command{ID: "c", Type: schemas.CommandSet, Session: session, Set: &schemas.SetBody{ApprovalMode: schemas.ApproveAll}}, "", ""},
		{"set without body", schemas.Command{ID: "c", Type: schemas.CommandSet, Session: session}, "set", schemas.CodeInvalid},
		{"nothing to set", schemas.Command{ID: "c", Type: schemas.CommandSet, Session: session, Set: &schemas.SetBody{}}, "approval_mode", schemas.CodeInvalid},
		{"a mode to set that nobody knows", schemas.Command{ID: "c", Type: schemas.CommandSet, Session: session, Set: &schemas.SetBody{ApprovalMode: "x"}}, "approval_mode", schemas.CodeInvalid},
		{"an id that is no name", schemas.Command{ID: "a b"}, "id", schemas.CodeInvalid},
		{"a project that is no name", schemas.Command{ID: "c", Session: schemas.SessionRef{Project: "a.b", ID: "s"}}, "project", schemas.CodeInvalid},
		{"a session that is no name", schemas.Command{ID: "c", Session: schemas.SessionRef{Project: "p"}}, "session", schemas.CodeInvalid},
		{"a type nobody knows", schemas.Command{ID: "c", Type: "x", Session: session}, "type", schemas.CodeInvalid},
		{"create without body", schemas.Command{ID: "c", Type: schemas.CommandCreate, Session: session}, "create", schemas.CodeInvalid},
		{"task without body", schemas.Command{ID: "c", Type: schemas.CommandTask, Session: session}, "task", schemas.CodeInvalid},
		{"approve without body", schemas.Command{ID: "c", Type: schemas.CommandApprove, Session: session}, "approve", schemas.CodeInvalid},
		{"no model", create(schemas.CreateBody{}), "model", schemas.CodeInvalid},
		{"an agent that is no name", create(schemas.CreateBody{Model: "a/b", Agent: "*"}), "agent", schemas.CodeInvalid},
		{"an approval mode nobody knows", create(schemas.CreateBody{Model: "a/b", ApprovalMode: "x"}), "approval_mode", schemas.CodeInvalid},
		{"a workspace without end", create(schemas.CreateBody{Model: "a/b", Workspace: strings.Repeat("x", schemas.MaxReason+1)}), "workspace", schemas.CodeTooLarge},
		{"a workspace that is no path", create(schemas.CreateBody{Model: "a/b", Workspace: "a\x00b"}), "workspace", schemas.CodeInvalid},
		{"a system prompt without end", create(schemas.CreateBody{Model: "a/b", SystemPrompt: strings.Repeat("x", schemas.MaxSystemPrompt+1)}), "system_prompt", schemas.CodeTooLarge},
		{"no prompt", prompt(""), "prompt", schemas.CodeInvalid},
		{"the longest prompt", prompt(strings.Repeat("x", schemas.MaxPrompt)), "", ""},
		{"a longer prompt", prompt(strings.Repeat("x", schemas.MaxPrompt+1)), "prompt", schemas.CodeTooLarge},
		{"a call that is no name", approve(schemas.ApproveBody{Decision: schemas.DecisionAllow}), "tool_call_id", schemas.CodeInvalid},
		{"people can't forbid", approve(schemas.ApproveBody{ToolCallID: "t", Decision: schemas.DecisionForbidden}), "decision", schemas.CodeInvalid},
		{"a hash without end", approve(schemas.ApproveBody{ToolCallID: "t", Decision: schemas.DecisionAllow, Hash: strings.Repeat("x", 65)}), "hash", schemas.CodeTooLarge},
		{"a reason without end", schemas.Command{ID: "c", Type: schemas.CommandAbort, Session: session, Abort: &schemas.AbortBody{Reason: strings.Repeat("x", schemas.MaxReason+1)}}, "reason", schemas.CodeTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.c.Validate()
			var e *schemas.Error
			switch {
			case tt.field == "":
				if err != nil {
					t.Errorf("refused: %v", err)
				}
			case !errors.As(err, &e):
				t.Errorf("error %v", err)
			case e.Field != tt.field || e.Code != tt.code:
				t.Errorf("field %q code %q, want %q %q", e.Field, e.Code, tt.field, tt.code)
			}
		})
	}
}

// A command without the body of its type is refused by its schema as by Go.
func TestCommandSchemaNeedsBody(t *testing.T) {
	s := validator(t)("command")
	for _, typ := range []schemas.CommandType{schemas.CommandCreate, schemas.CommandTask, schemas.CommandApprove, schemas.CommandSet, schemas.CommandDeadline} {
		b, err := schemas.EncodeJSON(schemas.Command{ID: "c", Type: typ, Session: schemas.SessionRef{Project: "p", ID: "s"}})
		if err != nil {
			t.Fatal(err)
		}
		if validate(s, b) == nil {
			t.Errorf("accepted %s", b)
		}
	}
}

func TestControl(t *testing.T) {
	for typ, want := range map[schemas.CommandType]bool{
		schemas.CommandCreate: false, schemas.CommandTask: false, schemas.CommandWake: false,
		schemas.CommandApprove: true, schemas.CommandAbort: true, schemas.CommandSet: true,
		schemas.CommandRetryNow: true, schemas.CommandDeadline: true,
	} {
		if typ.Control() != want {
			t.Errorf("%s: control %v", typ, !want)
		}
	}
}

func TestOutcomeErr(t *testing.T) {
	if err := (schemas.Outcome{Code: schemas.CodeApplied}).Err(); err != nil {
		t.Errorf("applied: %v", err)
	}
	err := schemas.Outcome{Code: schemas.CodeNotPending}.Err()
	if !errors.Is(err, &schemas.Error{Code: schemas.CodeNotPending}) || err.Error() != "the command was refused: not_pending" {
		t.Errorf("refused: %v", err)
	}
	if err := (schemas.Outcome{Code: schemas.CodeDeleted, Message: "gone"}).Err(); err.Error() != "gone" {
		t.Errorf("with a message: %v", err)
	}
}

func TestErrorIs(t *testing.T) {
	err := error(schemas.Errorf(schemas.CodeConflict, "key %d", 7))
	if err.Error() != "key 7" || !errors.Is(err, &schemas.Error{Code: schemas.CodeConflict}) {
		t.Errorf("%v", err)
	}
	if errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) || errors.Is(err, errors.New("key 7")) {
		t.Error("is another error")
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A-z_09": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a.b": false, "a*": false, "a b": false, "é": false, "a/b": false, "a\n": false, ">": false,
	} {
		err := schemas.ValidateName("agent", name)
		if schemas.ValidName(name) != want || (err == nil) != want {
			t.Errorf("%q: valid %v, %v", name, !want, err)
		}
	}
	if err := schemas.ValidateName("agent", strings.Repeat("?", 1000)); len(err.Error()) > 300 {
		t.Errorf("the error repeats the whole name: %d bytes", len(err.Error()))
	}
}

func TestSplitModel(t *testing.T) {
	for in, want := range map[string][2]string{
		"shell/demo": {"shell", "demo"}, "openrouter/meta/llama-3:free": {"openrouter", "meta/llama-3:free"},
		"": {}, "shell": {}, "/demo": {}, "shell/": {}, "she ll/x": {}, "a/b\n": {}, "a/" + strings.Repeat("x", 257): {},
	} {
		provider, model, err := schemas.SplitModel(in)
		if provider != want[0] || model != want[1] || (err == nil) != (want[0] != "") {
			t.Errorf("%q: %q %q %v", in, provider, model, err)
		}
	}
}

func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := schemas.Cursor{
			Epoch:    rapid.StringMatching(`[A-Za-z0-9_]{1,20}`).Draw(t, "epoch"),
			Position: schemas.Position{Sequence: rapid.Uint64().Draw(t, "sequence"), Line: rapid.IntRange(0, 1<<31-1).Draw(t, "line")},
		}
		if got, err := schemas.ParseCursor(c.String()); err != nil || got != c {
			t.Fatalf("%s: %v, %v", c, got, err)
		}
	})
	for _, s := range []string{"", "e", "e-", "e-1", "e-1.", "e-.1", "e-1.1.1", "e-+1.1", "e-01.1", "e-1.-1", "e-1.9999999999", "-1.1", "e f-1.1", "e-1.1 "} {
		if c, err := schemas.ParseCursor(s); err == nil || !c.IsZero() {
			t.Errorf("%q: read as %v", s, c)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("e-1.0")
	f.Add("a-b-1.1")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := schemas.ParseCursor(s); err == nil && c.String() != s {
			t.Errorf("%q was read as %q", s, c)
		}
	})
}

func TestPositionCompare(t *testing.T) {
	p := func(s uint64, l int) schemas.Position { return schemas.Position{Sequence: s, Line: l} }
	ordered := []schemas.Position{p(0, 0), p(0, 1), p(1, 0), p(1, 1), p(1, 10), p(2, 0), p(10, 0)}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%s compared to %s: %d", a, b, got)
			}
		}
	}
}

func TestMessage(t *testing.T) {
	m := schemas.New(start.Add(1500*time.Microsecond), schemas.AssistantThinking("x"))
	if !m.Time().Equal(start.Add(time.Millisecond)) {
		t.Errorf("time %s", m.Time())
	}
	if (schemas.Message{Timestamp: "yesterday"}).Time() != (time.Time{}) {
		t.Error("a time out of nothing")
	}
	inner := m.WithOrigin("kid")
	outer := inner.WithOrigin("mid")
	if diff := cmp.Diff([]string{"mid", "kid"}, outer.Origin); diff != "" || len(m.Origin) != 0 || len(inner.Origin) != 1 {
		t.Errorf("origin (-want +got)\n%s", diff)
	}
	if !m.Recorded() || inner.Recorded() || m.Partial() || !m.Visible() {
		t.Error("a complete message of the session is recorded, a child's is not")
	}
	partial := schemas.New(start, schemas.ToolCallFragment(schemas.PhaseStart, "c", "ls", ""))
	if partial.Recorded() || !partial.Partial() {
		t.Error("a fragment is recorded")
	}
	if schemas.NewTraceOnly(start, &schemas.Checkpoint{}).Visible() {
		t.Error("scope trace is visible")
	}
	if (schemas.Message{}).Kind() != "" {
		t.Error("a kind out of nothing")
	}
	if got := (schemas.SessionRef{Project: "p", ID: "s"}).String(); got != "p/s" {
		t.Errorf("reference %s", got)
	}
}

// Programs with another JSON package get the same message.
func TestMessageInOtherPackages(t *testing.T) {
	m := schemas.New(start, schemas.HarnessText("<hi>")).WithOrigin("kid")
	b, err := stdjson.Marshal([]schemas.Message{m})
	if err != nil {
		t.Fatal(err)
	}
	var got []schemas.Message
	if err := stdjson.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]schemas.Message{m}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := stdjson.Unmarshal([]byte(`[{"payload":1}]`), &got); err == nil {
		t.Error("a payload that is no object was decoded")
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, m := range map[string]schemas.Message{
		"no payload":                         {},
		"raw JSON that is none":              schemas.New(start, &schemas.Text{Fidelity: jsontext.Value(`{`)}),
		"an unknown payload that is no JSON": schemas.New(start, &schemas.Unknown{Of: "x", Raw: jsontext.Value(`nonsense`)}),
	} {
		if b, err := schemas.Append([]byte("kept"), m); err == nil || string(b) != "kept" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := schemas.EncodeJSON(make(chan int)); err == nil {
		t.Errorf("a channel became %q", b)
	}
	if _, err := schemas.CompactRaw([]byte(`{`)); err == nil {
		t.Error("half an object was taken as raw JSON")
	}
}

func TestDecodeStrictJSON(t *testing.T) {
	var b schemas.TaskBody
	if err := schemas.DecodeStrictJSON([]byte(`{"prompt":"x"}`), &b); err != nil || b.Prompt != "x" {
		t.Errorf("%+v, %v", b, err)
	}
	err := schemas.DecodeStrictJSON([]byte(`{"prompt":"x","promt":"y"}`), &b)
	if err == nil || !strings.Contains(err.Error(), "promt") {
		t.Errorf("the error does not name the member: %v", err)
	}
}

func TestToolDefaults(t *testing.T) {
	want := schemas.ToolDefinition{
		Name: "x", Permission: schemas.PermissionReadWrite, Pool: "default", Retry: schemas.RetryNever,
		TimeoutMS: 120_000, QueueTimeoutMS: 30_000, OutputCap: 32 << 10,
	}
	if diff := cmp.Diff(want, schemas.ToolDefinition{Name: "x", TimeoutMS: -1}.WithDefaults()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	own := schemas.ToolDefinition{Name: "x", Permission: schemas.PermissionRead, Pool: "p", Retry: schemas.RetrySafe, TimeoutMS: 1, QueueTimeoutMS: 2, OutputCap: 3}
	if diff := cmp.Diff(own, own.WithDefaults()); diff != "" {
		t.Errorf("changed what was set (-want +got)\n%s", diff)
	}
}

func TestCallHash(t *testing.T) {
	a := schemas.CallHash("ls", `{"p":1}`)
	if len(a) != 32 || a != schemas.CallHash("ls", `{"p":1}`) || !schemas.ValidName(a) {
		t.Errorf("hash %q", a)
	}
	if a == schemas.CallHash("ls", `{"p":1} `) || schemas.CallHash("ab", "c") == schemas.CallHash("a", "bc") {
		t.Error("two calls with one hash")
	}
}

func TestTokenCountsAdd(t *testing.T) {
	a := schemas.TokenCounts{CacheRead: 1, CacheWrite: 2, Output: 3, Total: 4, CostUSD: 5}
	if diff := cmp.Diff(schemas.TokenCounts{CacheRead: 2, CacheWrite: 4, Output: 6, Total: 8, CostUSD: 10}, a.Add(a)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestViolationString(t *testing.T) {
	v := schemas.Violation{Rule: schemas.RuleBudget, Position: schemas.Position{Sequence: 7, Line: 1}, Detail: "why"}
	if v.String() != "7.1 budget: why" {
		t.Error(v)
	}
	if schemas.ViewFeed.String() != "feed" || schemas.View(9).String() != "View(9)" {
		t.Error("views have no names")
	}
}
