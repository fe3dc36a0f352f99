package schemas_test

import (
	"testing"

	"braid/schemas"
)

// Each builder makes a payload that says whose it is, and that comes back as it went in.
func TestBuilders(t *testing.T) {
	tests := []struct {
		payload schemas.Payload
		want    string
	}{
		{schemas.UserImage("https://x/y.png"), `{"type":"image_url","role":"user","image_url":"https://x/y.png"}`},
		{schemas.UserData("application/pdf", "QQ=="), `{"type":"inline_data","role":"user","data":"QQ==","mime_type":"application/pdf"}`},
		{schemas.AssistantInlineThinking("image/png", "QQ=="), `{"type":"inline_thinking","role":"assistant","data":"QQ==","mime_type":"image/png"}`},
		{schemas.HarnessText("x"), `{"type":"text","role":"user","text":"x","sender":"harness"}`},
		{schemas.NewToolCallOutput("c", "x", schemas.StopFailed), `{"type":"tool_call_output","role":"user","output":"x","tool_call_id":"c","stop_reason":"failed"}`},
		{schemas.ThinkingFragment(schemas.PhaseDelta, "x"), `{"type":"partial_thinking","role":"assistant","event_type":"delta","thinking":"x"}`},
	}
	for _, tt := range tests {
		line, err := schemas.Encode(schemas.Message{Type: schemas.TypeModel, Payload: tt.payload})
		if err != nil {
			t.Fatal(err)
		}
		want := `{"timestamp":"","type":"model_msg","payload":` + tt.want + `}`
		if string(line) != want {
			t.Errorf("got  %s\nwant %s", line, want)
		}
	}
}
