package schematest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/schemas"
)

// What Format writes, Parse reads: the notation loses nothing it has a place for.
func TestFormatParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := LegalStream().Draw(t, "stream")
		text := Format(entries)
		steps, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		var again []schemas.Entry
		for _, s := range steps {
			again = append(again, s.Entry)
		}
		if diff := cmp.Diff(text, Format(again)); diff != "" {
			t.Fatalf("(-first +again)\n%s", diff)
		}
		if len(again) != len(entries) {
			t.Fatalf("%d messages became %d", len(entries), len(again))
		}
		for i := range entries {
			if entries[i].Position != again[i].Position || entries[i].Message.Kind() != again[i].Message.Kind() {
				t.Fatalf("message %d: %v became %v", i, entries[i], again[i])
			}
		}
	})
}

func TestFormatEveryKind(t *testing.T) {
	const text = `trace session_meta s
trace user "a \"b\"\n" sender=harness
event mcp_connect_begin
event mcp_connect_end failed
event tool_list_ready
event request_begin attempt=2
trace image "image/png, 12 kB"
inline_thinking "AAAA" stop_reason=failed
image_url "https://example.org"
inline_data "AAAA"
partial_thinking start
partial_thinking delta ""
thinking "x" stop_reason=timeout
partial_tool_call A start "ls"
partial_tool_call A delta "{}"
+ partial_tool_call A stop stop_reason=failed
tool_call A ls "{}"
event approval_request A ls "{}"
event approval_decision deny A
partial_tool_call_output A start attempt=3
partial_tool_call_output A delta "" "img" attempt=3
tool_call_output A "out" "img" stop_reason=failed
event token_usage
+ event request_end failed error_message="no \"luck\"" attempt=2 retry_in_ms=4000
+ event budget_exceeded
@40 event loop_detected
event compaction_begin
event compaction_end failed
trace event subagent kid
kid/grand: partial_text stop
event owner_changed a b cause=handover
event session_changed deny-all
event session_imported 0 0
trace event command_outcome c1
trace event command_outcome c2 code=not_pending
trace event checkpoint
event abort "why"
event task_end aborted cause=user
event brand_new
`
	if diff := cmp.Diff(text, Format(MustParse(text))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{
		`nonsense`, `text "unfinished`, `text "a" more`, `+`, `! positions`, `@x text "a"`,
		`text "a" cause=user`, `event request_end failed error_message="x`, `streamed nonsense`, `trace`,
	} {
		_, err := Parse("event request_begin\n" + line)
		if err == nil {
			t.Errorf("%s: read without an error", line)
		} else if !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: the error does not name the line: %v", line, err)
		}
	}
}

func TestMustParsePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	MustParse("nonsense")
}

func TestStepsBesideMessages(t *testing.T) {
	steps, err := Parse("gap ! one-request\nfinish\nevent request_begin ! one-request budget # why")
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 3 || !steps[0].Gap || !steps[1].Finish || steps[2].Line != 3 {
		t.Errorf("steps: %+v", steps)
	}
	if diff := cmp.Diff([]schemas.RuleName{schemas.RuleOneRequest, schemas.RuleBudget}, steps[2].Want); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
