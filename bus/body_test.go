package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"braid/bus/bustest"
	"braid/schemas"
	"braid/schemas/schematest"
)

// pictures is a task with so many pictures of that size in bytes.
func pictures(ref schemas.SessionRef, id string, n, size int) schemas.Command {
	cmd := task(ref, id, "")
	parts := []schemas.InputPart{{Type: schemas.KindText, Text: "what is it?"}}
	for range n {
		parts = append(parts, schemas.InputPart{Type: schemas.KindImageURL, ImageURL: schematest.Image("image/png", size)})
	}
	cmd.Task = &schemas.TaskBody{Input: []schemas.InputTurn{{Role: schemas.RoleUser, Content: parts}}}
	return cmd
}

// What one broker message can't hold is kept beside it, found again by whoever reads, and gone once
// the command has its outcome.
func testCommandLarge(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ctx := testContext(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	cmd := pictures(ref, "c", 2, 7<<20)
	sequence := send(t, c, cmd)
	blobs := func() []string {
		t.Helper()
		names, err := c.BlobNames(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if n := len(blobs()); n != 1 {
		t.Fatalf("%d blobs, want 1", n)
	}
	receipt, err := c.SendCommand(ctx, cmd)
	if err != nil || !receipt.Duplicate || receipt.Sequence != sequence {
		t.Fatalf("sent again: %+v, %v", receipt, err)
	}
	if n := len(blobs()); n != 1 {
		t.Fatalf("%d blobs after a repeat, want 1", n)
	}
	if _, err := c.SendCommand(ctx, pictures(ref, "c", 3, 1<<20)); !errors.Is(err, &schemas.Error{Code: schemas.CodeConflict}) {
		t.Errorf("another command of that id: %v", err)
	}
	got, err := c.ReadCommands(ctx, ref, 0, sequence)
	if err != nil || len(got) != 1 || got[0].Invalid != nil || !cmp.Equal(got[0].Command, cmd) {
		t.Fatalf("read %d commands, %v", len(got), err)
	}
	for _, name := range blobs() {
		if keep, err := c.BlobInUse(ctx, name); !keep || err != nil {
			t.Errorf("a sweep would take it: %v, %v", keep, err)
		}
	}
	if keep, err := c.BlobInUse(ctx, project+"/s/command.c.0000"); keep || err != nil {
		t.Errorf("a sweep keeps what nothing names: %v, %v", keep, err)
	}
	if !got[0].KeptOutside() {
		t.Error("it is not said that there is a body to drop")
	}
	c.DropBody(ctx, got[0])
	if n := len(blobs()); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	got, err = c.ReadCommands(ctx, ref, 0, sequence)
	if err != nil || len(got) != 1 || got[0].ID != "c" || got[0].Invalid == nil || got[0].Invalid.Code != schemas.CodeInternal {
		t.Errorf("without its body: %+v, %v", got, err)
	}
}

// A header is anybody's to write: what it names is neither read nor removed unless it is the body of
// a command of that session.
func testCommandForeignBody(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ctx := testContext(t)
	ref, other := schemas.SessionRef{Project: project, ID: "s"}, schemas.SessionRef{Project: project, ID: "other"}
	send(t, c, pictures(other, "c", 1, 3<<20))
	names, err := c.BlobNames(ctx, other)
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	var last uint64
	for _, name := range []string{names[0], project + "/s/1.1.0", "nonsense", project + "/s/output.x"} {
		m := nats.NewMsg("braid." + project + ".command.run.s")
		m.Header.Set("Braid-Body", name)
		m.Data = []byte(`{"id":"c","type":"wake","session":{"project":"` + project + `","id":"s"}}`)
		ack, err := c.JetStream().PublishMsg(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		last = ack.Sequence
	}
	got, err := c.ReadCommands(ctx, ref, 0, last)
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, cmd := range got {
		if cmd.Invalid == nil || cmd.KeptOutside() {
			t.Errorf("%+v", cmd)
		}
		c.DropBody(ctx, cmd)
	}
	if left, err := c.BlobNames(ctx, other); err != nil || len(left) != 1 {
		t.Errorf("the other session has %v, %v", left, err)
	}
}

func testCommandTooLarge(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	for why, cmd := range map[string]schemas.Command{
		"too long a prompt": task(ref, "a", strings.Repeat("x", schemas.MaxPrompt+1)),
		"too many pictures": pictures(ref, "b", 3, 7<<20),
	} {
		if _, err := c.SendCommand(testContext(t), cmd); !errors.Is(err, &schemas.Error{Code: schemas.CodeTooLarge}) {
			t.Errorf("%s: got %v, want too large", why, err)
		}
	}
	if names, err := c.BlobNames(testContext(t), ref); err != nil || len(names) != 0 {
		t.Errorf("something is stored: %v, %v", names, err)
	}
}
