package systemtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	roundsFlag  = flag.Int("rounds", 1, "strike each blow so often")
	chaosFlag   = flag.Duration("chaos", 10*time.Second, "how long to strike at random; 0 leaves it out")
	pauseFlag   = flag.Duration("pause", 2*time.Second, "the longest pause between two random strikes")
	manyFlag    = flag.Int("sessions", 6, "sessions in the random strikes' world")
	clusterFlag = flag.Bool("cluster", false, "strike at random on a broker of three nodes")
	seedFlag    = flag.Uint64("seed", 0, "what random choices follow from; 0 takes another one each time")
)

// binaries is the directory of the built commands. TestMain sets it before any test runs.
var binaries string

// worldsAtOnce is how many tests run at once: they mostly wait.
const worldsAtOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set(worldsAtOnce); err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "systemtest")
	if err != nil {
		panic(err)
	}
	binaries = dir
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// build makes the commands.
func build(dir string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if os.Getenv("BRAID_RACE") == "1" {
		args = append(args, "-race")
	}
	for _, name := range []string{"engine", "toolrunner", "gateway", "braid"} {
		args = append(args, "braid/cmd/"+name)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the commands: %w\n%s", err, out)
	}
	return nil
}
