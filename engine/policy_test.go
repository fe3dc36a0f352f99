package engine

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"braid/bus/bustest"
	"braid/engine/policy"
	"braid/toolrunner"
)

// The script that a policy reads is the one that the built-in shell tool runs.
func TestPolicyKnowsTheShellTool(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p.yaml", []byte("rules: [{name: r, commands: [rm]}]"))
	if err != nil {
		t.Fatal(err)
	}
	exec, err := toolrunner.NewExec(toolrunner.ExecOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	if !strings.Contains(string(exec.Tool().Definition.Parameters), `"required":["command"]`) {
		t.Errorf("the tool takes %s", exec.Tool().Definition.Parameters)
	}
	if v := p.Judge("p", toolrunner.ExecCommandName, `{"command":"rm x"}`); v.Ruling != policy.Forbidden {
		t.Errorf("%+v", v)
	}
}

// An engine says once which policy is in force.
func TestPolicyIsLogged(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p.yaml", []byte("rules: [{name: r, commands: [rm]}]"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	h := newHouse(t, bustest.Single(t), nil)
	e := h.killable("e1", func(o *Options) { o.Policy, o.Log = p, zerolog.New(zerolog.SyncWriter(&out)) })
	e.kill()
	if n := strings.Count(out.String(), `"policy":"p.yaml","rules":1`); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, out.String())
	}
}
