package trace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// childDir, when set, makes the test binary a process that fills the store in that directory
// until it is killed.
const childDir = "TRACE_CHILD_DIR"

// childMain is the main of such a process; false in the process that runs the tests.
func childMain() bool {
	dir := os.Getenv(childDir)
	if dir == "" {
		return false
	}
	s, err := Open(dir, Options{MemTableBytes: smallTables})
	for i, batch := range batches(randomStream(3, 5000), 10) {
		if err == nil {
			err = applyBatch(s, batch)
		}
		if i == 20 {
			fmt.Println("ready")
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed
	fmt.Println("not killed:", err)
	return true
}

// startChild starts one and waits until it holds the store and has filled some of it.
func startChild(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // ends a child that was not killed
		_ = cmd.Wait()    // it was
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	return cmd
}
