package schemas_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// readTask reads a task as whoever takes one from outside does.
func readTask(body string) (*schemas.TaskBody, error) {
	c, err := schemas.DecodeCommand([]byte(`{"id":"c","type":"task","session":{"project":"p","id":"s"},"task":` + body + `}`))
	if err == nil {
		err = c.Validate()
	}
	return c.Task, err
}

const (
	said   = `{"role":"user","content":[{"type":"text","text":"hi"}]}`
	called = `{"role":"assistant","content":[{"type":"tool_call","tool_call_id":"a","name":"look","arguments":"{}"}]}`
	found  = `{"role":"user","content":[{"type":"tool_call_output","tool_call_id":"a","output":"x"}]}`
	spoken = `{"role":"assistant","content":[{"type":"text","text":"ok"}]}`
)

// input is a task of these turns.
func input(turns ...string) string { return `{"input":[` + strings.Join(turns, ",") + `]}` }

// turnOf is a turn of these parts, prompt one of the user's.
func turnOf(role string, parts ...string) string {
	return `{"role":"` + role + `","content":[` + strings.Join(parts, ",") + `]}`
}

func prompt(parts ...string) string { return input(turnOf("user", parts...)) }

func textPart(s string) string  { return `{"type":"text","text":"` + s + `"}` }
func imagePart(s string) string { return `{"type":"image_url","image_url":"` + s + `"}` }

func TestInputAccepted(t *testing.T) {
	png := schematest.Image("image/png", 3<<20)
	for why, body := range map[string]string{
		"words":                     `{"prompt":"hi"}`,
		"words of every script":     `{"prompt":"<é> 😀 \ud83d\ude00 \u2028\t\r\n\ufffd"}`,
		"as long as may be":         `{"prompt":"` + strings.Repeat("x", schemas.MaxPrompt) + `"}`,
		"words as input":            input(said),
		"words in parts":            prompt(textPart("a"), textPart("b")),
		"a picture":                 prompt(imagePart(png)),
		"words and pictures":        prompt(textPart("which?"), imagePart(png), imagePart("https://example.com/a.png?x=1")),
		"a conversation":            input(said, spoken, said),
		"calls with outputs":        input(said, called, found, spoken, said),
		"outputs before the prompt": input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a"}`, textPart("go on"))),
		"outputs in another order": input(said, turnOf("assistant", textPart("both"), `{"type":"tool_call","tool_call_id":"a","name":"x"}`, `{"type":"tool_call","tool_call_id":"b","name":"x","arguments":"{\"k\":1}"}`),
			turnOf("user", `{"type":"tool_call_output","tool_call_id":"b","output":"2","stop_reason":"failed"}`, `{"type":"tool_call_output","tool_call_id":"a","output":"1"}`), spoken, said),
		"an output with pictures": input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a","images":["`+png+`"]}`), spoken, said),
		"ids from elsewhere":      input(said, strings.Replace(called, `"a"`, `"toolu_01/é:x"`, 1), strings.Replace(found, `"a"`, `"toolu_01/é:x"`, 1), spoken, said),
		"members of a newer time": `{"prompt":"hi","priority":3}`,
	} {
		if _, err := readTask(body); err != nil {
			t.Errorf("%s: %v (%s)", why, err, err.(*schemas.Error).Field)
		}
	}
}

func TestInputRefused(t *testing.T) {
	const invalid, large = schemas.CodeInvalid, schemas.CodeTooLarge
	png := schematest.Image("image/png", 20)
	manyTurns := strings.Repeat(said+","+spoken+",", schemas.MaxInputTurns/2) + said
	wide := schematest.Image("image/png", 9<<20)
	tests := []struct {
		why, body string
		code      schemas.Code
		field     string
	}{
		{"nothing at all", `{}`, invalid, "prompt"},
		{"no words", `{"prompt":""}`, invalid, "prompt"},
		{"blanks say nothing, and providers refuse them", `{"prompt":" \n\t"}`, invalid, "prompt"},
		{"words of another type", `{"prompt":["hi"]}`, invalid, "prompt"},
		{"too many words", `{"prompt":"` + strings.Repeat("x", schemas.MaxPrompt+1) + `"}`, large, "prompt"},
		{"both ways", `{"prompt":"hi","input":[` + said + `]}`, invalid, "input"},
		{"a member twice", `{"prompt":"hi","prompt":"ho"}`, invalid, "prompt"},
		{"a lone surrogate in an escape", `{"prompt":"a\ud83d"}`, invalid, "prompt"},
		{"the other half alone", `{"prompt":"\udc00a"}`, invalid, "prompt"},
		{"bytes that are not UTF-8", "{\"prompt\":\"a\xff\"}", invalid, "prompt"},
		{"a surrogate in raw bytes", "{\"prompt\":\"\xed\xa0\x80\"}", invalid, "prompt"},
		{"NUL", `{"prompt":"a\u0000b"}`, invalid, "prompt"},
		{"an escape sequence", `{"prompt":"\u001b[2J"}`, invalid, "prompt"},
		{"a delete", `{"prompt":"\u007f"}`, invalid, "prompt"},
		{"a control character beyond ASCII", `{"prompt":"\u009b2J"}`, invalid, "prompt"},

		{"no turns", `{"input":[]}`, invalid, "input"},
		{"turns of another type", `{"input":"hi"}`, invalid, "input"},
		{"a turn of another type", `{"input":["hi"]}`, invalid, "input[0]"},
		{"words in the place of parts", `{"input":[{"role":"user","content":"hi"}]}`, invalid, "input[0].content"},
		{"no parts", input(turnOf("user")), invalid, "input[0].content"},
		{"parts left out", `{"input":[{"role":"user"}]}`, invalid, "input[0].content"},
		{"nobody's turn", `{"input":[{"content":[{"type":"text","text":"hi"}]}]}`, invalid, "input[0].role"},
		{"a role that has no turns", input(turnOf("system", textPart("be kind")), said), invalid, "input[0].role"},
		{"a role of other protocols", input(said, turnOf("tool", textPart("x"))), invalid, "input[1].role"},
		{"the model begins", input(spoken, said), invalid, "input[0].role"},
		{"the user twice", input(said, said), invalid, "input[1].role"},
		{"the model twice", input(said, spoken, spoken, said), invalid, "input[2].role"},
		{"the model last", input(said, spoken), invalid, "input[1].role"},
		{"outputs last: nothing is asked", input(said, called, found), invalid, "input[2].content"},
		{"too many turns", input(manyTurns), large, "input"},
		{"too many parts", prompt(strings.Repeat(textPart("x")+",", schemas.MaxInputParts) + textPart("x")), large, "input[0].content"},
		{"a member nobody knows, in a turn", `{"input":[{"role":"user","content":[{"type":"text","text":"hi"}],"name":"bob"}]}`, invalid, "input[0].name"},
		{"a member nobody knows, in a part", prompt(`{"type":"text","text":"hi","cache":true}`), invalid, "input[0].content[0].cache"},

		{"a part of no type", prompt(`{"text":"hi"}`), invalid, "input[0].content[0].type"},
		{"a part of an unknown type", prompt(textPart("hi"), `{"type":"video","text":"hi"}`), invalid, "input[0].content[1].type"},
		{"a part of a type that is not for input", prompt(`{"type":"thinking","text":"hi"}`), invalid, "input[0].content[0].type"},
		{"a type of another type", prompt(`{"type":1}`), invalid, "input[0].content[0].type"},
		{"no text", prompt(`{"type":"text"}`), invalid, "input[0].content[0].text"},
		{"blanks as text", prompt(textPart("hi"), textPart("  ")), invalid, "input[0].content[1].text"},
		{"NUL in a text", input(said, turnOf("assistant", textPart(`\u0000`)), said), invalid, "input[1].content[0].text"},
		{"a lone surrogate in a text", input(said, turnOf("assistant", textPart(`\ud800`)), said), invalid, "input[1].content[0].text"},
		{"a text too long", prompt(textPart(strings.Repeat("x", schemas.MaxPrompt+1))), large, "input[0].content[0].text"},
		{"a text with a picture", prompt(`{"type":"text","text":"hi","image_url":"` + png + `"}`), invalid, "input[0].content[0].image_url"},
		{"a text with a name", prompt(`{"type":"text","text":"hi","name":"x"}`), invalid, "input[0].content[0].name"},
		{"a text with a reason", prompt(`{"type":"text","text":"hi","stop_reason":"failed"}`), invalid, "input[0].content[0].stop_reason"},

		{"no picture", prompt(`{"type":"image_url"}`), invalid, "input[0].content[0].image_url"},
		{"a picture as other protocols wrap it", prompt(`{"type":"image_url","image_url":{"url":"` + png + `"}}`), invalid, "input[0].content[0].image_url"},
		{"a picture of the model's", input(said, turnOf("assistant", imagePart(png)), said), invalid, "input[1].content[0].type"},
		{"a picture that is none", prompt(textPart("hi"), imagePart("data:image/png;base64,AAAA")), invalid, "input[0].content[1].image_url"},
		{"a picture of another type than it says", prompt(imagePart(strings.Replace(png, "png", "gif", 1))), invalid, "input[0].content[0].image_url"},
		{"bad base64", prompt(imagePart(png + "?")), invalid, "input[0].content[0].image_url"},
		{"a file", prompt(imagePart("file:///etc/passwd")), invalid, "input[0].content[0].image_url"},
		{"credentials", prompt(imagePart("https://a:b@example.com/")), invalid, "input[0].content[0].image_url"},
		{"a picture too large", prompt(imagePart(schematest.Image("image/png", schemas.MaxImage+1))), large, "input[0].content[0].image_url"},
		{"pictures too large together", prompt(imagePart(wide), imagePart(wide)), large, "input[0].content[1].image_url"},
		{"too many pictures", prompt(strings.Repeat(imagePart(png)+",", schemas.MaxInputImages) + imagePart(png)), large, "input[0].content[100].image_url"},
		{"a picture with words", prompt(`{"type":"image_url","image_url":"` + png + `","text":"hi"}`), invalid, "input[0].content[0].text"},

		{"a call of the user's", prompt(textPart("hi"), `{"type":"tool_call","tool_call_id":"a","name":"x"}`), invalid, "input[0].content[1].type"},
		{"a call without an id", input(said, turnOf("assistant", `{"type":"tool_call","name":"x"}`), found, spoken, said), invalid, "input[1].content[0].tool_call_id"},
		{"a call with a bad id", input(said, turnOf("assistant", `{"type":"tool_call","tool_call_id":"a\u0000","name":"x"}`), found, spoken, said), invalid, "input[1].content[0].tool_call_id"},
		{"a call with an endless id", input(said, turnOf("assistant", `{"type":"tool_call","tool_call_id":"`+strings.Repeat("a", 257)+`","name":"x"}`)), large, "input[1].content[0].tool_call_id"},
		{"a call of no tool", input(said, turnOf("assistant", `{"type":"tool_call","tool_call_id":"a"}`), found, spoken, said), invalid, "input[1].content[0].name"},
		{"a call of what is no name", input(said, turnOf("assistant", `{"type":"tool_call","tool_call_id":"a","name":"rm -rf"}`), found, spoken, said), invalid, "input[1].content[0].name"},
		{"arguments that are no JSON", input(said, strings.Replace(called, `"{}"`, `"{"`, 1), found, spoken, said), invalid, "input[1].content[0].arguments"},
		{"arguments that are no object", input(said, strings.Replace(called, `"{}"`, `"[1]"`, 1), found, spoken, said), invalid, "input[1].content[0].arguments"},
		{"arguments with a member twice", input(said, strings.Replace(called, `"{}"`, `"{\"a\":1,\"a\":2}"`, 1), found, spoken, said), invalid, "input[1].content[0].arguments"},
		{"arguments with a lone surrogate in them", input(said, strings.Replace(called, `"{}"`, `"{\"a\":\"\\ud800\"}"`, 1), found, spoken, said), invalid, "input[1].content[0].arguments"},
		{"arguments as an object", input(said, strings.Replace(called, `"{}"`, `{}`, 1), found, spoken, said), invalid, "input[1].content[0].arguments"},
		{"a call twice in a turn", input(said, turnOf("assistant", `{"type":"tool_call","tool_call_id":"a","name":"x"}`, `{"type":"tool_call","tool_call_id":"a","name":"x"}`), found, spoken, said), invalid, "input[1].content[1].tool_call_id"},
		{"a call twice in the input", input(said, called, found, called, found, spoken, said), invalid, "input[3].content[0].tool_call_id"},
		{"a call with an output of its own", input(said, strings.Replace(called, `"arguments":"{}"`, `"output":"x"`, 1), found, spoken, said), invalid, "input[1].content[0].output"},
		{"a call without output", input(said, called, said), invalid, "input[2].content"},
		{"one of two calls without output", input(said, turnOf("assistant", `{"type":"tool_call","tool_call_id":"b","name":"x"}`, `{"type":"tool_call","tool_call_id":"a","name":"x"}`), found, spoken, said), invalid, "input[2].content"},

		{"an output of no call", input(said, spoken, found, spoken, said), invalid, "input[2].content[0].tool_call_id"},
		{"an output before everything", prompt(`{"type":"tool_call_output","tool_call_id":"a","output":"x"}`), invalid, "input[0].content[0].tool_call_id"},
		{"an output twice", input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a"}`, `{"type":"tool_call_output","tool_call_id":"a"}`), spoken, said), invalid, "input[2].content[1].tool_call_id"},
		{"an output turns later", input(said, called, found, spoken, found, spoken, said), invalid, "input[4].content[0].tool_call_id"},
		{"an output behind words", input(said, called, turnOf("user", textPart("wait"), `{"type":"tool_call_output","tool_call_id":"a"}`), spoken, said), invalid, "input[2].content[1]"},
		{"an output of the model's", input(said, turnOf("assistant", `{"type":"tool_call_output","tool_call_id":"a"}`), said), invalid, "input[1].content[0].type"},
		{"an output with a reason nobody knows", input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a","stop_reason":"bored"}`), spoken, said), invalid, "input[2].content[0].stop_reason"},
		{"an output with a terminal's control", input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a","output":"\u001b[0m"}`), spoken, said), invalid, "input[2].content[0].output"},
		{"an output with a bad picture", input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a","images":["`+png+`","x"]}`), spoken, said), invalid, "input[2].content[0].images[1]"},
		{"an output with an error of another protocol", input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a","is_error":true}`), spoken, said), invalid, "input[2].content[0].is_error"},
	}
	if len(tests) < 50 {
		t.Errorf("only %d rows", len(tests))
	}
	for _, tt := range tests {
		_, err := readTask(tt.body)
		refused, ok := errors.AsType[*schemas.Error](err)
		switch {
		case !ok:
			t.Errorf("%s: accepted, or %v", tt.why, err)
		case refused.Code != tt.code || refused.Field != tt.field:
			t.Errorf("%s: %s at %q, want %s at %q (%v)", tt.why, refused.Code, refused.Field, tt.code, tt.field, err)
		case refused.Message == "" || len(refused.Message) > 400:
			t.Errorf("%s: the message has %d bytes", tt.why, len(refused.Message))
		}
	}
}

// One bad character, stored, would be in every later request and have each refused.
func TestCase_D01_TextThatNoProviderTakesIsRefused(t *testing.T) {
	for _, bad := range []string{`\u0000`, `a\ud83d`, `\ud83d\u0041`, "\xff\xfe", `\u001b`} {
		for name, body := range map[string]string{
			"prompt": `{"prompt":"` + bad + `"}`,
			"text":   prompt(textPart(bad)),
			"output": input(said, called, turnOf("user", `{"type":"tool_call_output","tool_call_id":"a","output":"`+bad+`"}`), spoken, said),
		} {
			if _, err := readTask(body); err == nil {
				t.Errorf("%s: %q is accepted", name, bad)
			}
		}
	}
}

// encoding/json replaces what it can't read, and says nothing; here it is an error, whether it comes
// as JSON or in a Go string.
func TestCase_F12_InvalidTextIsNotReplacedInSilence(t *testing.T) {
	for _, body := range []string{`{"prompt":"\ud83d"}`, "{\"prompt\":\"a\xff\"}"} {
		var b schemas.TaskBody
		if err := schemas.DecodeInput([]byte(body), &b); err == nil {
			t.Errorf("%q is read as %q", body, b.Prompt)
		}
	}
	c := schemas.Command{ID: "c", Type: schemas.CommandTask, Session: schemas.SessionRef{Project: "p", ID: "s"}, Task: &schemas.TaskBody{Prompt: "a\xff"}}
	if err := c.Validate(); err == nil {
		t.Error("a Go string that is not UTF-8 is accepted")
	}
}

// What is accepted becomes messages that no reader of a stream can object to, with every part of it,
// the outputs behind their calls and in their order.
func TestInputBecomesMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &schemas.TaskBody{Input: schematest.Input().Draw(t, "input")}
		c := schemas.Command{ID: "c", Type: schemas.CommandTask, Session: schemas.SessionRef{Project: "p", ID: "s"}, Task: b}
		if err := c.Validate(); err != nil {
			t.Fatalf("%v (%s)", err, err.(*schemas.Error).Field)
		}
		n := 0
		payloads := b.Payloads(func() string { n++; return fmt.Sprint("own", n) })
		parts := 0
		for _, turn := range b.Input {
			parts += len(turn.Content)
		}
		if len(payloads) != parts {
			t.Fatalf("%d parts became %d messages", parts, len(payloads))
		}
		var calls, outputs []string
		checker := schemas.NewChecker(schemas.ViewRecorded)
		take := func(m schemas.Message) {
			for _, v := range checker.Add(schemas.Entry{Message: m}) {
				t.Fatal(v)
			}
		}
		for _, p := range payloads {
			m := schemas.NewTraceOnly(start, p)
			if !m.Given() {
				t.Fatalf("%s is not given", m.Kind())
			}
			take(m)
			switch p := p.(type) {
			case *schemas.ToolCall:
				calls = append(calls, p.ToolCallID)
			case *schemas.ToolCallOutput:
				outputs = append(outputs, p.ToolCallID)
			}
		}
		take(schemas.New(start, &schemas.RequestBegin{}))
		if diff := cmp.Diff(calls, outputs); diff != "" {
			t.Fatalf("outputs are not in the order of their calls (-calls +outputs)\n%s", diff)
		}
	})
}

// Whatever comes, it is refused with a path that fits a log line, or becomes messages.
func FuzzTaskBody(f *testing.F) {
	for _, body := range []string{
		`{"prompt":"hi"}`, input(said), input(said, called, found, spoken, said), prompt(imagePart(schematest.Image("image/gif", 9))),
		`{"input":[{"role":"user","content":[{"type":"text","x":{"y":[1]}}]}]}`, `{"prompt":"\ud83d"}`, `{"input":null}`, `[]`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		b, err := readTask(body)
		if err != nil {
			refused, ok := errors.AsType[*schemas.Error](err)
			if !ok || refused.Message == "" || len(refused.Field) > 400 || len(refused.Message) > 1000 {
				t.Fatalf("%#v", err)
			}
			if _, err := schemas.EncodeJSON(refused); err != nil {
				t.Fatal(err)
			}
			return
		}
		if b == nil {
			t.Fatal("a task without a body")
		}
		for _, p := range b.Payloads(func() string { return "c1" }) {
			line, err := schemas.Encode(schemas.NewTraceOnly(start, p))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := schemas.Decode(line); err != nil || !cmp.Equal(again.Payload, p) {
				t.Fatalf("%s became %+v, %v", line, again, err)
			}
		}
	})
}
