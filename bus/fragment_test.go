package bus_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var fragmentTests = []workTest{
	{"fragments arrive in order", testFragments},
	{"a large fragment is split between characters", testLargeFragment},
	{"TestCase_B02_a_slow_session_learns_of_the_loss", testCaseB02SlowConsumer},
	{"what is no fragment is dropped", testMalformedFragment},
	{"a call is cancelled and resent", testControl},
	{"no toolrunner of that name", testControlNobody},
}

func fragment(call string, offset int64, text string) schemas.ToolFragment {
	return schemas.ToolFragment{ToolCallID: call, Attempt: 1, Offset: offset, Text: text}
}

func testFragments(t *testing.T, b *bustest.Broker, project string) {
	engine, runner := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	got := make(chan schemas.ToolFragment, 100)
	stop, err := engine.SubscribeFragments(ref, func(f schemas.ToolFragment) { got <- f }, func() { t.Error("nothing was lost") })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := runner.PublishFragment(schemas.SessionRef{Project: project, ID: "other"}, fragment("x", 0, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	for i := range int64(50) {
		if err := runner.PublishFragment(ref, fragment("call", i, "x")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(50) {
		if f := receive(t, got); f != fragment("call", i, "x") {
			t.Fatalf("got %+v, want offset %d", f, i)
		}
	}
	stop() // twice does no harm, and nothing comes after it
	if err := runner.PublishFragment(ref, fragment("call", 50, "x")); err != nil {
		t.Fatal(err)
	}
	settle(t, runner, engine)
	if len(got) != 0 {
		t.Error("a fragment after stop")
	}
}

func testLargeFragment(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	got := make(chan schemas.ToolFragment, 1000)
	stop, err := c.SubscribeFragments(ref, func(f schemas.ToolFragment) { got <- f }, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// Every byte of the first part grows to six in JSON; the second is characters of 3 bytes.
	want := strings.Repeat("\x01", 1<<20) + strings.Repeat("中", 1<<19)
	if err := c.PublishFragment(ref, fragment("call", 10, want)); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for text.Len() < len(want) {
		f := receive(t, got)
		if f.Offset != 10+int64(text.Len()) || !utf8.ValidString(f.Text) {
			t.Fatalf("at %d: offset %d, %d bytes", text.Len(), f.Offset, len(f.Text))
		}
		text.WriteString(f.Text)
	}
	if text.String() != want {
		t.Error("the pieces do not add up")
	}
	if !c.Connected() {
		t.Error("the connection was lost")
	}
}

// The session blocks while a tool floods it. Without a signal its result is silently shorter.
func testCaseB02SlowConsumer(t *testing.T, b *bustest.Broker, project string) {
	engine, runner := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	release := make(chan struct{})
	lost := make(chan struct{}, 1)
	var mu sync.Mutex
	next, gaps := int64(0), 0
	stop, err := engine.SubscribeFragments(ref, func(f schemas.ToolFragment) {
		<-release
		mu.Lock()
		defer mu.Unlock()
		if f.Offset != next {
			gaps++
		}
		next = f.Offset + 1
	}, func() {
		select {
		case lost <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	const many = 20_000
	for i := range int64(many) {
		if err := runner.PublishFragment(ref, fragment("call", i, "x")); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, runner, engine)
	close(release)
	receive(t, lost)
	// The owner asks for what is missing, and the toolrunner sends it again.
	mu.Lock()
	from := next
	mu.Unlock()
	eventually(t, "the last fragment", func() bool {
		for i := from; i < many; i++ {
			if err := runner.PublishFragment(ref, fragment("call", i, "x")); err != nil {
				t.Fatal(err)
			}
			if i%1000 == 0 {
				settle(t, runner, engine)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		from = next
		return next >= many
	})
	if !engine.Connected() {
		t.Error("the connection was lost")
	}
}

func testMalformedFragment(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	got := make(chan schemas.ToolFragment, 10)
	stop, err := c.SubscribeFragments(ref, func(f schemas.ToolFragment) { got <- f }, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, body := range []string{"no JSON", "", `{"tool_call_id":"*","text":"x"}`, `{"tool_call_id":"c","offset":-1}`} {
		if err := c.NATS().Publish("braid."+project+".fragment.s", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PublishFragment(ref, fragment("call", 0, "good")); err != nil {
		t.Fatal(err)
	}
	if f := receive(t, got); f.Text != "good" {
		t.Errorf("got %+v", f)
	}
}

func testControl(t *testing.T, b *bustest.Broker, project string) {
	runner, engine := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	instance := "r-" + project
	got := make(chan bus.Control, 100)
	stop, err := runner.ServeControl(instance, func(r bus.Control) error {
		switch r.ToolCallID {
		case "unknown":
			return schemas.Errorf(schemas.CodeNotFound, "no such call here")
		case "broken":
			return errors.New("something with a path in it")
		}
		got <- r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// asked asks until it is answered: on a busy machine that may take longer than it is waited for.
	asked := func(ask func() error) (err error) {
		eventually(t, instance+" answers", func() bool {
			err = ask()
			return !errors.Is(err, bus.ErrNoAnswer)
		})
		return err
	}
	cancel := func(call string) error {
		return asked(func() error { return engine.CancelCall(testContext(t), instance, ref, call) })
	}
	if err := cancel("call"); err != nil {
		t.Fatal(err)
	}
	if err := asked(func() error { return engine.RequestResend(testContext(t), instance, ref, "call", 2, 77) }); err != nil {
		t.Fatal(err)
	}
	var last bus.Control
	for _, want := range []bus.Control{
		{Op: bus.ControlCancel, Session: ref, ToolCallID: "call"},
		{Op: bus.ControlResend, Session: ref, ToolCallID: "call", Attempt: 2, From: 77},
	} {
		r := receive(t, got)
		for r == last { // it was asked once more
			r = receive(t, got)
		}
		if last = r; r != want {
			t.Errorf("got %+v, want %+v", r, want)
		}
	}
	if err := cancel("unknown"); !errors.Is(err, &schemas.Error{Code: schemas.CodeNotFound}) {
		t.Errorf("got %v, want not found", err)
	}
	err = cancel("broken")
	if !errors.Is(err, &schemas.Error{Code: schemas.CodeInternal}) || strings.Contains(err.Error(), "path") {
		t.Errorf("got %v, want an internal error that tells nothing", err)
	}
}

func testControlNobody(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	err := c.CancelCall(testContext(t), "nobody-"+project, schemas.SessionRef{Project: project, ID: "s"}, "call")
	if !errors.Is(err, bus.ErrNoInstance) {
		t.Errorf("got %v, want ErrNoInstance", err)
	}
}
