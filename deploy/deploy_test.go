package deploy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"braid/bus"
	"braid/deploy/deploytest"
	"braid/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configuration = "nats/node.conf"

// TestNodeIsDurableAndClustered: what the documents promise of this configuration.
func TestNodeIsDurableAndClustered(t *testing.T) {
	o := deploytest.Options(t, configuration)
	if !o.SyncAlways {
		t.Error("writes are not synced before they are acknowledged")
	}
	if o.Cluster.Name != "braid" || len(o.Routes) != 2 {
		t.Errorf("cluster %q has %d routes to others, want braid and 2", o.Cluster.Name, len(o.Routes))
	}
	if len(o.Users) != 4 {
		t.Errorf("%d users, want 4", len(o.Users))
	}
}

var session = schemas.SessionRef{Project: "default", ID: "s1"}

// TestUsersCanDoTheirWork lets each process's user do, over the bus, what the process does.
func TestUsersCanDoTheirWork(t *testing.T) {
	broker := deploytest.Start(t, configuration)
	engine := deploytest.Connect(t, broker, "engine") // makes the streams
	toolrunner := deploytest.Connect(t, broker, "toolrunner")
	gateway := deploytest.Connect(t, broker, "gateway")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	// The gateway sends a command and watches; the engine is rung, claims, appends and answers.
	follower, err := gateway.Follow(ctx, session, bus.FollowOptions{Beginning: true})
	must(t, "gateway: follow", err)
	defer follower.Close()
	over := schemas.InputPart{Type: schemas.KindText, Text: strings.Repeat("x", schemas.MaxPrompt)}
	sent := schemas.Command{ID: "c1", Type: schemas.CommandTask, Session: session, Task: &schemas.TaskBody{
		Input: []schemas.InputTurn{{Role: schemas.RoleUser, Content: []schemas.InputPart{over, over, over}}},
	}}
	for range 2 { // the repeat takes back what it had stored beside the command
		must(t, "gateway: send a command", second(gateway.SendCommand(ctx, sent)))
	}
	trace, err := gateway.PutTrace(ctx, session, strings.NewReader("{}\n"))
	must(t, "gateway: store a trace", err)
	must(t, "engine: read a trace", second(engine.ReadTrace(ctx, session, trace)))
	must(t, "gateway: drop a trace", gateway.DropTrace(ctx, session, trace, time.Time{}))
	wake := onlyWake(ctx, t, engine)
	commands, err := engine.ReadCommands(ctx, session, 0, wake.Sequence)
	if err != nil || len(commands) != 1 || commands[0].Invalid != nil {
		t.Fatalf("engine: read commands: %v, %v", commands, err)
	}
	engine.DropBody(ctx, commands[0])
	owner, err := engine.Claim(ctx, session, bus.ClaimRequest{Instance: "e1"})
	must(t, "engine: claim", err)
	must(t, "engine: mark as running", second(engine.MarkRunning(ctx, "e1", session)))
	large := strings.Repeat("x", 2<<20) // over the broker's maximum payload
	_, err = owner.Append(ctx, []schemas.Message{
		schemas.New(time.Now(), &schemas.Text{Role: schemas.RoleAssistant, Text: large}),
	}, wake.Sequence)
	must(t, "engine: append", err)
	must(t, "engine: acknowledge", engine.Ack(ctx, wake))
	if got := nextText(ctx, t, follower); got != large {
		t.Errorf("gateway: read a text of %d bytes, want %d", len(got), len(large))
	}
	must(t, "engine: sweep blobs", second(engine.SweepBlobs(ctx, bus.Sweep{Before: time.Now().Add(time.Hour)})))
	must(t, "engine: schedule", engine.Schedule(ctx, session, "call1", time.Now().Add(time.Hour), schemas.Command{ID: "d1", Type: schemas.CommandAbort, Session: session}))
	must(t, "engine: unschedule", engine.Unschedule(ctx, session, "call1"))

	// The engine queues a call; the toolrunner starts and ends it.
	beat, err := toolrunner.StartBeat(ctx, bus.KindToolrunner, "t1", nil)
	must(t, "toolrunner: beat", err)
	must(t, "toolrunner: announce", toolrunner.Announce(ctx, bus.Announcement{Instance: "t1", Project: "default", Pools: []string{"default"}, Slots: 1}))
	calls, err := toolrunner.ToolQueue(ctx, "default", "default", bus.ToolQueueOptions{})
	must(t, "toolrunner: open the queue", err)
	stop, err := toolrunner.ServeControl("t1", func(bus.Control) error { return nil })
	must(t, "toolrunner: serve control", err)
	defer stop()

	queued, err := engine.WriteRecord(ctx, session, "call1", 0, schemas.ToolRecord{State: schemas.RecordQueued, Attempt: 1})
	must(t, "engine: write a record", err)
	_, err = engine.QueueTool(ctx, "default", schemas.ToolRequest{Session: session, ToolCallID: "call1", Name: "date", Queued: queued, Attempt: 1})
	must(t, "engine: queue a call", err)
	pulled := onlyCall(ctx, t, calls)
	started, err := toolrunner.WriteRecord(ctx, session, "call1", queued, schemas.ToolRecord{State: schemas.RecordStarted, Attempt: 1, Toolrunner: "t1", Nonce: "n"})
	must(t, "toolrunner: start", err)
	must(t, "toolrunner: acknowledge", calls.Ack(ctx, pulled))
	_, _, err = toolrunner.QueueDepth(ctx, "default", "default")
	must(t, "toolrunner: look at the queue", err)
	err = engine.CancelCall(ctx, "t1", session, "call1")
	for errors.Is(err, bus.ErrNoAnswer) && ctx.Err() == nil { // on a busy machine it may come too late
		err = engine.CancelCall(ctx, "t1", session, "call1")
	}
	must(t, "engine: cancel", err)
	must(t, "toolrunner: send output", toolrunner.PublishFragment(session, schemas.ToolFragment{ToolCallID: "call1", Attempt: 1, Text: "now"}))
	must(t, "toolrunner: keep output", second(toolrunner.KeepOutput(ctx, session, "call1", strings.NewReader("now"))))
	must(t, "toolrunner: end", second(toolrunner.WriteRecord(ctx, session, "call1", started, schemas.ToolRecord{
		State: schemas.RecordDone, Attempt: 1, Toolrunner: "t1", Result: &schemas.ToolResult{Output: large, StopReason: schemas.StopCompleted},
	})))
	// Late: another record follows the queued one, which has to be read to know.
	_, err = toolrunner.WriteRecord(ctx, session, "call1", queued, schemas.ToolRecord{State: schemas.RecordStarted, Attempt: 1, Toolrunner: "t1", Nonce: "other"})
	var conflict *bus.RecordConflict
	if !errors.As(err, &conflict) || conflict.Record == nil || conflict.Record.State != schemas.RecordDone {
		t.Errorf("toolrunner: a late start was answered by %v, want the done record", err)
	}
	must(t, "toolrunner: withdraw the announcement", toolrunner.Unannounce(ctx, "default", "t1"))
	must(t, "toolrunner: end the beat", beat.Stop(ctx))

	// The gateway asks, an engine answers.
	stopQueries, err := engine.ServeQueries(func(context.Context, bus.Query) (any, error) { return bus.SessionsPage{}, nil })
	must(t, "engine: serve queries", err)
	defer stopQueries()
	must(t, "gateway: ask", second(gateway.AskSessions(ctx, "default", bus.SessionsArgs{})))
	must(t, "engine: delete a session", engine.DeleteSession(ctx, session, "e1"))
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func second[T any](_ T, err error) error { return err }

func onlyWake(ctx context.Context, t *testing.T, engine *bus.Conn) bus.WakeUp {
	t.Helper()
	for {
		wakes, err := engine.PullWakeUps(ctx, bus.LaneRun, 1)
		must(t, "engine: pull", err)
		if len(wakes) == 1 {
			return wakes[0]
		}
	}
}

func onlyCall(ctx context.Context, t *testing.T, calls *bus.ToolQueue) bus.QueuedTool {
	t.Helper()
	for {
		pulled, err := calls.Pull(ctx, 1)
		must(t, "toolrunner: pull", err)
		if len(pulled) == 1 {
			return pulled[0]
		}
	}
}

func nextText(ctx context.Context, t *testing.T, f *bus.Follower) string {
	t.Helper()
	for {
		e, err := f.Next(ctx)
		must(t, "gateway: watch", err)
		frame, ok := e.(bus.Frame)
		if !ok {
			continue
		}
		for _, m := range frame.Messages {
			if text, ok := m.Payload.(*schemas.Text); ok {
				return text.Text
			}
		}
	}
}

// TestUsersCanDoNoMore: each line is something that a stolen password must not allow.
func TestUsersCanDoNoMore(t *testing.T) {
	broker := deploytest.Start(t, configuration)
	deploytest.Connect(t, broker, "engine")
	url := broker.ClientURL()
	cases := []struct{ user, subject string }{
		{"engine", "$JS.API.STREAM.DELETE.SESSIONS-0"},
		{"engine", "$JS.API.STREAM.UPDATE.SESSIONS-0"},
		{"engine", "$JS.API.STREAM.UPDATE.OBJ_BLOBS"},
		{"engine", "braid.default.fragment.s1"},
		{"toolrunner", "braid.default.command.ctl.s1"},   // approve its own calls
		{"toolrunner", "braid.default.session.0.s1.log"}, // speak for the model
		{"toolrunner", "braid.default.owner.0.s1"},
		{"toolrunner", "$JS.API.DIRECT.GET.SESSIONS-0"}, // read conversations
		{"toolrunner", "$JS.API.STREAM.MSG.GET.SESSIONS-0"},
		{"toolrunner", "$JS.API.CONSUMER.CREATE.SESSIONS-0.x"},
		{"toolrunner", "$KV.RUNNING.e1.default.s1"},
		{"gateway", "braid.default.session.0.s1.log"},
		{"gateway", "braid.default.owner.0.s1"},
		{"gateway", "braid.default.output.0.s1.c1"},
		{"gateway", "$KV.REGISTRY.toolrunner.default.t1"},
		{"gateway", "$JS.API.STREAM.PURGE.SESSIONS-0"},
		{"watcher", "braid.default.command.run.s1"},
		{"watcher", "$JS.API.DIRECT.GET.SESSIONS-0"},
	}
	for _, c := range cases {
		t.Run(c.user+" "+c.subject, func(t *testing.T) {
			nc := raw(t, url, c.user)
			must(t, "publish", nc.Publish(c.subject, []byte("{}")))
			must(t, "flush", nc.Flush())
			if err := nc.LastError(); err == nil || !strings.Contains(strings.ToLower(err.Error()), "permissions violation for publish") {
				t.Errorf("the broker took it: %v", err)
			}
		})
	}
	for _, c := range []struct{ user, subject string }{
		{"toolrunner", "braid.default.feed.s1.log"},
		{"toolrunner", "braid.default.fragment.s1"},
		{"watcher", "braid.other.feed.s1.log"},
		{"watcher", "_INBOX.>"},
	} {
		t.Run(c.user+" listens to "+c.subject, func(t *testing.T) {
			nc := raw(t, url, c.user)
			_, err := nc.SubscribeSync(c.subject)
			must(t, "subscribe", err)
			must(t, "flush", nc.Flush())
			if err := nc.LastError(); err == nil || !strings.Contains(strings.ToLower(err.Error()), "permissions violation for subscription") {
				t.Errorf("the broker took it: %v", err)
			}
		})
	}
}

func raw(t *testing.T, url, user string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.UserInfo(user, deploytest.Password), nats.Timeout(time.Minute), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must(t, "connect as "+user, err)
	t.Cleanup(nc.Close)
	return nc
}
