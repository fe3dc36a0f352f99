package bus_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var livenessTests = []workTest{
	{"silence is judged by one's own puts", testGone},
	{"a stopped instance is gone", testStopped},
	{"who has not put three times judges nobody", testYoungJudge},
	{"an instance lists and is healthy", testInstances},
	{"both kinds judge each other", testKinds},
	{"a false alarm, then a death", testFalseAlarm},
}

// beat starts a proof of life that ends with the test.
func beat(t *testing.T, c *bus.Conn, kind bus.InstanceKind, instance string) *bus.Beat {
	t.Helper()
	b, err := c.StartBeat(testContext(t), kind, instance, []byte("info of "+instance))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil && !errors.Is(err, bus.ErrUnreachable) {
			t.Logf("stop %s: %v", instance, err)
		}
	})
	return b
}

func gone(t *testing.T, judge *bus.Beat, kind bus.InstanceKind, instance string) bool {
	t.Helper()
	g, err := judge.Gone(testContext(t), kind, instance)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// mayNotJudge asks for a verdict that is none yet, unless the judge has put three times by now.
func mayNotJudge(t *testing.T, judge *bus.Beat, instance string) {
	t.Helper()
	judged := gone(t, judge, bus.KindEngine, instance)
	if _, _, ok := judge.Puts(); judged && !ok {
		t.Error("judged before three puts of one's own")
	}
}

// notGone asks about a living instance. Where it gets no time, the judge may put three times while it
// puts nothing: then it counts as gone, rightly.
func notGone(t *testing.T, judge, living *bus.Beat, kind bus.InstanceKind, instance string) {
	t.Helper()
	_, put, _ := living.Puts()
	if !gone(t, judge, kind, instance) {
		return
	}
	if first, _, _ := judge.Puts(); put >= first {
		t.Errorf("%s lives, and was judged gone: it put at %d, the judge since %d", instance, put, first)
	}
}

func testGone(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	live := beat(t, b.Conn(t, len(b.Nodes)-1), bus.KindEngine, "live-"+project)
	judge := beat(t, c, bus.KindEngine, "judge-"+project)
	// One that was killed: its key stays, and nobody beats it.
	raw(t, c, "$KV.INSTANCES.engine.dead-"+project, []byte("x"))
	mayNotJudge(t, judge, "dead-"+project)
	eventually(t, "the dead one is gone", func() bool {
		notGone(t, judge, live, bus.KindEngine, "live-"+project)
		return gone(t, judge, bus.KindEngine, "dead-"+project)
	})
	for name, g := range map[string]bool{"judge-" + project: false, "never-" + project: true} {
		if gone(t, judge, bus.KindEngine, name) != g {
			t.Errorf("%s: gone is not %v", name, g)
		}
	}
	eventually(t, "the other one judges as well", func() bool { return gone(t, live, bus.KindEngine, "dead-"+project) })
}

func testStopped(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	judge := beat(t, c, bus.KindEngine, "judge-"+project)
	other, err := c.StartBeat(testContext(t), bus.KindEngine, "other-"+project, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The judge is old enough once it can see that a name that never was is gone.
	eventually(t, "the judge may judge", func() bool { return gone(t, judge, bus.KindEngine, "never-"+project) })
	notGone(t, judge, other, bus.KindEngine, "other-"+project)
	if err := other.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	// Silence alone would leave the key, so that it is listed. A replica may lag for a moment.
	eventually(t, "a stopped instance is not listed", func() bool {
		all, err := c.Instances(testContext(t), bus.KindEngine)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(all, func(i bus.Instance) bool { return i.Name == "other-"+project })
	})
	eventually(t, "a stopped instance is gone", func() bool { return gone(t, judge, bus.KindEngine, "other-"+project) })
	if other, err = c.StartBeat(testContext(t), bus.KindEngine, "other-"+project, nil); err != nil {
		t.Fatal(err)
	}
	notGone(t, judge, other, bus.KindEngine, "other-"+project) // back again
	if err := other.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func testYoungJudge(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	judge := beat(t, c, bus.KindEngine, "young-"+project)
	mayNotJudge(t, judge, "never-"+project)
}

func testInstances(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	one := beat(t, c, bus.KindEngine, "one-"+project)
	beat(t, c, bus.KindToolrunner, "two-"+project)
	eventually(t, "a beat that puts is healthy", one.Healthy)
	eventually(t, "the instance is listed", func() bool {
		all, err := c.Instances(testContext(t), bus.KindEngine)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(all, func(i bus.Instance) bool { return i.Name == "two-"+project }) {
			t.Error("a toolrunner among the engines")
		}
		return slices.ContainsFunc(all, func(i bus.Instance) bool {
			return i.Name == "one-"+project && string(i.Info) == "info of one-"+project && i.Revision > 0
		})
	})
}

// Runner killed mid-call: its life is proven by a goroutine of its own, and the engine, whose
// puts are in the same stream, sees the silence.
func testKinds(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	engine := beat(t, c, bus.KindEngine, "same-"+project)
	runner := beat(t, c, bus.KindToolrunner, "same-"+project)
	eventually(t, "the engine may judge", func() bool { return gone(t, engine, bus.KindToolrunner, "never-"+project) })
	notGone(t, engine, runner, bus.KindToolrunner, "same-"+project)
	eventually(t, "the toolrunner may judge", func() bool { return gone(t, runner, bus.KindEngine, "never-"+project) })
	notGone(t, runner, engine, bus.KindEngine, "same-"+project)
}

// An instance whose puts do not get through still answers; one that can't be reached still puts.
// Only who does neither is dead, and that is asked anew each time.
func testFalseAlarm(t *testing.T, b *bustest.Broker, project string) {
	c, other := b.Conn(t), b.Conn(t)
	judge := beat(t, c, bus.KindEngine, "judge-"+project)
	silent, deaf := "silent-"+project, "deaf-"+project
	w := bus.WakeUp{Session: schemas.SessionRef{Project: project, ID: "s"}, AckSubject: "$JS.ACK.COMMANDS.run.1.7.1.1.0"}
	raw(t, c, "$KV.INSTANCES.engine."+silent, nil)
	stop, err := other.ServeDeliver(silent, func(bus.WakeUp) bus.DeliverAnswer { return bus.DeliverMine })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	working := beat(t, other, bus.KindEngine, deaf)
	eventually(t, "the silent one shows no life in the broker", func() bool { return gone(t, judge, bus.KindEngine, silent) })
	if a := deliver(t, c, silent, w); a != bus.DeliverMine {
		t.Errorf("the silent one: got %s", a)
	}
	if _, err := c.Deliver(testContext(t), deaf, w); !errors.Is(err, bus.ErrNoInstance) {
		t.Errorf("the deaf one: got %v, want ErrNoInstance", err)
	}
	notGone(t, judge, working, bus.KindEngine, deaf)
	stop()
	eventually(t, "the silent one is dead", func() bool {
		_, err := c.Deliver(testContext(t), silent, w)
		return errors.Is(err, bus.ErrNoInstance) && gone(t, judge, bus.KindEngine, silent)
	})
}

var runningTests = []workTest{
	{"keys are marked, listed and cleared", testRunning},
	{"a late delete does not remove a newer key", testLateDelete},
	{"a delete that was stored before is a success", testRepeatedDelete},
	{"the claimer clears what others left", testClearOthers},
	{"deleted keys leave no marker for ever", testMarkerTTL},
	{"many keys are listed", testManyKeys},
}

func testRunning(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ctx := testContext(t)
	instance := "e-" + project
	x, y := schemas.SessionRef{Project: project, ID: "x"}, schemas.SessionRef{Project: project, ID: "y"}
	revX := mark(t, c, instance, x)
	revY := mark(t, c, instance, y)
	mark(t, c, instance+"2", x)
	want := []bus.RunningKey{{Instance: instance, Session: x, Revision: revX}, {Instance: instance, Session: y, Revision: revY}}
	eventually(t, "both are listed", func() bool {
		got, err := c.RunningOf(ctx, instance)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(got, want)
	})
	if err := c.ClearRunning(ctx, instance, x, revX); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one is left", func() bool {
		got, err := c.RunningOf(ctx, instance)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(got, want[1:])
	})
	eventually(t, "it is among all", func() bool { // another replica may answer
		all, err := c.RunningAll(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(all, want[1])
	})
}

func mark(t *testing.T, c *bus.Conn, instance string, ref schemas.SessionRef) uint64 {
	t.Helper()
	rev, err := c.MarkRunning(testContext(t), instance, ref)
	if err != nil || rev == 0 {
		t.Fatalf("mark: %d, %v", rev, err)
	}
	return rev
}

func testLateDelete(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	old := mark(t, c, "e", ref)
	now := mark(t, c, "e", ref)
	var conflict *bus.RevisionConflict
	err := c.ClearRunning(testContext(t), "e", ref, old)
	if !errors.As(err, &conflict) || conflict.Last != now {
		t.Fatalf("got %v, want a conflict with %d", err, now)
	}
	if err := c.ClearRunning(testContext(t), "e", ref, 0); err == nil {
		t.Fatal("a delete without a revision was taken")
	}
	if err := c.ClearRunning(testContext(t), "e", ref, now); err != nil {
		t.Fatal(err)
	}
}

func testRepeatedDelete(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	rev := mark(t, c, "e", ref)
	for range 3 {
		if err := c.ClearRunning(testContext(t), "e", ref, rev); err != nil {
			t.Fatal(err)
		}
	}
}

func testClearOthers(t *testing.T, b *bustest.Broker, project string) {
	c, old := b.Conn(t), b.Conn(t, len(b.Nodes)-1)
	ctx := testContext(t)
	ref, near := schemas.SessionRef{Project: project, ID: "s"}, schemas.SessionRef{Project: project, ID: "s2"}
	for _, instance := range []string{"a-" + project, "b-" + project, "c-" + project} {
		mark(t, old, instance, ref)
		mark(t, old, instance, near)
	}
	self := "self-" + project
	rev := mark(t, c, self, ref)
	if err := c.ClearOthers(ctx, ref, self, rev); err != nil {
		t.Fatal(err)
	}
	eventually(t, "only its own key is left", func() bool {
		all, err := c.RunningAll(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var here, there int
		for _, k := range all {
			if k.Session == ref {
				here++
			}
			if k.Session == near {
				there++
			}
		}
		if there != 3 && here == 1 {
			t.Fatalf("%d keys of another session are left, want 3", there)
		}
		return here == 1 && there == 3
	})
}

// A plain delete leaves its marker for ever, one for each session that ever ran.
func testMarkerTTL(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	if err := c.ClearRunning(testContext(t), "e", ref, mark(t, c, "e", ref)); err != nil {
		t.Fatal(err)
	}
	marker, found, err := c.LeaderGet(testContext(t), "KV_RUNNING", 0, "$KV.RUNNING.e."+project+".s")
	if err != nil || (found && marker.Get("Nats-TTL") == "") {
		t.Errorf("the marker stays for ever: %v, %v", marker, err)
	}
}

func testManyKeys(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	const many = 600 // over a page
	for i := range many {
		mark(t, c, "many-"+project, schemas.SessionRef{Project: project, ID: "s" + string(rune('a'+i%26)) + string(rune('a'+i/26))})
	}
	eventually(t, "all are listed", func() bool {
		got, err := c.RunningOf(testContext(t), "many-"+project)
		if err != nil {
			t.Fatal(err)
		}
		return len(got) == many
	})
}
