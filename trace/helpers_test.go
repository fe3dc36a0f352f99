package trace

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"braid/schemas"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

const epoch = "e1"

var (
	noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	bob  = schemas.SessionRef{Project: "p", ID: "bob"}
	ann  = schemas.SessionRef{Project: "p", ID: "ann"}
)

// open opens a store in memory, or on the file system given, and closes it with the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	s, err := Open("trace", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && s.Degraded() == nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// script builds the frames of one shard as the broker would store them.
type script struct {
	shard    int
	sequence uint64
	now      time.Time
	heads    map[schemas.SessionRef]*Frame
}

func newScript() *script {
	return &script{now: noon, heads: map[schemas.SessionRef]*Frame{}}
}

// claim starts a new fence of the session.
func (b *script) claim(ref schemas.SessionRef) {
	b.sequence++
	f := Frame{Fence: b.sequence}
	if last := b.heads[ref]; last != nil {
		f.Sequence = last.Sequence
	}
	b.heads[ref] = &f
}

// frame is the session's next frame, a second after the one before.
func (b *script) frame(ref schemas.SessionRef, payloads ...schemas.Payload) Frame {
	if b.heads[ref] == nil {
		b.claim(ref)
	}
	last := b.heads[ref]
	b.sequence++
	b.now = b.now.Add(time.Second)
	f := Frame{
		Shard: b.shard, Epoch: epoch, Session: ref, Sequence: b.sequence,
		Fence: last.Fence, N: last.N + 1,
		Time: b.now,
	}
	for i, p := range payloads {
		f.Entries = append(f.Entries, schemas.Entry{
			Position: schemas.Position{Sequence: b.sequence, Line: i},
			Message:  schemas.New(b.now, p),
		})
	}
	b.heads[ref] = &f
	return f
}

// tombstone is the claim of a deleted session.
func (b *script) tombstone(ref schemas.SessionRef) Frame {
	b.claim(ref)
	f := Frame{
		Shard: b.shard, Epoch: epoch, Session: ref, Deleted: true,
		Sequence: b.sequence, Fence: b.sequence, Time: b.now,
	}
	return f
}

func (b *script) mark() Mark { return Mark{Epoch: epoch, Sequence: b.sequence} }

// apply applies the frames and marks everything so far as applied.
func apply(t testing.TB, s *Store, b *script, frames ...Frame) {
	t.Helper()
	if err := s.Apply(context.Background(), b.shard, frames, b.mark()); err != nil {
		t.Fatal(err)
	}
}

func meta(model string) *schemas.SessionMeta {
	return &schemas.SessionMeta{Provider: "shell", ModelID: model, Agent: "helper"}
}

func prompt(text string) *schemas.Text { return schemas.UserText(text) }

func tokens(request, session int64) *schemas.TokenUsage {
	return &schemas.TokenUsage{
		Request: schemas.TokenCounts{Output: 1, Total: request},
		Session: schemas.TokenCounts{Output: 1, Total: session},
	}
}

func requestEnd(status schemas.StopReason) *schemas.RequestEnd {
	return &schemas.RequestEnd{Status: status}
}

func taskEnd(status schemas.StopReason) *schemas.TaskEnd {
	return &schemas.TaskEnd{Status: status, Cause: "done"}
}

func ask(call string) *schemas.ApprovalRequest {
	return &schemas.ApprovalRequest{ToolCallID: call, Name: "sh", Arguments: `{"a":1}`, Hash: schemas.CallHash("sh", `{"a":1}`)}
}

func decide(call string) *schemas.ApprovalDecision {
	return &schemas.ApprovalDecision{ToolCallID: call, Decision: schemas.DecisionAllow}
}

// texts renders the session's messages as the store has them: position and kind or text.
func texts(t testing.TB, s *Store, ref schemas.SessionRef) []string {
	t.Helper()
	var got []string
	err := each(context.Background(), s, ref, func(e schemas.Entry) error {
		text := string(e.Message.Kind())
		if p, ok := e.Message.Payload.(*schemas.Text); ok {
			text = p.Text
		}
		got = append(got, e.Position.String()+" "+text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// each is [Store.Load] where the head does not matter.
func each(ctx context.Context, s *Store, ref schemas.SessionRef, yield func(schemas.Entry) error) error {
	_, err := s.Load(ctx, ref, yield)
	return err
}
