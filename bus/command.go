package bus

// Lane is one of the two ways commands reach engines: those that start work wait for room, those
// that control it never do.
type Lane string

// The lanes.
const (
	LaneRun     Lane = "run"
	LaneControl Lane = "ctl"
)
