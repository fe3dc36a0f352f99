package engine

import (
	"testing"

	"braid/bus/bustest"
	"braid/schemas"
)

// A person need not wait for what was announced. The wait here would outlast the test.
func TestRetryNow(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": `
turns:
  - attempts:
      - steps: [{fail: {message: not now, status_code: 429, retry_after: 4m}}]
      - steps: [{text: done}]
`})
	h.engine("e1", func(o *Options) { o.Jitter = func() float64 { return 0.5 } })
	h.create("scripted/m", schemas.ApproveAll)
	retry := schemas.Command{ID: "r0", Type: schemas.CommandRetryNow, Session: ref}
	if o := h.send(retry); o.Code != schemas.CodeNotRunning {
		t.Errorf("at rest: %+v", o)
	}
	h.task("t", "go")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.RequestEnd)
		if ok && p.RetryInMS != 270_000 {
			t.Errorf("announced %d ms", p.RetryInMS)
		}
		return ok
	})
	retry.ID = "r1"
	if o := h.send(retry); o.Code != schemas.CodeApplied {
		t.Fatalf("retry now: %+v", o)
	}
	expect(t, transcript(h.follow(taskEnded)), "end failed", "end completed", "task completed")
}
