package schemas_test

import (
	"slices"
	"strings"
	"testing"

	"braid/schemas"
	"braid/schemas/schematest"
)

// Where fragments have expired before anybody took over, what was being streamed need not add up. The
// change of owner says so; without that it must.
func TestSegmentsAroundAGap(t *testing.T) {
	for _, gap := range []bool{true, false} {
		entries := schematest.MustParse("event request_begin\npartial_text start\npartial_text delta \"One, \"\n" +
			"event owner_changed e1 e2 cause=lost\npartial_text stop stop_reason=timeout\n" +
			"text \"One, two\\n[part of this message may be lost]\" stop_reason=timeout\nevent request_end timeout attempt=1\n")
		for i, e := range entries {
			if p, ok := e.Message.Payload.(*schemas.OwnerChanged); ok {
				changed := *p
				changed.Gap = gap
				entries[i].Message.Payload = &changed
			}
		}
		c := schemas.NewChecker(schemas.ViewStream)
		var broken []schemas.RuleName
		for _, e := range entries {
			for _, v := range c.Add(e) {
				broken = append(broken, v.Rule)
			}
		}
		if want := !gap; slices.Contains(broken, schemas.RuleSegmentContent) != want || len(broken) > 1 {
			t.Errorf("gap %v: broken are %v", gap, broken)
		}
	}
}

// A payload's type is found wherever it stands and however it is escaped.
func TestTypeMember(t *testing.T) {
	for raw, want := range map[string]schemas.Kind{
		`{"type":"text","role":"user","text":"a"}`:                         schemas.KindText,
		`{"role":"user","text":"a","type":"text"}`:                         schemas.KindText,
		"{\"type\":\"te\\u0078t\",\"role\":\"user\",\"text\":\"a\"}":       schemas.KindText,
		`{"type":"tëxt","role":"user"}`:                                    "tëxt",
		`{"type":7,"role":"user"}`:                                         "",
		`{"role":"user"}`:                                                  "",
		"{ \"deep\": {\"type\": \"thinking\"}, \"type\": \"from\\\\me\" }": `from\me`,
	} {
		m, err := schemas.Decode([]byte(`{"timestamp":"2026-01-01T00:00:00.000Z","type":"model_message","payload":` + raw + `}`))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if m.Kind() != want {
			t.Errorf("%s is a %q", raw, m.Kind())
		}
	}
}

// What a person may get wrong about a task's place in line has a name.
func TestWhenBusy(t *testing.T) {
	for _, good := range []schemas.WhenBusy{schemas.BusyReject, schemas.BusyQueue, schemas.BusySteer} {
		if got, err := schemas.ParseWhenBusy(string(good)); err != nil || got != good {
			t.Errorf("%s: %q, %v", good, got, err)
		}
	}
	c := schemas.Command{ID: "c", Type: schemas.CommandTask, Session: schemas.SessionRef{Project: "p", ID: "s"}, Task: &schemas.TaskBody{Prompt: "go", WhenBusy: "later"}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "when_busy") {
		t.Errorf("validate: %v", err)
	}
	c.Type, c.Task = schemas.CommandWithdraw, nil
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "withdraw") {
		t.Errorf("validate: %v", err)
	}
}

// Arguments that are no JSON are a string of what the model wrote.
func TestToolUseOfWhatIsNoJSON(t *testing.T) {
	for arguments, want := range map[string]string{`{"a": 1}`: `{"a":1}`, `[1]`: `"[1]"`, `{"a"`: `"{\"a\""`} {
		if got := schemas.NewToolUseBlock(schemas.NewToolCall("c", "look", arguments)).Input; string(got) != want {
			t.Errorf("%s: %s", arguments, got)
		}
	}
}

// Every media type that is listed is taken, if the data begins as it does.
func TestImageTypes(t *testing.T) {
	types := schemas.ImageTypes()
	if !slices.Contains(types, "image/png") {
		t.Errorf("the types are %q", types)
	}
	types[0] = "changed"
	if slices.Contains(schemas.ImageTypes(), "changed") {
		t.Error("who asks can change the list")
	}
}
