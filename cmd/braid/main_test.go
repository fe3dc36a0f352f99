package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"braid/internal/cli"
)

// The command line is tested as people use it: testdata/script holds one session of a shell each.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"braid": func() {
			ctx, stop := cli.OnSignal(context.Background())
			code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
			stop()
			os.Exit(code)
		},
	})
}

// leakChecked runs the tests, then looks for goroutines that they left.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() (code int) {
	goleak.VerifyTestMain(l.m, goleak.Cleanup(func(verdict int) { code = verdict }))
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("BRAID_DATA", e.WorkDir+"/data")
			seed, err := filepath.Abs("testdata/first-seed-trace.jsonl")
			e.Setenv("SEED_TRACE", seed)
			return err
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
