package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// turnScript has turns of one model step with 20 deltas and two parallel tool calls, and a last
// one that only speaks.
func turnScript(turns int) string {
	var b strings.Builder
	b.WriteString("count: prompt\nturns:\n")
	deltas := strings.Repeat("word ", 20)
	for range turns - 1 {
		fmt.Fprintf(&b, "  - steps:\n      - text: %q\n        deltas: 20\n      - tool_call: {name: noop, arguments: {}}\n      - tool_call: {name: noop, arguments: {}}\n", deltas)
	}
	b.WriteString("  - steps: [{text: done}]\n")
	return b.String()
}

// turnsPerTask is how many turns one prompt runs.
const turnsPerTask = 20

// BenchmarkTurns measures durable turns: one operation is one turn, its model step of 20 deltas,
// two tool calls on a toolrunner process, their outputs stored, the next request begun.
func BenchmarkTurns(b *testing.B) {
	for _, sync := range []string{"always", "lazy"} {
		for _, sessions := range []int{1, 64} {
			b.Run(fmt.Sprintf("sync=%s/sessions=%d", sync, sessions), func(b *testing.B) {
				s := start(b, sync == "always", turnScript(turnsPerTask))
				benchTurns(b, s, sessions)
			})
		}
	}
}

func benchTurns(b *testing.B, s *stack, sessions int) {
	refs := make([]schemas.SessionRef, sessions)
	for i := range refs {
		refs[i] = schemas.SessionRef{Project: "default", ID: fmt.Sprintf("s%d", i)}
		s.create(b, refs[i])
	}
	s.measureTurns(b, refs)
}

// measureTurns runs about b.N turns, spread over the sessions.
func (s *stack) measureTurns(b *testing.B, refs []schemas.SessionRef) {
	b.Helper()
	tasks := max(1, b.N/turnsPerTask/len(refs))
	b.ResetTimer()
	before, began := s.cpu(), time.Now()
	var wg sync.WaitGroup
	for _, ref := range refs {
		wg.Go(func() { s.runTasks(b, ref, "t", tasks) })
	}
	wg.Wait()
	turns := float64(tasks * turnsPerTask * len(refs))
	b.StopTimer()
	b.ReportMetric(turns/time.Since(began).Seconds(), "turns/s")
	b.ReportMetric(float64(s.cpu()-before)/1e6/turns, "cpu-ms/turn")
	b.ReportMetric(0, "ns/op")
}

// runTasks runs prompts one after another, each to its end. Their command ids begin with prefix.
func (s *stack) runTasks(b *testing.B, ref schemas.SessionRef, prefix string, tasks int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	f, err := s.conn.Follow(ctx, ref, bus.FollowOptions{})
	if err != nil {
		b.Error(err)
		return
	}
	defer f.Close()
	for i := range tasks {
		_, err := s.conn.SendCommand(ctx, schemas.Command{
			ID: fmt.Sprintf("%s-%d", prefix, i), Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "go"},
		})
		if err == nil {
			err = awaitEnd(ctx, f)
		}
		if err != nil {
			b.Error(err)
			return
		}
	}
}

func awaitEnd(ctx context.Context, f *bus.Follower) error {
	for {
		ev, err := f.Next(ctx)
		if err != nil {
			return err
		}
		frame, ok := ev.(bus.Frame)
		if !ok {
			continue
		}
		for _, m := range frame.Messages {
			if p, ok := m.Payload.(*schemas.TaskEnd); ok {
				if p.Status != schemas.StopCompleted {
					return fmt.Errorf("the task ended %s: %v", p.Status, p.ErrorInfo)
				}
				return nil
			}
		}
	}
}
