package bus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"pgregory.net/rapid"

	"braid/bus"
	"braid/schemas"
)

// Whatever stretch is read, and however commands, wakes and rubbish are mixed, it holds what was
// sent in that stretch, in order.
func TestReadCommandsAgreesWithWhatWasSent(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	addReplica(t, b, c, "COMMANDS", 20)
	run, project := 0, newProject()
	rapid.Check(t, func(rt *rapid.T) {
		run++
		ref := schemas.SessionRef{Project: project, ID: fmt.Sprintf("s%d", run)}
		type sent struct {
			seq uint64
			id  string
		}
		var all []sent
		for i := range rapid.IntRange(1, 12).Draw(rt, "commands") {
			id := fmt.Sprintf("c%d", i)
			var cmd schemas.Command
			switch rapid.SampledFrom([]string{"task", "abort", "wake", "rubbish"}).Draw(rt, "kind") {
			case "task":
				cmd = task(ref, id, "x")
			case "abort":
				cmd = abort(ref, id)
			case "wake":
				cmd, id = schemas.Command{ID: id, Type: schemas.CommandWake, Session: ref}, ""
			case "rubbish":
				seq := raw(t, c, "braid."+project+".command.ctl."+ref.ID, []byte("rubbish"))
				all = append(all, sent{seq, fmt.Sprintf("invalid-%d", seq)})
				continue
			}
			all = append(all, sent{send(t, c, cmd), id})
		}
		from := rapid.IntRange(-1, len(all)-1).Draw(rt, "after")
		to := rapid.IntRange(0, len(all)-1).Draw(rt, "reach")
		var after uint64
		if from >= 0 {
			after = all[from].seq
		}
		var want []string
		for i, s := range all {
			if i > from && i <= to && s.id != "" {
				want = append(want, s.id)
			}
		}
		got, err := c.ReadCommands(context.Background(), ref, after, all[to].seq)
		if err != nil || ids(got) != strings.Join(want, " ") {
			rt.Fatalf("got %q, %v, want %q", ids(got), err, want)
		}
	})
}

// FuzzStoredCommand: whatever a stream holds, an engine gets a command it can give an outcome.
func FuzzStoredCommand(f *testing.F) {
	for _, seed := range []string{"", "null", "{}", `{"id":"a","type":"wake","session":{"project":"p","id":"s"}}`,
		`{"id":"*","type":"task","session":{"project":"p","id":"s"},"task":{"prompt":""}}`, `{"id":1}`, "\xff", `[]`} {
		f.Add([]byte(seed))
	}
	ref := schemas.SessionRef{Project: "p", ID: "s"}
	f.Fuzz(func(t *testing.T, data []byte) {
		cmd := bus.DecodeStoredCommand(ref, 7, data)
		if !schemas.ValidName(cmd.ID) || cmd.Session != ref || cmd.Sequence != 7 {
			t.Errorf("got %+v", cmd)
		}
		if cmd.Invalid == nil && cmd.Validate() != nil {
			t.Errorf("a command that is not valid: %+v", cmd)
		}
	})
}

// subscribeToAll opens every subscription this package has.
func subscribeToAll(t *testing.T, c *bus.Conn, ref schemas.SessionRef) (stop func()) {
	t.Helper()
	var stops []func()
	keep := func(stop func(), err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	keep(c.ServeDeliver("e", func(bus.WakeUp) bus.DeliverAnswer { return bus.DeliverMine }))
	keep(c.ServeControl("r", func(bus.Control) error { return nil }))
	keep(c.ServeQueries(func(context.Context, bus.Query) (any, error) { return nil, nil }))
	keep(c.WatchRecords(ref, func(string, *schemas.ToolRecord) {}))
	keep(c.SubscribeFragments(ref, func(schemas.ToolFragment) {}, func() {}))
	follower, err := c.Follow(testContext(t), ref, bus.FollowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
		follower.Close()
	}
}

// An instance that lost a session, or stops, must not go on collecting messages for it.
func TestCase_B26_what_is_stopped_stays_subscribed_to_nothing(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	stop := subscribeToAll(t, c, schemas.SessionRef{Project: "b26", ID: "s"})
	stop()
	settle(t, c)
	// The broker may still be about to notice that other tests have closed their connections.
	eventually(t, "nobody is subscribed to anything of ours", func() bool {
		subjects, err := b.Nodes[0].Subscriptions()
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(subjects, func(s string) bool { return strings.HasPrefix(s, "braid.") })
	})
}

// A plain subscriber on a stream's subject answers for the stream: while the stream has no leader
// a publish then waits for its whole time instead of learning that nobody is there.
func TestCase_B24_no_subscription_is_on_a_stream_subject(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	ctx := testContext(t)
	stop := subscribeToAll(t, c, schemas.SessionRef{Project: "b24", ID: "s"})
	subjects, err := b.Nodes[0].Subscriptions()
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if len(subjects) < 6 {
		t.Fatalf("got %q", subjects)
	}
	streams := c.JetStream().ListStreams(ctx)
	count := 0
	for info := range streams.Info() {
		count++
		for _, stored := range info.Config.Subjects {
			for _, subject := range subjects {
				if natsserver.SubjectsCollide(stored, subject) {
					t.Errorf("a subscription to %s is on subject %s of stream %s", subject, stored, info.Config.Name)
				}
			}
		}
	}
	if streams.Err() != nil || count < 8 {
		t.Fatalf("%d streams, %v", count, streams.Err())
	}
}
