package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"braid/client"
)

// Ctrl-C ends the task and not the program; at rest it takes two.
func TestChatInterrupts(t *testing.T) {
	s := sitDown(t, []string{"BRAID_DATA=" + t.TempDir()}, "chat", "--approve", "allow-all")
	s.see("session ")
	s.see("> ")
	s.hit("$ echo begun; sleep 600" + enter)
	s.see("← 1 exec_command")
	s.see("begun")
	s.hit(ctrlC)
	s.see("aborting")
	s.see("! the task ended: aborted")
	s.see("> ")
	s.hit("$ echo goes on" + enter)
	s.see("goes on: exit code 0")
	s.see("> ")
	s.hit("half a line" + ctrlC)
	s.see("Ctrl-C again leaves")
	s.see("> ")
	s.hit("$ echo st" + "\x7f\x7f" + "still there" + enter) // a line in between is another beginning
	s.see("still there: exit code 0")
	s.see("> ")
	s.hit(ctrlC)
	s.see("Ctrl-C again leaves")
	s.see("> ")
	s.hit(ctrlC)
	s.see("continue with: braid chat --session ")
	s.ends(0)
	if strings.Contains(s.shown(), "\x1b[3") {
		t.Error("there are colours, which NO_COLOR forbids")
	}
}

// A call waits for an answer, which is for that call: its arguments are shown with every character.
func TestChatAsks(t *testing.T) {
	s := sitDown(t, []string{"BRAID_DATA=" + t.TempDir()}, "chat", "--approve", "always-ask")
	s.see("> ")
	s.hit("$ echo a\u202eb" + enter)
	s.see(`allow exec_command {"command":"echo a\u{202e}b"} ? [y/n] `)
	s.hit("what?" + enter)
	s.see("y lets it run, n does not")
	s.see(`allow exec_command {"command":"echo a\u{202e}b"} ? [y/n] `)
	s.hit("/usage" + enter) // a command is no answer
	s.see("0 tasks, 1 turn, ")
	s.see("? [y/n] ")
	s.hit("n" + enter)
	s.see("✗ 1 exec_command: deny")
	s.see("> ")
	s.hit(up + enter) // the same again
	s.see(`? [y/n] `)
	s.hit("y" + enter)
	s.see("← 2 exec_command")
	s.see("> ")
	s.hit("/mode allow-all" + enter)
	s.see("approval mode: allow-all")
	s.see("> ")
	s.hit("$ echo unasked" + enter)
	s.see("unasked: exit code 0")
	s.see("> ")
	s.hit(ctrlD)
	s.see("is kept; continue with")
	s.ends(0)
}

// Who comes back sees what was said, is asked what waits, and goes on; a line joins what runs.
func TestChatResumes(t *testing.T) {
	b := newBusySession(t)
	b.await("a question", func(s shown) bool { return len(s.Pending) == 1 })
	s := sitDown(t, []string{"BRAID_SERVER=" + b.url}, "chat", "--session", "s")
	s.see("session s on shell/demo, approval mode always-ask")
	s.see("> $ echo one")
	s.see("→ 1 exec_command")
	s.see("a task runs")
	s.see(`allow exec_command {"command":"echo one"} ? [y/n] `)
	s.hit("/mode allow-all" + enter) // decides on what waits, too
	s.see("one: exit code 0")
	s.see("> ")
	goOn := filepath.Join(t.TempDir(), "go-on")
	s.hit("$ echo first; until test -e " + goOn + "; do sleep 0.05; done" + enter)
	s.see("first\r\n")
	s.hit("$ echo joined" + enter)
	b.await("it joined", func(s shown) bool { return len(s.Queue) == 1 })
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.see("a queued prompt: ")
	s.see("joined: exit code 0")
	s.see("> ")
	s.hit("/quit" + enter)
	s.ends(0)

	// The last three tasks are shown, the others told of.
	s = sitDown(t, []string{"BRAID_SERVER=" + b.url}, "chat", "--session", "s")
	s.see("> $ echo one")
	s.see("> $ echo first; until")
	s.see("joined: exit code 0")
	s.see("> ")
	s.hit("several\nlines" + enter) // as two prompts, since they are not pasted at once
	s.see("several")
	s.see("I am a demonstration")
	s.see("> lines")
	s.see("I am a demonstration")
	s.see("> ")
	s.hit("\x1b[200~$ echo pasted\n$ echo at once\x1b[201~" + enter)
	s.see("pasted: exit code 0")
	s.see("at once: exit code 0")
	s.see("> ")
	s.hit(ctrlD)
	s.ends(0)
}

// Somebody else decides, or ends the session, while the question stands.
func TestChatIsNotAlone(t *testing.T) {
	b := newBusySession(t)
	s := sitDown(t, []string{"BRAID_SERVER=" + b.url}, "chat", "--session", "s")
	s.see("? [y/n] ")
	c := (&serverFlags{url: b.url}).client()
	defer c.Close()
	info, err := c.Session("s").Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Session("s").Deny(context.Background(), info.Pending[0].ToolCallID, ""); err != nil {
		t.Fatal(err)
	}
	s.see("✗ 1 exec_command: deny")
	s.see("> ")

	// A prompt waits for somebody else's task; taken back, it leaves that alone.
	if _, err := c.Session("s").Start(context.Background(), client.Prompt("$ echo theirs")); err != nil {
		t.Fatal(err)
	}
	s.hit("$ echo mine" + enter)
	s.see("the session is busy; task ")
	s.see(`{"command":"echo theirs"} ? [y/n] `)
	s.hit(ctrlC)
	s.see("a queued prompt: withdrawn")
	s.see("> ")
	b.await("theirs still waits", func(s shown) bool { return len(s.Pending) == 1 && len(s.Queue) == 0 })
	s.hit("$ echo mine after all" + enter)
	s.see(`{"command":"echo theirs"} ? [y/n] `)
	s.hit("y" + enter)
	s.see("theirs: exit code 0")
	s.see(`{"command":"echo mine after all"} ? [y/n] `)
	s.hit("y" + enter)
	s.see("mine after all: exit code 0")
	s.see("> ")

	s.hit("$ sleep 600" + enter)
	s.see("? [y/n] ")
	if err := c.Session("s").Delete(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	s.see("! the task ended: aborted")
	s.see("> ")
	s.hit("are you there?" + enter)
	s.see("start the task: ")
	s.see("deleted")
	s.see("> ")
	s.hit(ctrlD)
	s.ends(0)
}

// On a terminal thinking is dim, calls have a colour, and what a model says can't paint.
func TestChatColours(t *testing.T) {
	scripts := t.TempDir()
	script := "turns:\n  - steps:\n      - thinking: let me see\n      - text: \"red \\e[31m, and that is all\"\n"
	if err := os.WriteFile(filepath.Join(scripts, "m.yaml"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sitDown(t, []string{"BRAID_DATA=" + t.TempDir(), "NO_COLOR="}, "chat", "--scripts", scripts, "--model", "scripted/m")
	s.see("> ")
	s.hit("look" + enter)
	s.see("\x1b[2mthinking\x1b[0m")
	s.see("\x1b[2mlet me see")
	s.see(`red \u{1b}[31m, and that is all`)
	s.see("tokens\x1b[0m")
	s.see("> ")
	s.hit(ctrlD)
	s.ends(0)
}
