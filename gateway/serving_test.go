package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

func TestCase_C11_ProxiesAndSilence(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Heartbeat = 10 * time.Millisecond })
	w.engine.open("s")
	e := w.openStream("/v1/sessions/s/stream", "", header("Accept-Encoding", "gzip, br"))
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform",
		"X-Accel-Buffering": "no", "Content-Encoding": "", "Content-Length": "",
	} {
		if got := e.response.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	e.state()
	for range 5 {
		got, err := e.read()
		if err != nil || !got.comment || got.id != "" {
			t.Fatalf("a heartbeat is %+v %v", got, err)
		}
	}
	if o := (Options{Heartbeat: time.Hour}).withDefaults(); o.Heartbeat > 15*time.Second {
		t.Errorf("heartbeats may be %s apart", o.Heartbeat)
	}
}

func TestCase_C08_AWatcherThatLeavesEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	e := w.openStream("/v1/sessions/s/stream", "")
	e.state()
	start := w.task("s")
	s := w.engine.session("s")
	e.close()
	s.speak(3)
	s.say(&schemas.TaskEnd{Status: schemas.StopCompleted})
	if s.aborted {
		t.Error("the task was aborted")
	}
	want := s.seen(false)
	e = w.openStream("/v1/sessions/s/stream", start.Cursor)
	if got, _ := e.resumed(len(want)); !cmp.Equal(want, got) {
		diff := cmp.Diff(want, got)
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCase_C10_AbortFromAnotherTabAndGateway(t *testing.T) {
	w := newWorld(t)
	other := serve(t, w.broker.Conn(t))
	w.create("s")
	one, two := w.openStream("/v1/sessions/s/stream", ""), other.openStream("/v1/sessions/s/stream", "")
	one.state()
	two.state()
	w.task("s")
	other.must(202, "POST", "/v1/sessions/s/abort", "")
	want := w.engine.session("s").seen(false)
	a, b := one.take(len(want)), two.take(len(want))
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the tabs differ\n%s", diff)
	}
	if !strings.Contains(want[len(want)-1], `"task_end"`) {
		t.Errorf("the last message is %s", want[len(want)-1])
	}
}

// The end of a task is a message of the same order: whoever has seen it has seen all before.
func TestCase_C20_TheEndIsInTheStream(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	start := w.task("s")
	s := w.engine.session("s")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			e := w.openStream("/v1/sessions/s/stream", start.Cursor)
			var got []string
			for len(got) == 0 || !strings.Contains(got[len(got)-1], `"task_end"`) {
				if next := e.next(); next.name == "" {
					got = append(got, next.line())
				}
			}
			if diff := cmp.Diff(s.seen(false), got); diff != "" {
				t.Errorf("(-stored +streamed)\n%s", diff)
			}
		})
	}
	s.speak(10)
	s.say(&schemas.TaskEnd{Status: schemas.StopCompleted})
	wg.Wait()
}

// slowClient opens a stream and reads nothing beyond the first bytes.
func slowClient(t testing.TB, s *served, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, testToken)
	if _, err := io.ReadFull(conn, make([]byte, 15)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestCase_F09_ASlowClientHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		// Not less: in that time whoever reads must get to read something, however busy the machine is.
		o.RingBytes, o.WriteTimeout, o.Heartbeat = 256<<10, 5*time.Second, time.Hour
	})
	s := w.engine.open("s")
	slow := slowClient(t, w.served, "/v1/sessions/s/stream")
	others := make([]*events, 5)
	for i := range others {
		others[i] = w.openStream("/v1/sessions/s/stream", "")
		others[i].state()
	}
	s.say(&schemas.RequestBegin{})
	text := strings.Repeat("x", 16<<10)
	const frames = 500
	var wg sync.WaitGroup
	for _, e := range others {
		wg.Go(func() { e.take(1 + frames) }) // all of it, while the slow one is stuck
	}
	for range frames {
		s.say(schemas.AssistantText(text))
	}
	wg.Wait()
	// The slow one is cut off at its write deadline. It resumes from any id it has.
	waitFor(t, "the slow client is cut off", func() bool { return w.g.hubs.users(s.ref) == len(others) })
	all := readCut(slow, 40<<10)
	var last string
	for line := range strings.Lines(all[:strings.LastIndex(all, "\n\n")]) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			last = strings.TrimSpace(id)
		}
	}
	stored := s.seen(false)
	at := 0
	for i, line := range stored {
		if strings.HasPrefix(line, last+" ") {
			at = i + 1
		}
	}
	e := w.openStream("/v1/sessions/s/stream", last)
	if got, _ := e.resumed(len(stored) - at); !slices.Equal(stored[at:], got) {
		t.Error("the slow client did not get the rest")
	}
}

// readCut returns the beginning of what a stream that was cut off had sent, chunk sizes removed.
func readCut(conn net.Conn, limit int64) string {
	raw, _ := io.ReadAll(io.LimitReader(conn, limit)) // cut off: the error is the point
	_, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	var out strings.Builder
	for body != "" {
		head, rest, ok := strings.Cut(body, "\r\n")
		var size int
		if _, err := fmt.Sscanf(head, "%x", &size); err != nil || !ok || size > len(rest) {
			break
		}
		out.WriteString(rest[:size])
		body = strings.TrimPrefix(rest[size:], "\r\n")
	}
	return out.String()
}

// recording is a client whose connection records, and lets a test do something at each write.
type recording struct {
	*httptest.ResponseRecorder
	onWrite func()
}

func (r *recording) Write(b []byte) (int, error) {
	if r.onWrite != nil {
		r.onWrite()
	}
	return r.ResponseRecorder.Write(b)
}

// A watcher that the ring has left behind is served from the broker and comes back, as often as
// that takes; one that reads more slowly than the session runs is cut off.
func TestFallingBehind(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.RingBytes = 1000 })
	s := w.engine.open("s")
	h, release, err := w.g.hubs.use(testContext(t), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	client := &recording{ResponseRecorder: httptest.NewRecorder()}
	out, err := newEventWriter(client, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	v := &watcher{hub: h, replays: w.g.replays, out: out, patience: time.Minute}
	if err := v.arrived(h.now()); err != nil {
		t.Fatal(err)
	}
	speak := func() {
		s.speak(5)
		if err := h.reach(testContext(t), s.lastFrame()); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		speak()
		if err := v.step(testContext(t), nil); err != nil {
			t.Fatal(err)
		}
	}
	var want strings.Builder
	for _, line := range s.seen(false) {
		id, data, _ := strings.Cut(line, " ")
		want.Write(appendEvent(nil, "", id, []byte(data)))
	}
	_, got, _ := strings.Cut(client.Body.String(), "\n\n") // behind the snapshot
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	v.patience = 50 * time.Millisecond
	speak()
	writes := 0
	client.onWrite = func() {
		if writes++; writes%4 == 0 {
			speak()
		}
	}
	if err := v.step(testContext(t), nil); !errors.Is(err, errSlow) {
		t.Errorf("a client slower than the session: %v", err)
	}
}

func TestCase_F10_ComingAndGoing(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Linger = time.Millisecond })
	s := w.engine.open("s")
	ctx, cancel := context.WithCancel(testContext(t))
	var publisher, watchers sync.WaitGroup
	publisher.Go(func() {
		for ctx.Err() == nil {
			s.say(&schemas.RequestBegin{})
		}
	})
	for worker := range 8 {
		watchers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 125 {
				h, release, err := w.g.hubs.use(ctx, s.ref)
				if err != nil {
					t.Errorf("use: %v", err)
					return
				}
				now := h.now()
				for range r.IntN(3) {
					batch, changed, _, ok := h.read(now.next)
					if !ok {
						break
					}
					if now.next += uint64(len(batch)); len(batch) == 0 {
						<-changed
					}
				}
				release()
				release() // more than once is no harm
			}
		})
	}
	watchers.Wait()
	cancel()
	publisher.Wait()
	waitFor(t, "the last hub ends", func() bool { return w.g.hubs.count() == 0 })
}

func (s *hubs) users(ref schemas.SessionRef) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.mu.byRef[ref]; l != nil {
		return l.users
	}
	return 0
}

func (s *hubs) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.byRef)
}

func TestCase_B21_OneFollowerForAllWatchers(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Linger = 20 * time.Millisecond })
	s := w.engine.open("s")
	const watchers = 200
	open := make([]*events, watchers)
	for i := range open {
		open[i] = w.openStream("/v1/sessions/s/stream", "")
		open[i].state()
	}
	if n := w.g.hubs.count(); n != 1 {
		t.Errorf("%d hubs for one session", n)
	}
	s.say(&schemas.RequestBegin{})
	for _, e := range open {
		e.take(1)
		e.close()
	}
	waitFor(t, "the hub ends after its last watcher", func() bool { return w.g.hubs.count() == 0 })
	w.openStream("/v1/sessions/s/stream", "").state() // and there is a new one for the next
}

func TestServeEndsInOrder(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	e := w.openStream("/v1/sessions/s/stream", "")
	last := e.state().Cursor
	done := make(chan struct{})
	go func() { w.stop(); close(done) }() // ends with the gateway; waited for below
	comments := ""
	for {
		got, err := e.read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the stream did not end in order: %v", err)
			}
			break
		}
		comments += got.data
	}
	<-done
	if !strings.Contains(comments, "is stopping") {
		t.Errorf("the stream did not say why it ended: %q", comments)
	}
	s.say(&schemas.RequestBegin{})
	if _, _, err := w.g.hubs.use(testContext(t), s.ref); !errors.Is(err, errStopping) {
		t.Errorf("a stopped gateway: %v", err)
	}
	next := serve(t, w.conn)
	e = next.openStream("/v1/sessions/s/stream", last)
	if got, _ := e.resumed(1); !slices.Equal(s.seen(false), got) {
		t.Errorf("got %v", got)
	}
}

func TestADeletedSession(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	e := w.openStream("/v1/sessions/s/stream", "")
	e.state()
	if err := w.conn.DeleteSession(testContext(t), s.ref, "double"); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := e.read(); err != nil {
			break // the stream ends
		}
	}
	waitFor(t, "the session is gone", func() bool {
		return w.do("GET", "/v1/sessions/s/stream", "").status == http.StatusNotFound
	})
}

// While the broker is away streams stay open, and go on when it is back.
func TestStreamOutlivesTheBroker(t *testing.T) {
	t.Parallel()
	broker := bustest.Listening(t)
	d := startDouble(t, broker.Conn(t))
	s := d.open("s")
	g := serve(t, broker.Conn(t), func(o *Options) { o.Heartbeat = 10 * time.Millisecond })
	e := g.openStream("/v1/sessions/s/stream", "")
	e.state()
	s.say(&schemas.RequestBegin{})
	e.take(1)
	broker.Stop(0)
	for range 3 {
		if _, err := e.read(); err != nil {
			t.Fatalf("the stream ended with the broker: %v", err)
		}
	}
	broker.Start(t, 0)
	s.speak(2)
	if diff := cmp.Diff(s.seen(false)[1:], e.take(8)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	d.stop()
}

// A gap in the middle of a live stream is told to everybody, with how the session stands.
func TestALiveGap(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	before := s.say(&schemas.RequestBegin{})
	e := w.openStream("/v1/sessions/s/stream", "")
	e.state()
	h, release, err := w.g.hubs.use(testContext(t), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	h.gap(bus.GapEvent{After: before, Before: before + 5})
	e.resync()
	if state := e.state(); state.State != bus.StateRunning {
		t.Errorf("state %+v", state)
	}
	s.speak(1)
	e.take(4)
	if _, _, ok := h.arrive(schemas.Position{Sequence: before}); ok {
		t.Error("a cursor before the gap is continued behind it")
	}
}

func TestServeReportsItsListener(t *testing.T) {
	g, err := New(Options{Conn: bustest.Single(t).Conn(t), Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := g.Serve(testContext(t), l); err == nil {
		t.Error("a closed listener is no error")
	}
}

func TestAPanicCutsTheConnectionAndIsLogged(t *testing.T) {
	buffer, log := logBuffer()
	server := httptest.NewServer(observe(log, Events{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("ouch") })))
	if _, err := (&served{t: t, url: server.URL}).request(testContext(t), "GET", "/", ""); err == nil {
		t.Error("the client got an answer")
	}
	server.Close()
	if !strings.Contains(buffer.String(), "ouch") {
		t.Errorf("log: %s", buffer)
	}
}
