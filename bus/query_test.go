package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var queryTests = []workTest{
	{"questions are answered, with their errors", testQueries},
	{"no engine runs", testQueryNobody},
	{"an engine that is stopped keeps nobody waiting", testQueryStopped},
	{"an engine that takes its time says so", testQueryTakesTime},
}

// A question whose asker knows that it is worked on is not asked once more: under load that would make more of it.
func testQueryTakesTime(t *testing.T, b *bustest.Broker, project string) {
	queryGate.Lock()
	defer queryGate.Unlock()
	answer := make(chan struct{})
	stop, err := b.Conn(t).ServeQueries(func(_ context.Context, q bus.Query) (any, error) {
		if q.Project != project {
			return nil, schemas.Errorf(schemas.CodeNotFound, "no outcome yet") // another test's
		}
		<-answer
		return bus.SessionInfo{Model: "m"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	nc := b.Conn(t).NATS()
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the question is worked on", func() bool { // the first one may still reach who has just stopped
		if err := nc.PublishRequest("braid.query", inbox.Subject, []byte(`{"op":"session","project":"`+project+`","session":"s"}`)); err != nil {
			t.Fatal(err)
		}
		m, err := inbox.NextMsg(5 * time.Second)
		if err == nil && m.Header.Get("Braid-Working") == "" {
			t.Fatalf("before the answer: %q", m.Data)
		}
		return err == nil
	})
	for n := 2; ; n++ {
		m, err := inbox.NextMsgWithContext(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Braid-Working") == "" {
			if n <= 3 || !strings.Contains(string(m.Data), `"model":"m"`) {
				t.Errorf("message %d is %q", n, m.Data)
			}
			return
		}
		if len(m.Data) > 0 {
			t.Errorf("before the answer: %q", m.Data)
		}
		if n == 3 { // it is said again and again
			close(answer)
		}
	}
}

// The broker does not notice for minutes that a process was stopped, be it before it took a question or at work on it.
func testQueryStopped(t *testing.T, b *bustest.Broker, project string) {
	queryGate.Lock()
	defer queryGate.Unlock()
	begun := nats.NewMsg("")
	begun.Header.Set("Braid-Working", "1")
	for what, take := range map[string]func(*nats.Msg) error{
		"stopped":         func(*nats.Msg) error { return nil },
		"stopped at work": func(m *nats.Msg) error { return m.RespondMsg(begun) },
	} {
		taken := make(chan *nats.Msg, 1)
		stopped, err := b.Conn(t).NATS().ChanQueueSubscribe("braid.query", "engines", taken)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(testContext(t), 9*time.Second) // it alone may keep a question longer
		answers := make(chan error, 1)
		asker := b.Conn(t)
		go func() {
			info, err := asker.AskSession(ctx, schemas.SessionRef{Project: project, ID: "s"}, 0)
			if err == nil && info.Model != "m" {
				err = fmt.Errorf("got %+v", info)
			}
			answers <- err
		}()
		if err := take(<-taken); err != nil {
			t.Fatal(err)
		}
		stop, err := b.Conn(t).ServeQueries(func(_ context.Context, q bus.Query) (any, error) {
			if q.Project != project {
				return nil, schemas.Errorf(schemas.CodeNotFound, "no outcome yet") // another test's
			}
			return bus.SessionInfo{Model: "m"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := stopped.Unsubscribe(); err != nil { // or the broker gives it the next one, too, as it may
			t.Error(err)
		}
		if err := <-answers; err != nil {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
		stop()
	}
}

func testQueries(t *testing.T, b *bustest.Broker, project string) {
	queryGate.Lock()
	defer queryGate.Unlock()
	engine, asker := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	info := bus.SessionInfo{Session: ref, Model: "scripted/demo", State: "waiting", LastSequence: 9,
		Pending: []bus.PendingApproval{{ToolCallID: "c", Name: "bash", Arguments: "{}", Hash: "h"}}}
	page := bus.MessagesPage{Epoch: "e", More: true, Messages: []bus.PositionedMessage{
		{Position: schemas.Position{Sequence: 3, Line: 1}, Message: schemas.New(time.Unix(0, 0), schemas.UserText("<hi>"))}}}
	stop, err := engine.ServeQueries(func(_ context.Context, q bus.Query) (any, error) {
		switch q.Op {
		case bus.QuerySession:
			if q.Session != "s" {
				return nil, schemas.Errorf(schemas.CodeUnknownSession, "no session %s", q.Session)
			}
			return info, nil
		case bus.QueryMessages:
			var args bus.MessagesArgs
			if err := q.DecodeArgs(&args); err != nil {
				return nil, err
			}
			if args.Limit != 5 || args.After.Sequence != 2 || q.LeastSequence != 7 {
				t.Errorf("got %+v of %+v", args, q)
			}
			return page, nil
		case bus.QueryExport:
			var args bus.ExportArgs
			if err := q.DecodeArgs(&args); err != nil {
				return nil, err
			}
			return bus.ExportPage{Lines: strings.Repeat("x", int(args.After.Sequence))}, nil
		case bus.QuerySessions:
			return bus.SessionsPage{Sessions: []bus.SessionInfo{info}, Next: "n"}, nil
		}
		return nil, errors.New("secret detail")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx := testContext(t)
	if got, err := asker.AskSession(ctx, ref, 0); err != nil || !cmp.Equal(got, info) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := asker.AskSessions(ctx, project, bus.SessionsArgs{}); err != nil || got.Next != "n" || len(got.Sessions) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err := asker.AskMessages(ctx, ref, 7, bus.MessagesArgs{After: schemas.Position{Sequence: 2}, Limit: 5})
	if err != nil || !cmp.Equal(got, page) {
		t.Errorf("got %+v, %v, want %+v", got, err, page)
	}
	for _, size := range []uint64{1, 1<<20 - 100, 1 << 20, 20 << 20} { // below the max payload, about it, and over it
		got, err := asker.AskExport(ctx, ref, 0, bus.ExportArgs{After: schemas.Position{Sequence: size}})
		if err != nil || uint64(len(got.Lines)) != size {
			t.Errorf("an answer of %d bytes: got %d, %v", size, len(got.Lines), err)
		}
	}
	for why, row := range map[string]struct {
		ask  func() error
		want schemas.Code
	}{
		"a handler's own error": {func() error {
			_, err := asker.AskSession(ctx, schemas.SessionRef{Project: project, ID: "unknown"}, 0)
			return err
		}, schemas.CodeUnknownSession},
		"an answer without end": {func() error {
			_, err := asker.AskExport(ctx, ref, 0, bus.ExportArgs{After: schemas.Position{Sequence: 50 << 20}})
			return err
		}, schemas.CodeTooLarge},
		"an error that is nobody's business": {func() error {
			_, err := asker.Query(ctx, bus.Query{Op: "other", Project: project})
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("the asker learns internals")
			}
			return err
		}, schemas.CodeInternal},
	} {
		if err := row.ask(); !errors.Is(err, &schemas.Error{Code: row.want}) {
			t.Errorf("%s: got %v, want %s", why, err, row.want)
		}
	}
}

func testQueryNobody(t *testing.T, b *bustest.Broker, project string) {
	queryGate.Lock()
	defer queryGate.Unlock()
	c := b.Conn(t)
	ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	if _, err := c.AskSession(ctx, schemas.SessionRef{Project: project, ID: "s"}, 0); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) {
		t.Errorf("got %v, want unavailable", err)
	}
}
