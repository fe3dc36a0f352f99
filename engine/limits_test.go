package engine

import (
	"strings"
	"testing"

	"braid/bus/bustest"
	"braid/schemas"
)

// The model makes the same futile call for ever. It is warned, which it does not heed; the engine is
// killed in the middle of the turn that will be one too many, and the next one ends the task.
func TestCase_D26_LoopEndsOnAnotherEngine(t *testing.T) {
	t.Parallel()
	futile := "{tool_call: {name: nonesuch, arguments: '{}'}}"
	script := "turns:\n" + strings.Repeat("  - steps: ["+futile+"]\n", 3) +
		"  - attempts:\n" +
		"      - expect: {input: [{kind: text, contains: '[loop_detected]'}]}\n" +
		"        steps: [" + futile + ", {text: [again, {wait: never}]}]\n" +
		"      - steps: [" + futile + "]\n"
	h := newHouse(t, bustest.Single(t), map[string]string{"m": script})
	first := h.killable("e1", func(o *Options) { o.Timing.Retry = 0.01 })
	h.toolrunner("r1")
	h.limited("scripted/m", schemas.Limits{LoopLimit: 3})
	h.task("t", "go")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.PartialText)
		return ok && strings.Contains(p.Text, "again")
	})
	first.kill()
	h.engine("e2", func(o *Options) { o.Timing.Retry = 0.01 })
	log := h.follow(taskEnded)
	var got []string
	for _, line := range transcript(log) {
		got = append(got, strings.Split(line, " Available")[0])
	}
	const call, refused = "call nonesuch {}", `output There is no tool named "nonesuch".`
	expect(t, got,
		call, "forbidden", refused, "end completed",
		call, "forbidden", refused, "end completed",
		call, "end completed", "forbidden", refused, // it may have been the last, so its decision waited
		call, "owner lost", "end timeout",
		call, "end completed", "forbidden", "output Tool call denied by policy. aborted", "task failed")
	end := log[len(log)-1].Payload.(*schemas.TaskEnd)
	if end.Cause != schemas.CauseLoop {
		t.Errorf("the task ended %+v", end)
	}
}
