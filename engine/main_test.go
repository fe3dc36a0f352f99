package engine

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// testTime is how long what has to come may take: a dozen tests at once, under the race detector, on a
// machine that has other things to do, take a minute for what takes one alone two seconds.
const testTime = 2 * time.Minute

func TestMain(m *testing.M) {
	// Tests run beside one another mostly wait for the broker's clocks, not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
