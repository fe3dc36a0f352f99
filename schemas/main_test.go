package schemas_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// start is a moment for messages whose time does not matter.
var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
