package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// The store is full: an append waits, says why when its time is up, and starts nothing. Reading
// goes on, and so does everything once a session is deleted.
func TestCase_B18_StorageFull(t *testing.T) {
	t.Parallel()
	b := bustest.Custom(t, bus.ServerOptions{MaxStore: 8 << 20}, bus.Topology{})
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	filler := said("%s", strings.Repeat("x", 500<<10))
	frames := 0
	var full error
	for full == nil {
		// The last one waits for room all this time; none before it may be late, on any machine.
		ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
		if _, full = o.Append(ctx, []schemas.Message{filler}, 0); full == nil {
			frames++
		}
		cancel()
	}
	t.Log(full)
	if !errors.Is(full, context.DeadlineExceeded) || !errors.Is(full, bus.ErrStorageFull) {
		t.Errorf("the error says %q", full)
	}
	if got := readFrames(t, c, ref, bus.LogOnly); len(got) != frames {
		t.Errorf("%d frames of %d can be read", len(got), frames)
	}
	fill(t, c)
	command := schemas.Command{ID: "c", Type: schemas.CommandAbort, Session: ref}
	if _, _, err := c.SendAndWait(testContext(t), command, time.Hour); !errors.Is(err, &schemas.Error{Code: schemas.CodeStorageFull}) {
		t.Errorf("a command: %v", err)
	}
	if _, _, err := c.SendAndWait(testContext(t), pictures(ref, "large", 1, 3<<20), time.Hour); !errors.Is(err, &schemas.Error{Code: schemas.CodeStorageFull}) {
		t.Errorf("a command with a body beside it: %v", err)
	}
	if _, err := c.PutTrace(testContext(t), ref, strings.NewReader(strings.Repeat("x", 3<<20))); !errors.Is(err, &schemas.Error{Code: schemas.CodeStorageFull}) {
		t.Errorf("a trace: %v", err)
	}
	if names, err := c.BlobNames(testContext(t), ref); err != nil || len(names) != 0 {
		t.Errorf("something of them is stored: %v, %v", names, err)
	}
	if err := c.DeleteSession(testContext(t), ref, "gateway"); err != nil {
		t.Fatalf("delete: %v", err)
	}
	next := claim(t, c, newSession(), "a", bus.Claim{})
	appendMessages(t, next, filler)
}

// fill takes what room is left, with commands nobody reads.
func fill(t *testing.T, c *bus.Conn) {
	t.Helper()
	ref, n := newSession(), 0
	for size := 256 << 10; size >= 1; size /= 16 {
		for {
			n++
			command := schemas.Command{ID: fmt.Sprint("fill-", n), Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: strings.Repeat("x", size)}}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := c.SendCommand(ctx, command)
			cancel()
			if err != nil {
				break
			}
		}
	}
}

// A session is deleted in a full store, and who does it is lost on the way: as long as its commands are
// there its log is, which says that they are done.
func TestDeleteInterruptedInAFullStore(t *testing.T) {
	t.Parallel()
	b := bustest.Custom(t, bus.ServerOptions{MaxStore: 8 << 20}, bus.Topology{})
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	send(t, c, schemas.Command{ID: "c", Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "pay"}})
	appendMessages(t, o, said("paid"))
	name, err := c.PutTrace(testContext(t), ref, strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c)
	restore, err := b.Nodes[0].Divert("$JS.API.STREAM.PURGE.COMMANDS", "nobody", 100)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	if err := c.DeleteSession(ctx, ref, "a"); err == nil {
		t.Fatal("it is deleted, with commands that can't be")
	}
	if got := frameWords(readFrames(t, c, ref, bus.LogOnly)); got != "paid" {
		t.Errorf("the commands are there, and the log says %q", got)
	}
	restore()
	if err := c.DeleteSession(testContext(t), ref, "b"); err != nil {
		t.Fatalf("by the next owner: %v", err)
	}
	if _, err := c.ReadTrace(testContext(t), ref, name); !errors.Is(err, bus.ErrBlobMissing) {
		t.Errorf("its blobs: %v", err)
	}
}
