package session

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Schedules are cheap here, so many are tried by default; -rapid.checks=N tries more.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "3000"); err != nil {
		panic(err)
	}
	flag.Parse()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}
