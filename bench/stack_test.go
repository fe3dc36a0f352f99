package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/engine"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
	"braid/toolrunner"
	"braid/trace"
)

// envRole makes this test binary a toolrunner, so that tools run in another process.
const envRole = "BRAID_BENCH_TOOLRUNNER"

func TestMain(m *testing.M) {
	if url := os.Getenv(envRole); url != "" {
		if err := serveTools(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// noop is a tool that does nothing, at once; say streams its text in pieces that carry the time.
func tools() []toolrunner.Tool {
	return []toolrunner.Tool{
		{
			Definition: schemas.ToolDefinition{Name: "noop", Description: "does nothing", Permission: schemas.PermissionRead},
			Run: func(_ context.Context, _ toolrunner.Call, out *toolrunner.Output) toolrunner.Result {
				_, _ = out.WriteString("ok\n")
				return toolrunner.Result{}
			},
		},
		{
			Definition: schemas.ToolDefinition{Name: "clock", Description: "says the time again and again", Permission: schemas.PermissionRead},
			Run:        clock,
		},
	}
}

// clockPause is the time between two pieces of the clock's output.
const clockPause = 4 * time.Millisecond

// clock writes the time, in nanoseconds, as many times as its argument says.
func clock(ctx context.Context, call toolrunner.Call, out *toolrunner.Output) toolrunner.Result {
	var args struct {
		Times int `json:"times"`
	}
	if err := toolrunner.DecodeArguments(call.Arguments, &args); err != nil {
		return toolrunner.Result{Err: err}
	}
	tick := time.NewTicker(clockPause)
	defer tick.Stop()
	for range args.Times {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return toolrunner.Result{}
		}
		fmt.Fprintf(out, "%d\n", time.Now().UnixNano())
	}
	return toolrunner.Result{}
}

func serveTools(url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	conn, err := bus.Connect(ctx, bus.Options{URL: url, Name: "bench-toolrunner"})
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println("ready")
	return toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{Tools: tools(), Slots: 256, Log: zerolog.New(os.Stderr).Level(zerolog.WarnLevel)})
}

// stack is a broker and an engine in this process and a toolrunner in another.
type stack struct {
	server *bus.Server
	conn   *bus.Conn
	child  *exec.Cmd
}

func start(b *testing.B, syncAlways bool, script string) *stack {
	b.Helper()
	dir := b.TempDir()
	server, err := bus.StartEmbedded(bus.ServerOptions{StoreDir: filepath.Join(dir, "nats"), SyncAlways: syncAlways, Port: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Shutdown)
	s := &stack{server: server, conn: connect(b, server)}
	s.startToolrunner(b, server.URL())
	store, err := trace.Open(filepath.Join(dir, "trace"), trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	parsed, err := scripted.Parse([]byte(script))
	if err != nil {
		b.Fatal(err)
	}
	models, err := llm.NewCatalog(scripted.New(map[string]*scripted.Script{"bench": parsed}))
	if err != nil {
		b.Fatal(err)
	}
	e, err := engine.Start(context.Background(), engine.Options{
		Conn: connect(b, server), Trace: store, Models: models, Log: zerolog.New(os.Stderr).Level(zerolog.WarnLevel),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			b.Error(err)
		}
	})
	s.awaitTools(b)
	return s
}

func connect(b *testing.B, server *bus.Server) *bus.Conn {
	b.Helper()
	conn, err := bus.Connect(context.Background(), bus.Options{Server: server, Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	return conn
}

func (s *stack) startToolrunner(b *testing.B, url string) {
	b.Helper()
	s.child = exec.Command(os.Args[0])
	s.child.Env = append(os.Environ(), envRole+"="+url)
	s.child.Stderr = os.Stderr
	out, err := s.child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.child.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = s.child.Process.Signal(syscall.SIGTERM)
		_ = s.child.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		b.Fatalf("toolrunner: %q, %v", line, err)
	}
}

// awaitTools waits until the toolrunner's tools are announced: sessions snapshot them once.
func (s *stack) awaitTools(b *testing.B) {
	b.Helper()
	eventually(b, "no toolrunner announced its tools", func() bool {
		all, err := s.conn.Announcements(context.Background(), "default")
		return err == nil && len(all) > 0
	})
}

func eventually(b *testing.B, what string, ok func() bool) {
	b.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			b.Fatal(what)
		}
	}
}

func (s *stack) send(b *testing.B, c schemas.Command) {
	b.Helper()
	o, _, err := s.conn.SendAndWait(context.Background(), c, time.Minute)
	if err == nil {
		err = o.Err()
	}
	if err != nil {
		b.Fatalf("%s: %v", c.Type, err)
	}
}

func (s *stack) create(b *testing.B, ref schemas.SessionRef) {
	b.Helper()
	s.send(b, schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{
		Model: "scripted/bench", ApprovalMode: schemas.ApproveAll,
	}})
}

// cpu is the processor time that this process and its toolrunner have used.
func (s *stack) cpu() time.Duration {
	var self syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	used := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.child.Process.Pid))
	if err != nil {
		return used
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	var user, system int64
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return used + time.Duration(user+system)*10*time.Millisecond // clock ticks of 10 ms
}
