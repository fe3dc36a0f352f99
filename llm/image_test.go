package llm_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/llm"
	"braid/schemas"
	"braid/schemas/schematest"
)

// What a model can't see is replaced where it stands, and what it can see stays.
func TestRequestFor(t *testing.T) {
	png, url := schematest.Image("image/png", 1500), "https://example.com/a.gif?key=1"
	broken := "data:image/png;base64,AAAA"
	output := func(text string, images ...string) *schemas.ToolCallOutput {
		p := schemas.NewToolCallOutput("c1", text, "")
		p.Images = images
		return p
	}
	const pngNote = "[image left out: image/png, 2 kB; this model does not see images]"
	const urlNote = "[image left out: https://example.com/a.gif; this model does not see images]"
	const brokenNote = "[image left out: it can't be read]"
	tests := []struct {
		name          string
		give          schemas.Payload
		seeing, blind schemas.Payload
	}{
		{"a text", schemas.UserText("hi"), schemas.UserText("hi"), schemas.UserText("hi")},
		{"a picture", schemas.UserImage(png), schemas.UserImage(png), schemas.HarnessText(pngNote)},
		{"a picture elsewhere", schemas.UserImage(url), schemas.UserImage(url), schemas.HarnessText(urlNote)},
		{"no picture", schemas.UserImage(broken), schemas.HarnessText(brokenNote), schemas.HarnessText(brokenNote)},
		{"binary picture", schemas.UserData("image/png", png[22:]), schemas.UserData("image/png", png[22:]), schemas.HarnessText(pngNote)},
		{"binary sound", schemas.UserData("audio/wav", "AAAA"), schemas.UserData("audio/wav", "AAAA"), schemas.UserData("audio/wav", "AAAA")},
		{"an output without", output("x"), output("x"), output("x")},
		{"an output with one", output("x\n", png), output("x\n", png), output("x\n" + pngNote)},
		{"an output of pictures", output("", png, url), output("", png, url), output(pngNote + "\n" + urlNote)},
		{"an output with a bad one", output("x", broken, png), output("x\n"+brokenNote, png), output("x\n" + brokenNote + "\n" + pngNote)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			given := llm.Request{Input: []schemas.Message{
				{Type: schemas.TypeModel, Payload: schemas.UserText("before")}, {Type: schemas.TypeModel, Payload: tt.give},
			}}
			for vision, want := range map[bool]schemas.Payload{true: tt.seeing, false: tt.blind} {
				got := given.For(llm.Info{Vision: vision})
				if diff := cmp.Diff(want, got.Input[1].Payload); diff != "" {
					t.Errorf("vision %t (-want +got)\n%s", vision, diff)
				}
				if again := got.For(llm.Info{Vision: vision}); !cmp.Equal(got, again) {
					t.Errorf("vision %t: it changes again", vision)
				}
				if given.Input[1].Payload != tt.give {
					t.Errorf("vision %t: the request given was changed", vision)
				}
			}
		})
	}
}

// blindModel keeps what it is asked, and can't see.
type blindModel struct{ got []schemas.Message }

func (*blindModel) Info() llm.Info { return llm.Info{} }

func (m *blindModel) Stream(_ context.Context, req llm.Request, _ func(schemas.Message) error) llm.Outcome {
	m.got = req.Input
	return llm.Completed(nil)
}

// A guarded model never gets a picture that it can't see, whoever asks.
func TestGuardKeepsPicturesFromTheBlind(t *testing.T) {
	m := &blindModel{}
	input := []schemas.Message{{Type: schemas.TypeModel, Payload: schemas.UserImage(schematest.Image("image/png", 9))}}
	if o := llm.Guard(m).Stream(t.Context(), llm.Request{Input: input}, func(schemas.Message) error { return nil }); o.Status != schemas.StopCompleted {
		t.Fatal(o.Error)
	}
	if len(m.got) != 1 || m.got[0].Kind() != schemas.KindText {
		t.Errorf("it got %+v", m.got)
	}
}

// confused is a model that can't even say what it can do.
type confused struct{ llm.Model }

func TestGuardOutlivesInfo(t *testing.T) {
	if i := llm.Guard(confused{}).Info(); i != (llm.Info{}) {
		t.Errorf("it can do %+v", i)
	}
}
