package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
	"braid/schemas/schematest"
)

// Pictures of many megabytes go all the way: through the broker, whose messages hold one, to the model,
// into the trace and out of it again.
func TestLargePictures(t *testing.T) {
	t.Parallel()
	size, shown := 7_000_000, "7.0 MB"
	if testing.Short() { // large enough for no message to hold
		size, shown = 1_200_000, "1.2 MB"
	}
	script, err := scripted.Parse(fmt.Appendf(nil, "turns: [{expect: {input: [{}, {image: %[1]s}, {image: %[1]s}]}, steps: [{text: Two.}]}]", shown))
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := llm.NewCatalog(scripted.New(map[string]*scripted.Script{"m": script}))
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Single(t)
	h := &house{t: t, broker: b, conn: b.Conn(t), models: catalog}
	h.engine("e1")
	h.create("scripted/m", schemas.ApproveAll)
	parts := []schemas.InputPart{
		{Type: schemas.KindText, Text: "how many?"},
		{Type: schemas.KindImageURL, ImageURL: schematest.Image("image/png", size)},
		{Type: schemas.KindImageURL, ImageURL: schematest.Image("image/webp", size)},
	}
	o := h.send(schemas.Command{ID: "large", Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{
		Input: []schemas.InputTurn{{Role: schemas.RoleUser, Content: parts}},
	}})
	if o.Code != schemas.CodeApplied {
		t.Fatalf("%+v", o)
	}
	h.follow(taskEnded)
	h.caughtUp(ref, o.Log)
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	var images []string
	var end *schemas.TaskEnd
	after := schemas.Position{}
	for end == nil {
		page, err := h.conn.AskMessages(ctx, ref, o.Log, bus.MessagesArgs{After: after})
		if errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) && ctx.Err() == nil {
			continue // the trace is behind: that much takes a busy machine long
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			after = m.Position
			switch p := m.Message.Payload.(type) {
			case *schemas.ImageURL:
				images = append(images, p.ImageURL)
			case *schemas.TaskEnd:
				end = p
			}
		}
	}
	if end.Status != schemas.StopCompleted {
		t.Errorf("the task ended: %+v", end.ErrorInfo)
	}
	if !cmp.Equal(images, []string{parts[1].ImageURL, parts[2].ImageURL}) {
		t.Errorf("the trace has %d pictures, or others", len(images))
	}
}
