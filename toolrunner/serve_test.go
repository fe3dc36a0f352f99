package toolrunner

import (
	"errors"
	"slices"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

func TestServeRunsACall(t *testing.T) {
	t.Parallel()
	bustest.Each(t, func(t *testing.T, b *bustest.Broker) {
		conn := b.Conn(t)
		o := newOwner(t, conn)
		s := serve(t, b.Conn(t), ServeOptions{Instance: "a", Tools: []Tool{echoTool("echo")}})
		// A replica may lag for a moment, here and below.
		waitUntil(t, "it has proven that it lives", func() bool { return alive(t, conn, "a") })
		o.call("c1", "echo", "hi")
		rec := o.done("c1", schemas.StopCompleted, "echo says hi")
		if rec.Toolrunner != "a" || rec.Attempt != 1 {
			t.Errorf("record %+v", rec)
		}
		awaitEmpty(t, conn, schemas.DefaultPool)
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		waitUntil(t, "nothing of it is announced", func() bool { return !announced(t, conn, "a") && !alive(t, conn, "a") })
	})
}

func TestServeAnnouncesItsTools(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	gpu := echoTool("draw")
	gpu.Definition.Pool = "gpu"
	ready := make(chan bool, 1)
	serve(t, conn, ServeOptions{Instance: "a", Pool: "plain", Slots: 7, Tools: []Tool{echoTool("echo"), gpu}, Ready: func() {
		all, err := conn.Announcements(t.Context(), "default")
		ready <- err == nil && len(all) == 1 && alive(t, conn, "a")
	}})
	if !<-ready {
		t.Error("it was ready before it was announced, and had proven that it lives")
	}
	all, err := conn.Announcements(t.Context(), "default")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if want := []string{"gpu", "plain", PrivatePool("a")}; !slices.Equal(all[0].Pools, want) || all[0].Slots != 7 {
		t.Errorf("announced %+v", all[0])
	}
	tools, conflicts, err := conn.Tools(t.Context(), "default", nil)
	if err != nil || len(conflicts) != 0 || len(tools) != 2 {
		t.Fatal(tools, conflicts, err)
	}
	if tools[0].Name != "draw" || tools[0].Pool != "gpu" || tools[1].Pool != "plain" || tools[1].Retry != schemas.RetryNever {
		t.Errorf("tools %+v", tools)
	}
}

func TestServeRefusesBadOptions(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	for why, o := range map[string]ServeOptions{
		"an instance that is no name":        {Instance: "a.b"},
		"an instance too long for its pool":  {Instance: string(make([]byte, 63))},
		"a project that is no name":          {Projects: []string{"*"}},
		"a pool that is no name":             {Pool: "a b"},
		"no tools":                           {},
		"two tools of one name":              {Tools: []Tool{echoTool("a"), echoTool("a")}},
		"a tool that can't be named in NATS": {Tools: []Tool{echoTool("a>b")}},
	} {
		if err := Serve(t.Context(), conn, o); err == nil {
			t.Errorf("%s: accepted", why)
		}
	}
}

// Each pool's calls run on its toolrunners only, and each project's.
func TestServePoolsAreApart(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	serve(t, conn, ServeOptions{Instance: "a", Pool: "red", Tools: []Tool{echoTool("echo")}})
	serve(t, conn, ServeOptions{Instance: "b", Pool: "blue", Tools: []Tool{echoTool("echo")}})
	serve(t, conn, ServeOptions{Instance: "c", Pool: "red", Projects: []string{"other"}, Tools: []Tool{echoTool("echo")}})
	for call, c := range map[string]struct{ pool, runner string }{
		"c1": {"red", "a"}, "c2": {"blue", "b"}, "c3": {"blue", "b"}, "c4": {"red", "a"},
		"c5": {PrivatePool("a"), "a"}, "c6": {PrivatePool("b"), "b"},
	} {
		o.queue(c.pool, o.request(call, "echo", call, 0, 1))
		if rec := o.done(call, schemas.StopCompleted, "echo says "+call); rec.Toolrunner != c.runner {
			t.Errorf("a call in %s ran on %s", c.pool, rec.Toolrunner)
		}
	}
}

// A call that can't be run gets a result, so that nobody waits for it.
func TestServeSettlesWhatItCannotRun(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	o := newOwner(t, conn)
	apart := echoTool("apart")
	apart.Definition.Pool = "another"
	serve(t, conn, ServeOptions{Instance: "a", Tools: []Tool{echoTool("echo"), apart}})
	o.call("c1", "nothing", "")
	o.done("c1", schemas.StopFailed, "[no output]\n[failed: no tool of that name runs here; there are: echo]")
	o.call("c2", "apart", "")
	o.done("c2", schemas.StopFailed, "[no output]\n[failed: no tool of that name runs here; there are: echo]")
	o.queue(PrivatePool("a"), o.request("c3", "apart", "hi", 0, 1))
	o.done("c3", schemas.StopCompleted, "apart says hi")
	awaitEmpty(t, conn, schemas.DefaultPool)
}

// The message leaves the queue when the start is stored, not before.
func TestServeAcknowledgesWhatHasStarted(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	calls, err := conn.ToolQueue(t.Context(), "default", schemas.DefaultPool, bus.ToolQueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(conn, ServeOptions{Instance: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.resends.stop()
	o.call("c1", "echo", "")
	call := pullOne(t, calls)
	out := func() uint64 {
		_, out, err := conn.QueueDepth(t.Context(), "default", schemas.DefaultPool)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	cut := b.Conn(t)
	cut.Close()
	gone := &server{conn: cut, options: s.options, limit: s.limit}
	d := &busDelivery{q: &queue{s: gone, calls: calls}, call: call}
	if ours, err := d.Claim(t.Context()); err == nil || ours {
		t.Error("a claim succeeded without the broker")
	}
	if out() != 1 || o.last("c1").State != schemas.RecordQueued {
		t.Errorf("%d calls are handed out, the record is %s", out(), o.last("c1").State)
	}
	d = &busDelivery{q: &queue{s: s, calls: calls}, call: call}
	if ours, err := d.Claim(t.Context()); err != nil || !ours {
		t.Errorf("claim: %v %v", ours, err)
	}
	d.acked.Wait()
	if rec := o.last("c1"); out() != 0 || rec.State != schemas.RecordStarted || rec.Toolrunner != "a" || rec.Nonce == "" {
		t.Errorf("%d calls are handed out, the record is %+v", out(), rec)
	}
	d = &busDelivery{q: &queue{s: s, calls: calls}, call: call}
	if ours, err := d.Claim(t.Context()); err != nil || ours {
		t.Errorf("the same message once more: %v %v", ours, err)
	}
}

func TestServeDrains(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	o := newOwner(t, conn)
	runs, gate := &counter{}, make(chan struct{})
	s := serve(t, conn, ServeOptions{Instance: "a", Drain: time.Minute, Tools: []Tool{gateTool("gate", runs, gate)}})
	o.call("c1", "gate", "one")
	waitUntil(t, "the call runs", func() bool { return o.merged("c1", 1) == "one\n" })
	s.cancel()
	waitUntil(t, "the announcement is withdrawn", func() bool { return !announced(t, conn, "a") })
	o.call("c2", "gate", "two")
	if !alive(t, conn, "a") {
		t.Error("it counts as gone while a call runs")
	}
	close(gate)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	o.done("c1", schemas.StopCompleted, "one\nlet go\n")
	if rec := o.last("c2"); rec.State != schemas.RecordQueued || runs.of("c2") != 0 {
		t.Errorf("a call was started while draining: %+v", rec)
	}
	if alive(t, conn, "a") {
		t.Error("its proof of life was left")
	}
}

func TestServeAbortsWhatDoesNotDrain(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	o := newOwner(t, conn)
	runs := &counter{}
	s := serve(t, conn, ServeOptions{Instance: "a", Drain: 10 * time.Millisecond, Tools: []Tool{gateTool("gate", runs, nil)}})
	o.call("c1", "gate", "one")
	waitUntil(t, "the call runs", func() bool { return o.merged("c1", 1) == "one\n" })
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	o.done("c1", schemas.StopAborted, "one\n[aborted: the toolrunner is shutting down]")
}

func TestServeControls(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	o := newOwner(t, conn)
	runs := &counter{}
	serve(t, conn, ServeOptions{Instance: "a", Tools: []Tool{gateTool("gate", runs, nil)}})
	o.call("c1", "gate", "one")
	waitUntil(t, "the call runs", func() bool { return o.merged("c1", 1) == "one\n" })
	for why, from := range map[string]int64{"everything": 0, "from the middle": 2} {
		late := newOwner(t, conn) // has missed all of it
		late.text[late.key("c1", 1)] = []byte("one\n"[:from])
		if err := conn.RequestResend(t.Context(), "a", o.ref, "c1", 1, from); err != nil {
			t.Error(why, err)
		}
		waitUntil(t, why+" was sent again", func() bool { return late.merged("c1", 1) == "one\n" })
	}
	if err := conn.CancelCall(t.Context(), "a", o.ref, "c1"); err != nil {
		t.Error(err)
	}
	o.done("c1", schemas.StopAborted, "one\n[aborted]")
	after := newOwner(t, conn)
	if err := conn.RequestResend(t.Context(), "a", o.ref, "c1", 1, 0); err != nil {
		t.Error("after its end:", err)
	}
	waitUntil(t, "everything was sent after the end", func() bool { return after.merged("c1", 1) == "one\n[aborted]" })
	unknown := &schemas.Error{Code: schemas.CodeNotFound}
	waitUntil(t, "the call has left its slot", func() bool { // its record is there a moment before
		err := conn.CancelCall(t.Context(), "a", o.ref, "c1")
		if err != nil && !errors.Is(err, unknown) {
			t.Errorf("cancel of an ended call: %v", err)
		}
		return err != nil
	})
	if err := conn.RequestResend(t.Context(), "a", o.ref, "c1", 2, 0); !errors.Is(err, unknown) {
		t.Errorf("output of another attempt: %v", err)
	}
}

// The whole text of a call whose output was cut can be read by the name in its record.
func TestServeKeepsTheFullOutput(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	o := newOwner(t, conn)
	serve(t, conn, ServeOptions{Instance: "a", Tools: []Tool{echoTool("echo")}})
	request := o.request("c1", "echo", "0123456789", 0, 1)
	request.OutputCap = 4
	o.queue(schemas.DefaultPool, request)
	rec := o.done("c1", schemas.StopCompleted, "echo\n[output truncated: kept the first 4 of 20 bytes]")
	r, err := conn.OpenOutput(t.Context(), o.ref, rec.Result.FullOutput)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := readAll(r); err != nil || text != "echo says 0123456789" {
		t.Errorf("full output %q, %v", text, err)
	}
	other := schemas.SessionRef{Project: "default", ID: "s2"}
	if _, err := conn.OpenOutput(t.Context(), other, rec.Result.FullOutput); !errors.Is(err, bus.ErrBlobMissing) {
		t.Errorf("another session's output: %v", err)
	}
}
