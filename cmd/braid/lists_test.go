package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// ok runs a command line that must go well, and returns what it prints.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := braid(t, args...)
	if code != cli.ExitOK {
		t.Fatalf("braid %s: %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// Programs get of a session what the gateway says: no member more, and none where the gateway has none,
// since a cost of 0 is another than one that is not known.
func TestSessionsAsJSON(t *testing.T) {
	b := newBusySession(t)
	b.await("it waits", func(s shown) bool { return len(s.Pending) > 0 })
	response, err := b.api.do(t.Context(), http.MethodGet, b.path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var served struct {
		Session map[string]any `json:"session"`
	}
	var printed map[string]any
	if err := errors.Join(schemas.DecodeJSON(text, &served), schemas.DecodeJSON([]byte(ok(t, "sessions", "show", "s", "--json", "--server", b.url)), &printed)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(served.Session, printed); diff != "" {
		t.Errorf("what is printed (-served +printed):\n%s", diff)
	}
}

// A person who is asked from elsewhere finds the session, sees the call, and decides.
func TestDecideFromOutside(t *testing.T) {
	b := newBusySession(t)
	b.await("it waits", func(s shown) bool { return len(s.Pending) > 0 }) // lists may be a moment behind
	t.Setenv("BRAID_SERVER", b.url)
	if list := ok(t, "sessions", "--state", "waiting"); !strings.Contains(list, "\ns   waiting  shell/demo") {
		t.Errorf("the list is\n%s", list)
	}
	call := callOf(t, ok(t, "sessions", "show", "s"))
	if out := ok(t, "approve", "s", call); out != "approved exec_command {\"command\":\"echo one\"}\n" {
		t.Errorf("approve: %s", out)
	}
	if code, _, stderr := braid(t, "deny", "s", call); code != cli.ExitFailed || !strings.Contains(stderr, call) {
		t.Errorf("decided twice: %d %s", code, stderr)
	}
	if code, _, stderr := braid(t, "approve", "s", call, "--server", ""); code != cli.ExitUsage || !strings.Contains(stderr, "--server") {
		t.Errorf("without a server: %d %s", code, stderr)
	}
}

// callOf is the call that a session shows as waiting.
func callOf(t *testing.T, shown string) string {
	t.Helper()
	_, rest, found := strings.Cut(shown, "waiting for you")
	call, arguments, _ := strings.Cut(strings.TrimSpace(rest), ": ")
	if !found || !strings.HasPrefix(arguments, `exec_command {"command":"echo one"}`) {
		t.Fatalf("no call waits:\n%s", shown)
	}
	return call
}

func TestAbortAndDelete(t *testing.T) {
	b := newBusySession(t)
	b.await("it waits", func(s shown) bool { return len(s.Pending) > 0 }) // lists may be a moment behind
	t.Setenv("BRAID_SERVER", b.url)
	if code, _, stderr := braid(t, "sessions", "delete", "s"); code != cli.ExitFailed || !strings.Contains(stderr, "--force") {
		t.Errorf("a session that runs was deleted: %d %s", code, stderr)
	}
	ok(t, "sessions", "abort", "s", "--reason", "enough")
	if code, _, stderr := braid(t, "sessions", "abort", "s"); code != cli.ExitFailed || stderr == "" {
		t.Errorf("aborted twice: %d %s", code, stderr)
	}
	if out := ok(t, "sessions", "delete", "s"); out != "deleted s\n" {
		t.Errorf("delete: %s", out)
	}
	if out := ok(t, "sessions", "delete", "s"); out != "deleted s\n" { // it is gone, which is what was wanted
		t.Errorf("delete again: %s", out)
	}
}

// Shells are told what the server knows, and nothing, soon, if it is silent.
func TestCompletion(t *testing.T) {
	b := newBusySession(t)
	b.await("it waits", func(s shown) bool { return len(s.Pending) > 0 }) // lists may be a moment behind
	t.Setenv("BRAID_SERVER", b.url)
	c := (&serverFlags{url: b.url}).client()
	defer c.Close()
	if err := c.PutAgent(context.Background(), schemas.Agent{Name: "helper", Model: "shell/demo"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why  string
		args []string
		want string
	}{
		{"a session, with what it does", []string{"sessions", "show", ""}, "s\twaiting $ echo one\n"},
		{"several can be deleted", []string{"sessions", "delete", "other", ""}, "s\twaiting"},
		{"one alone is shown", []string{"sessions", "show", "s", ""}, ":4\n"},
		{"the session of a decision", []string{"approve", ""}, "s\twaiting"},
		{"the call of a decision", []string{"deny", "s", ""}, "\texec_command {"},
		{"a model of the server", []string{"sessions", "--model", ""}, "shell/demo\n"},
		{"an agent of the server", []string{"chat", "--agent", ""}, "helper\tshell/demo\n"},
		{"who decides", []string{"run", "--approve", ""}, "always-ask\nallow-all\n"},
		{"a choice that is fixed", []string{"sessions", "--state", ""}, "idle\nrunning\nwaiting\n"},
		{"another of several choices", []string{"sessions", "--task-status", "auth,failed,"}, "auth,failed,completed\nauth,failed,aborted\n"},
	} {
		out := ""
		if !eventually(func() bool { // a server that is busy for too long completes nothing
			out = ok(t, append([]string{"__complete"}, test.args...)...)
			return strings.Contains(out, test.want)
		}) {
			t.Errorf("%s: got %q, want %q", test.why, out, test.want)
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // who connects is never answered
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if out := ok(t, "__complete", "sessions", "show", "--server", "http://"+silent.Addr().String(), ""); out != ":4\n" {
		t.Errorf("a silent server: %q", out)
	}
	t.Setenv("BRAID_SERVER", "")
	if out := ok(t, "__complete", "sessions", "show", ""); out != ":4\n" {
		t.Errorf("no server: %q", out)
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)
	for _, test := range []struct {
		why, text string
		want      time.Time
	}{
		{"nothing is wanted", "", time.Time{}},
		{"how long ago", "90m", now.Add(-90 * time.Minute)},
		{"a day begins where people are", "2026-11-29", time.Date(2026, 11, 29, 0, 0, 0, 0, time.Local)},
		{"a time is what it says", "2026-11-29T10:00:00Z", time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)},
	} {
		if got, err := parseSince(test.text, now); err != nil || !got.Equal(test.want) {
			t.Errorf("%s: got %v %v", test.why, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "2026-13-01"} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}

func TestPrintedTable(t *testing.T) {
	rows := newTable("A", "LONGER", "C")
	rows.row("é", "", "\x1b[31mred")
	rows.row("bcd")
	var b strings.Builder
	if err := rows.write(&b); err != nil || b.String() != "A    LONGER  C\né            \\u{1b}[31mred\nbcd\n" {
		t.Errorf("got %q %v", b.String(), err)
	}
}

func busModels(names []string, providers ...string) (list bus.ModelList) {
	for _, n := range names {
		list.Models = append(list.Models, bus.ModelInfo{Name: n})
	}
	list.Providers = providers
	return list
}

func TestModelsWithoutList(t *testing.T) {
	list := withProviders(busModels([]string{"a/one"}, "a", "b"))
	if len(list) != 2 || list[0].Name != "a/one" || list[1].Name != "b/*" {
		t.Errorf("got %v", list)
	}
	if dollars(schemas.USD(0)) != "" || usage(client.Info{Tasks: 1}) != "1 task, 0 turns, 0 tokens" {
		t.Error("nothing costs something")
	}
}
