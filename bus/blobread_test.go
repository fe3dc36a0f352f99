package bus_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// largeTrace is a trace of three pieces.
func largeTrace(t *testing.T, c *bus.Conn, ref schemas.SessionRef) (name, pieces string) {
	t.Helper()
	name, err := c.PutTrace(testContext(t), ref, strings.NewReader(strings.Repeat("a line\n", 300<<10/7)))
	if err != nil {
		t.Fatal(err)
	}
	if pieces, _, err = c.Described(testContext(t), name); err != nil {
		t.Fatal(err)
	}
	return name, pieces
}

func blobStream(t *testing.T, c *bus.Conn) jetstream.Stream {
	t.Helper()
	s, err := c.JetStream().Stream(testContext(t), "OBJ_BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// losePiece removes the last piece of a blob.
func losePiece(t *testing.T, c *bus.Conn, pieces string) {
	t.Helper()
	s := blobStream(t, c)
	last, err := s.GetLastMsgForSubject(testContext(t), pieces)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteMsg(testContext(t), last.Sequence); err != nil {
		t.Fatal(err)
	}
}

// describe stores another description of a blob.
func describe(t *testing.T, c *bus.Conn, name string, change func(description []byte) []byte) {
	t.Helper()
	ctx, subject := testContext(t), bus.Description(name)
	m, err := blobStream(t, c).GetLastMsgForSubject(ctx, subject)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().Publish(ctx, subject, change(m.Data)); err != nil {
		t.Fatal(err)
	}
}

// A blob that is not whole is read no second time when it is damaged for good: who waits for it is told.
func TestDamagedBlobs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string // what is wrong with it
		damage func(t *testing.T, c *bus.Conn, name, pieces string)
	}{
		{"a piece is lost", func(t *testing.T, c *bus.Conn, _, pieces string) { losePiece(t, c, pieces) }},
		{"another piece is behind it", func(t *testing.T, c *bus.Conn, _, pieces string) {
			losePiece(t, c, pieces)
			if _, err := c.JetStream().Publish(testContext(t), pieces, bytes.Repeat([]byte("x"), 200<<10)); err != nil {
				t.Fatal(err)
			}
		}},
		{"the digest is another one", func(t *testing.T, c *bus.Conn, name, _ string) {
			describe(t, c, name, func(d []byte) []byte { return bytes.Replace(d, []byte(`"SHA-256=`), []byte(`"SHA-256=AAAA`), 1) })
		}},
		{"it has more than it says", func(t *testing.T, c *bus.Conn, name, _ string) {
			describe(t, c, name, func(d []byte) []byte { return bytes.Replace(d, []byte(`"size":`), []byte(`"size":9,"was":`), 1) })
		}},
		{"its description is none", func(t *testing.T, c *bus.Conn, name, _ string) {
			describe(t, c, name, func([]byte) []byte { return []byte("no JSON") })
		}},
	}
	c := bustest.Single(t).Conn(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := newSession()
			name, pieces := largeTrace(t, c, ref)
			tt.damage(t, c, name, pieces)
			if _, err := c.ReadTrace(testContext(t), ref, name); !errors.Is(err, bus.ErrBlobMissing) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A command whose body lost a piece gets an outcome; those behind it are read.
func TestDamagedCommand(t *testing.T) {
	t.Parallel()
	c := bustest.Single(t).Conn(t)
	ref := newSession()
	send(t, c, pictures(ref, "large", 1, 3<<20))
	send(t, c, schemas.Command{ID: "behind", Type: schemas.CommandAbort, Session: ref})
	names, err := c.BlobNames(testContext(t), ref)
	if err != nil || len(names) != 1 {
		t.Fatalf("blobs %v, %v", names, err)
	}
	pieces, _, err := c.Described(testContext(t), names[0])
	if err != nil {
		t.Fatal(err)
	}
	losePiece(t, c, pieces)
	got, err := c.ReadCommands(testContext(t), ref, 0, 0)
	if err != nil || len(got) != 2 {
		t.Fatalf("read %+v, %v", got, err)
	}
	if got[0].ID != "large" || !errors.Is(got[0].Invalid, &schemas.Error{Code: schemas.CodeInternal}) || got[1].Invalid != nil {
		t.Errorf("read %+v", got)
	}
}

// Of a broker that is there and shows nothing of a blob, those who must not wait for ever get an error;
// it holds nothing against a blob that one answer is lost, least of all that any size will do.
func TestSilentBlobs(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	c := b.Conn(t)
	name, _ := largeTrace(t, c, newSession())
	silence := func(subjects ...string) (restore func()) {
		var all []func()
		for _, subject := range subjects {
			one, err := b.Nodes[0].Divert(subject, "nobody", 100)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		return func() {
			for _, one := range all {
				one()
			}
		}
	}
	replicas, leader := "$JS.API.DIRECT.GET.OBJ_BLOBS", "$JS.API.STREAM.MSG.GET.OBJ_BLOBS"
	restore := silence(replicas, leader)
	if _, err := c.ReadBlob(testContext(t), name, 1<<20, 200*time.Millisecond); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) {
		t.Errorf("of a broker that shows nothing: %v", err)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancel()
	if _, err := c.ReadBlob(ctx, name, 0, 0); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) {
		t.Errorf("who has patience: %v", err)
	}
	restore()
	for _, subject := range []string{replicas, leader} {
		restore := silence(subject)
		if data, err := c.ReadBlob(testContext(t), name, 1<<20, time.Minute); err != nil || len(data) != 300<<10/7*7 {
			t.Errorf("without %s: %d bytes, %v", subject, len(data), err)
		}
		if _, err := c.ReadBlob(testContext(t), name, 1<<10, time.Minute); !errors.Is(err, &schemas.Error{Code: schemas.CodeTooLarge}) {
			t.Errorf("without %s, over the limit: %v", subject, err)
		}
		restore()
	}
}
