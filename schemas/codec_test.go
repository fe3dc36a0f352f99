package schemas

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 30, 8, 0, 0, 123456789, time.UTC)

func TestEncode(t *testing.T) {
	tests := []struct {
		name string
		in   Message
		want string
	}{
		{
			"type comes first, empty members are left out",
			New(noon, UserText("hi")),
			`{"timestamp":"2026-11-30T08:00:00.123Z","type":"model_msg","payload":{"type":"text","role":"user","text":"hi"}}`,
		},
		{
			"a payload without members",
			New(noon, &RequestBegin{}),
			`{"timestamp":"2026-11-30T08:00:00.123Z","type":"event_msg","payload":{"type":"request_begin"}}`,
		},
		{
			"session_meta has no type member",
			NewTraceOnly(noon, &SessionMeta{SessionID: "s"}),
			`{"timestamp":"2026-11-30T08:00:00.123Z","type":"session_meta","payload":{"session_id":"s","provider":"","model_id":"","system_prompt":"","workspace":""},"scope":"trace"}`,
		},
		{
			"no HTML escapes",
			New(noon, UserText("<a>&b\u2028")),
			`{"timestamp":"2026-11-30T08:00:00.123Z","type":"model_msg","payload":{"type":"text","role":"user","text":"<a>&b` + "\u2028" + `"}}`,
		},
		{
			"invalid UTF-8 is made valid",
			New(noon, UserText("a\xffb")),
			`{"timestamp":"2026-11-30T08:00:00.123Z","type":"model_msg","payload":{"type":"text","role":"user","text":"a` + "\uFFFD" + `b"}}`,
		},
		{
			"fidelity is untouched, escapes and odd numbers included",
			New(noon, &Thinking{Role: RoleAssistant, Fidelity: jsontext.Value(`{"s":"\u003c\/","n":1.0e+2,"a":[1,2]}`)}),
			`{"timestamp":"2026-11-30T08:00:00.123Z","type":"model_msg","payload":{"type":"thinking","role":"assistant","thinking":"","fidelity":{"s":"\u003c\/","n":1.0e+2,"a":[1,2]}}}`,
		},
		{
			"origin",
			New(noon, &RequestBegin{}).WithOrigin("inner").WithOrigin("outer"),
			`{"timestamp":"2026-11-30T08:00:00.123Z","type":"event_msg","payload":{"type":"request_begin"},"origin":["outer","inner"]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Encode(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What a newer version wrote comes back out as it came in.
func TestUnknownSurvives(t *testing.T) {
	lines := []string{
		`{"timestamp":"2026-11-30T08:00:00.123Z","type":"model_msg","payload":{"type":"text","role":"user","text":"hi","mood":{"x":[1.50,"\u0041"]}},"hop":7}`,
		`{"timestamp":"2026-11-30T08:00:00.123456Z","type":"event_msg","payload":{"type":"hook","hook":"stop","name":"goal"}}`,
		`{"timestamp":"","type":"brand_new","payload":{"type":"text","text":"not ours"}}`,
		`{"timestamp":"","type":"event_msg","payload":{"no":"type"}}`,
	}
	for _, line := range lines {
		m, err := Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(line, string(got)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestDecodeFindsTypeAnywhere(t *testing.T) {
	for _, line := range []string{
		`{"timestamp":"","type":"model_msg","payload":{"role":"user","type":"text","text":"hi"}}`,
		`{"timestamp":"","type":"model_msg","payload":{"role":"user","text":"hi","type":"text"}}`,
		`{"timestamp":"","type":"model_msg","payload": { "type" : "text" , "role":"user","text":"hi"}}`,
		`{"payload":{"type":"text","role":"user","text":"hi"},"type":"model_msg","timestamp":""}`,
	} {
		m, err := Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(&Text{Role: RoleUser, Text: "hi"}, m.Payload); diff != "" {
			t.Errorf("%s (-want +got)\n%s", line, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, line := range []string{
		``, `null`, `[]`, `{}`, `{"type":"model_msg","payload":[]}`, `{"type":"model_msg","payload":null}`,
		`{"type":"model_msg","payload":{"type":"text","text":1}}`,
		`{"type":"model_msg","payload":{"type":"text","text":"a","text":"b"}}`,
		`{"type":"model_msg","payload":{"type":"text","text":"a"}} trailing`,
	} {
		if m, err := Decode([]byte(line)); err == nil {
			t.Errorf("%s: decoded to %+v, want an error", line, m)
		}
	}
}

func TestEncodeOneLine(t *testing.T) {
	raw, err := CompactRaw([]byte("{\n \"a\": \"x\\ny\" }"))
	if err != nil {
		t.Fatal(err)
	}
	line, err := Encode(New(noon, &Text{Text: "a\nb\r\n", Fidelity: raw}))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(string(line), "\r\n") {
		t.Errorf("the line has a line break: %q", line)
	}
}
