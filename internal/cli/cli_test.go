package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asSignalled) != "" {
		signalTwice()
	}
	goleak.VerifyTestMain(m)
}

func TestPriceList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	read := func(list string) (int, error) {
		if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		prices, err := (&ModelFlags{Prices: Document{Path: file}}).PriceList()
		return len(prices), err
	}
	if n, err := read("shell/demo: {input: 1, output: 2}"); n != 1 || err != nil {
		t.Errorf("%d prices, %v", n, err)
	}
	if _, err := read("shell/demo: {in: 1}"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a bad list: %v", err)
	}
	if prices, err := (&ModelFlags{}).PriceList(); prices != nil || err != nil {
		t.Errorf("no list: %v, %v", prices, err)
	}
	if _, err := (&ModelFlags{Prices: Document{Path: file + "x"}}).PriceList(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a list that is not there: %v", err)
	}
}

func TestHelpShowsNoSecret(t *testing.T) {
	t.Setenv(EnvName("nats-token"), "hush-hush")
	var f BrokerFlags
	var out bytes.Buffer
	cmd := &cobra.Command{Use: "thing", Run: func(*cobra.Command, []string) {}}
	f.Register(cmd.Flags())
	if code := Execute(t.Context(), cmd, []string{"--help"}, nil, &out, &out); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	if text := out.String(); strings.Contains(text, "hush-hush") || !strings.Contains(text, EnvName("nats-token")) {
		t.Errorf("help: %s", text)
	}
}

func TestLogger(t *testing.T) {
	for why, c := range map[string]struct {
		flags LogFlags
		want  string // part of the output; empty: a usage error
	}{
		"no terminal: JSON":     {LogFlags{Level: "info"}, `"message":"hello"`},
		"JSON asked for":        {LogFlags{Level: "debug", Format: "json"}, `"message":"hello"`},
		"console asked for":     {LogFlags{Level: "info", Format: "console"}, "INF hello"},
		"below the level":       {LogFlags{Level: "warn", Format: "json"}, ""},
		"an unknown level":      {LogFlags{Level: "loud", Format: "json"}, "usage"},
		"an unknown format":     {LogFlags{Level: "info", Format: "xml"}, "usage"},
		"a level left out":      {LogFlags{}, "usage"},
		"no level of zerolog's": {LogFlags{Level: "trace"}, "usage"},
	} {
		var out bytes.Buffer
		log, err := Logger(c.flags, &out)
		var usage *UsageError
		if errors.As(err, &usage) != (c.want == "usage") {
			t.Errorf("%s: %v", why, err)
			continue
		}
		log.Info().Msg("hello")
		if c.want != "usage" && (!strings.Contains(out.String(), c.want) || (c.want == "") != (out.Len() == 0)) {
			t.Errorf("%s: %q", why, out.String())
		}
	}
}

func TestExecuteExitCodes(t *testing.T) {
	for why, c := range map[string]struct {
		args []string
		want int
	}{
		"all well":                           {nil, ExitOK},
		"an unknown flag":                    {[]string{"--nope"}, ExitUsage},
		"a flag's value that is none":        {[]string{"--connect-wait=soon"}, ExitUsage},
		"an argument nobody asked for":       {[]string{"what"}, ExitUsage},
		"its own code fails":                 {[]string{"--nats=fail"}, ExitFailed},
		"its own code finds fault with them": {[]string{"--nats=usage"}, ExitUsage},
	} {
		var f BrokerFlags
		cmd := &cobra.Command{Use: "thing", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			switch f.URL {
			case "fail":
				return errors.New("no luck")
			case "usage":
				return Usage("that won't do")
			}
			return nil
		}}
		f.Register(cmd.Flags())
		var stdout, stderr bytes.Buffer
		got := Execute(t.Context(), cmd, c.args, nil, &stdout, &stderr)
		if got != c.want || stdout.Len() != 0 || (got == ExitOK) != (stderr.Len() == 0) {
			t.Errorf("%s: exit code %d, want %d; stdout %q, stderr %q", why, got, c.want, &stdout, &stderr)
		}
		if got != ExitOK && !strings.HasPrefix(stderr.String(), "thing: ") {
			t.Errorf("%s: stderr %q", why, &stderr)
		}
	}
}

func TestExecuteUnknownSubcommand(t *testing.T) {
	root := &cobra.Command{Use: "root"}
	root.AddCommand(&cobra.Command{Use: "child", RunE: func(*cobra.Command, []string) error { return errors.New("no luck") }})
	var out bytes.Buffer
	if code := Execute(t.Context(), root, []string{"chidl"}, nil, &out, &out); code != ExitUsage {
		t.Errorf("exit code %d: %s", code, &out)
	}
	out.Reset()
	if code := Execute(t.Context(), root, []string{"child"}, nil, &out, &out); code != ExitFailed || out.String() != "root child: no luck\n" {
		t.Errorf("exit code %d: %q", code, &out)
	}
}

func TestWithoutSignals(t *testing.T) {
	parent, stop := OnSignal(context.Background())
	defer stop()
	ctx := WithoutSignals(parent)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-parent.Done()
	if ctx.Err() != nil {
		t.Error("a signal ended it")
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if WithoutSignals(cancelled).Err() == nil {
		t.Error("it goes on though its parent, which is nobody's of signals, has ended")
	}
}

func TestOnSignalEndsTheContext(t *testing.T) {
	ctx, stop := OnSignal(context.Background())
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}

// asSignalled makes the test binary a process that is sent two signals.
const asSignalled = "TEST_AS_SIGNALLED"

// signalTwice sends this process a signal, and another one at the instant its context has ended. If it
// survives both it says so by its exit code.
func signalTwice() {
	ctx, _ := OnSignal(context.Background())
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	<-ctx.Done()
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	<-time.After(time.Minute)
	os.Exit(ExitOK)
}

// The second signal ends a process at once, also if it comes with the first one's effect.
func TestSecondSignalIsNotLost(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var processes []*exec.Cmd
	for range 8 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), asSignalled+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, cmd)
	}
	for _, cmd := range processes {
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 { // no code: a signal ended it
			t.Errorf("%s, %v", cmd.ProcessState, err)
		}
	}
}
