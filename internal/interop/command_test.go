package interop

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	natsserver "github.com/nats-io/nats-server/v2/server"

	"braid/bus"
	"braid/deploy/deploytest"
	"braid/schemas"
)

// command is the command nats of NATS, which watches a session's feed with the rights of a watcher. The
// nil one watches nothing.
type command struct {
	t       *testing.T
	subject string
	mu      sync.Mutex
	lines   []string // that it has printed
}

// startCommand returns when it has subscribed.
func (w *world) startCommand(session string) *command {
	w.t.Helper()
	program := os.Getenv("BRAID_NATS_COMMAND")
	if program == "" {
		w.t.Log("WARNING: NOT TESTED WITH THE COMMAND nats. It is not installed.")
		return nil
	}
	c := &command{t: w.t, subject: "braid.default.feed." + session + ".*"}
	cmd := exec.Command(program, "--server", w.broker.Addr().String(), "--user", "watcher", "--password", deploytest.Password, "sub", c.subject)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+w.t.TempDir()) // no context of whoever runs this
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		printed := bufio.NewScanner(out)
		printed.Buffer(nil, 1<<20)
		for printed.Scan() {
			c.mu.Lock()
			c.lines = append(c.lines, printed.Text())
			c.mu.Unlock()
		}
	})
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait()
	})
	eventually(w.t, "the command nats has subscribed", func() bool {
		all, err := w.broker.Connz(&natsserver.ConnzOptions{Subscriptions: true})
		return err == nil && slices.ContainsFunc(all.Conns, func(i *natsserver.ConnInfo) bool { return slices.Contains(i.Subs, c.subject) })
	})
	return c
}

// frames are the frames that it has printed so far: the header that counts, and the lines.
//
//	[#7] Received on "braid.default.feed.hello.log"
//	Braid-Fence: 3
//	…
//
//	{"timestamp":…
//
// Messages on feed.<session>.tail are none.
func (c *command) frames() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	header, frame, inBody := map[string]string{}, false, false
	for _, line := range c.lines {
		switch {
		case strings.HasPrefix(line, "[#"):
			header, inBody = map[string]string{}, false
			frame = !strings.Contains(line, ".tail")
		case !frame:
		case line == "" && !inBody:
			inBody = true
			all = append(all, printed(header["Nats-Subject"], header["Nats-Sequence"], header["Braid-Epoch"], header["Braid-Fence"], header["Braid-Number"], header["Braid-Prev"]))
		case !inBody:
			name, value, _ := strings.Cut(line, ": ")
			header[name] = value
		case line != "":
			all[len(all)-1] += line + "\n"
		}
	}
	return all
}

// printed is the first line about a frame, of the last token of its subject and some of its header.
func printed(subject string, header ...any) string {
	return subject[strings.LastIndexByte(subject, '.')+1:] + " " + fmt.Sprintln(header...)
}

// verify checks that it printed the stream.
func (c *command) verify(frames []bus.Frame) {
	if c == nil {
		return
	}
	c.t.Helper()
	var want []string
	for _, f := range frames {
		subject := ".live"
		if f.Header.Recorded {
			subject = ".log"
		}
		text := printed(subject, f.Sequence, f.Header.Epoch, f.Header.Fence, f.Header.N, f.Header.Prev)
		for _, m := range f.Messages {
			line, err := schemas.Encode(m)
			if err != nil {
				c.t.Fatal(err)
			}
			text += string(line) + "\n"
		}
		want = append(want, text)
	}
	first := func() []string { all := c.frames(); return all[:min(len(all), len(want))] } // its owner may say more
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the command nats (-stored +printed)\n%s", cmp.Diff(want, first()))
		}
	}()
	eventually(c.t, "the command nats prints the frames, the last one to its end", func() bool { return slices.Equal(want, first()) })
	c.t.Logf("the command nats: %d frames", len(want))
}
