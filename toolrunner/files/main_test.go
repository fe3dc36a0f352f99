package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"braid/schemas"
	"braid/toolrunner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a workspace and what lies beside it.
type bench struct {
	t            *testing.T
	outside, dir string
	workspace    string
}

func newBench(t *testing.T) *bench {
	top := t.TempDir()
	b := &bench{t: t, outside: filepath.Join(top, "secret"), dir: filepath.Join(top, "work")}
	b.put("../secret", "a secret\n")
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b *bench) put(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o777); err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(b.dir, 0o777); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o666); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) link(to, name string) {
	b.t.Helper()
	if err := os.Symlink(to, b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// call runs a tool as a toolrunner does.
func (b *bench) call(name string, arguments any) schemas.ToolResult {
	b.t.Helper()
	text, err := schemas.EncodeJSON(arguments)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, tool := range Tools(Options{Dir: b.dir}) {
		if tool.Definition.Name == name {
			call := toolrunner.Call{Name: name, Arguments: string(text), Workspace: b.workspace}
			return toolrunner.Execute(b.t.Context(), tool, call, toolrunner.Limits{}, toolrunner.Outlet{})
		}
	}
	b.t.Fatalf("there is no tool %s", name)
	return schemas.ToolResult{}
}

// ok expects an output, whole.
func (b *bench) ok(name string, arguments any, want string) {
	b.t.Helper()
	if got := b.call(name, arguments); got.StopReason != schemas.StopCompleted || got.Output != want {
		b.t.Errorf("%s %+v: %s\n%s\nwant\n%s", name, arguments, got.StopReason, got.Output, want)
	}
}

// fails expects an error that says something.
func (b *bench) fails(name string, arguments any, want string) {
	b.t.Helper()
	got := b.call(name, arguments)
	if got.StopReason != schemas.StopFailed || !strings.Contains(got.Output, want) {
		b.t.Errorf("%s %+v: %s\n%s\nwant an error that says\n%s", name, arguments, got.StopReason, got.Output, want)
	}
	if strings.Contains(got.Output, "a secret") {
		b.t.Errorf("%s %+v tells the secret", name, arguments)
	}
}
