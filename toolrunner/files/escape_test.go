//go:build unix

package files

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// Every way out that a path can name, for every tool.
func TestNothingLeadsOut(t *testing.T) {
	b := newBench(t)
	b.put("sub/in", "x\n")
	b.link("../secret", "relative")
	b.link(b.outside, "absolute")
	b.link("..", "parent")
	b.link(filepath.Dir(b.outside), "far")
	b.link("sub/../../secret", "winding")
	b.link("loop", "loop")
	b.link(b.path("sub"), "home") // absolute links are not followed, wherever they lead
	for _, out := range []string{
		"../secret", "sub/../../secret", b.outside, "/etc/passwd", b.dir + "/../secret", "relative", "absolute",
		"parent/secret", "far/secret", "winding", "sub/../parent/secret", "loop", "home/in", "a\x00b",
	} {
		b.fails(ReadName, readArguments{Path: out}, "")
		b.fails(WriteName, writeArguments{Path: out, Content: "taken"}, "")
		b.fails(EditName, editArguments{Path: out, OldText: "secret", NewText: "taken"}, "")
		b.fails(ListName, listArguments{Path: out, Recursive: true}, "")
		b.fails(SearchName, searchArguments{Path: out, Pattern: "."}, "")
	}
	b.fails(ListName, listArguments{Path: "parent"}, "parent leads out of the workspace")
	b.fails(WriteName, writeArguments{Path: "parent/new", Content: "x"}, "leads out of the workspace")
	b.fails(ReadName, readArguments{Path: "/etc/passwd"}, "/etc/passwd is outside the workspace, which is "+b.dir)
	if text, err := os.ReadFile(b.outside); err != nil || string(text) != "a secret\n" {
		t.Errorf("the secret is %q, %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(b.outside)); err != nil || len(entries) != 2 {
		t.Errorf("beside the workspace: %v, %v", entries, err)
	}
	if got := b.call(SearchName, searchArguments{Pattern: "secret"}); strings.Contains(got.Output, "a secret") {
		t.Errorf("searching finds %s", got.Output)
	}
}

// Any path, however it is put together, stays inside.
func TestAnyPathStaysInside(t *testing.T) {
	b := newBench(t)
	b.put("d/f", "x\n")
	b.link("..", "d/up")
	b.link("up", "d/up2")
	b.link("../..", "d/out")
	part := rapid.SampledFrom([]string{"..", ".", "d", "up", "up2", "out", "f", "secret", "", "work"})
	rapid.Check(t, func(rt *rapid.T) {
		name := strings.Join(rapid.SliceOfN(part, 1, 7).Draw(rt, "path"), "/")
		if rapid.Bool().Draw(rt, "absolute") {
			name = b.dir + "/" + name
		}
		if got := b.call(ReadName, readArguments{Path: name}); strings.Contains(got.Output, "a secret") {
			rt.Fatalf("%s is read", name)
		}
	})
}

// A link that leads out of the workspace in one moment and stays inside in the next opens no door.
func TestLinksThatChangeOpenNoDoor(t *testing.T) {
	b := newBench(t)
	b.put("real/secret", "harmless\n")
	b.link("real", "door")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for {
			for _, to := range []string{"..", "real"} {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Symlink(to, b.path("next"))
				_ = os.Rename(b.path("next"), b.path("door"))
			}
		}
	})
	for inside, outside, tries := 0, 0, 0; inside < 10 || outside < 10; tries++ {
		if tries == 5000 {
			t.Skipf("the door was seen %d times inside, %d times outside", inside, outside)
		}
		got := b.call(ReadName, readArguments{Path: "door/secret"}).Output
		switch {
		case strings.Contains(got, "a secret"):
			t.Fatal("the secret is read")
		case strings.Contains(got, "harmless"):
			inside++
		case strings.Contains(got, "leads out of the workspace"):
			outside++
		}
		if tries%10 == 0 {
			b.call(WriteName, writeArguments{Path: "door/secret", Content: "harmless\n"})
		}
	}
	if text, err := os.ReadFile(b.outside); err != nil || string(text) != "a secret\n" {
		t.Errorf("the secret is %q, %v", text, err)
	}
}

// A pipe would keep whoever opens it waiting.
func TestPipesAreNotOpened(t *testing.T) {
	b := newBench(t)
	if err := syscall.Mkfifo(b.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.fails(ReadName, readArguments{Path: "pipe"}, "pipe is not a regular file")
	b.fails(WriteName, writeArguments{Path: "pipe", Content: "x"}, "pipe is not a regular file")
	b.fails(EditName, editArguments{Path: "pipe", OldText: "x", NewText: "y"}, "pipe is not a regular file")
	b.ok(SearchName, searchArguments{Pattern: "x"}, "[no match in 0 files]")
}

func TestTheWorkspaceIsTheSessions(t *testing.T) {
	b := newBench(t)
	b.put("one/f", "one\n")
	b.put("two/f", "two\n")
	b.workspace = "one"
	b.ok(ReadName, readArguments{Path: "f"}, "one\n")
	b.fails(ReadName, readArguments{Path: "../two/f"}, "outside the workspace")
	b.workspace = b.path("two")
	b.ok(ReadName, readArguments{Path: "f"}, "two\n")
	b.workspace = "three"
	b.fails(WriteName, writeArguments{Path: "f", Content: "x"}, "the workspace "+b.path("three")+" does not exist on this toolrunner")
	if _, err := os.Stat(b.path("three")); err == nil {
		t.Error("it was made")
	}
}
