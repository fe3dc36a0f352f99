package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/internal/cli"
)

// samples are values that a flag takes and that are no default, by its type.
var samples = map[string]string{
	"string": "x", "file": "x", "stringSlice": "x", "stringArray": "x", "bool": "true",
	"int": "3", "int64": "3", "duration": "3m0s", "USD": "3",
}

// Whatever flags a command has, each can be given in all three places, and means the same.
func TestEveryFlagInEveryPlace(t *testing.T) {
	for _, name := range os.Environ() {
		if name, _, _ = strings.Cut(name, "="); strings.HasPrefix(name, cli.EnvPrefix) {
			t.Setenv(name, "")
		}
	}
	for _, cmd := range append(configCommand().Commands(), configCommand()) {
		section := cmd.Name()
		flags := 0
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "config" || f.Name == "help" {
				return
			}
			flags++
			t.Run(section+"/"+f.Name, func(t *testing.T) { checkPlaces(t, section, f) })
		})
		if flags < 5 {
			t.Errorf("%s has only %d flags", section, flags)
		}
	}
}

// Whoever looks for a setting finds it in the documents, under its name.
func TestEveryFlagIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Configuration\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, cmd := range configCommand().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(section, "`--"+f.Name+"`") && !strings.Contains(section, "`--"+f.Name+" ") {
				t.Errorf("the configuration section of docs/operations.md does not name --%s of %s", f.Name, cmd.Name())
			}
		})
	}
}

func checkPlaces(t *testing.T, section string, f *pflag.Flag) {
	value, ok := samples[f.Value.Type()]
	if !ok {
		t.Fatalf("--%s is of type %s, which samples knows no value of", f.Name, f.Value.Type())
	}
	command := []string{"config", section}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if section == "config" {
		command, section = []string{"config"}, cli.SectionDev
	}
	if err := os.WriteFile(file, []byte(section+":\n  "+f.Name+": "+value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := func(want string, args ...string) string {
		t.Helper()
		code, stdout, stderr := braid(t, append(command, args...)...)
		if code != cli.ExitOK {
			t.Fatal(stderr)
		}
		for line := range strings.Lines(stdout) {
			if said, from, _ := strings.Cut(line, "#"); strings.HasPrefix(said, f.Name+":") {
				if strings.TrimSpace(from) != want {
					t.Errorf("it is from %s, want %s", from, want)
				}
				return strings.TrimSpace(said)
			}
		}
		t.Fatalf("it is not set: %s", stdout)
		return ""
	}
	typed := shown("the command line", "--"+f.Name+"="+value)
	if got := shown(file+":2", "--config", file); got != typed {
		t.Errorf("in a file it is %s, not %s", got, typed)
	}
	t.Setenv(cli.EnvName(f.Name), value)
	if got := shown(cli.EnvName(f.Name), "--config", file); got != typed {
		t.Errorf("in the environment it is %s, not %s", got, typed)
	}
}

// No two flags of one name differ in kind where that could surprise: what one process takes from the
// environment another must be able to take as well.
func TestFlagsOfOneNameAgree(t *testing.T) {
	types := map[string]string{}
	visit := func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind := strings.TrimSuffix(strings.TrimSuffix(f.Value.Type(), "Slice"), "Array")
			if first, ok := types[f.Name]; ok && first != kind {
				t.Errorf("--%s of %s is a %s, elsewhere a %s", f.Name, cmd.Name(), kind, first)
			}
			types[f.Name] = kind
		})
	}
	for _, cmd := range configCommand().Commands() {
		visit(cmd)
	}
}
