package trace

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"braid/schemas"
)

// turnFrames are the recorded frames of one turn with two tool calls, as an engine writes them.
func turnFrames(b *script, ref schemas.SessionRef) []Frame {
	output := strings.Repeat("a line of what a tool prints\n", 20)
	return []Frame{
		b.frame(ref, prompt("Please look at the failing test and fix it.")),
		b.frame(ref, &schemas.RequestBegin{}),
		b.frame(ref, schemas.AssistantText(strings.Repeat("I will look at it. ", 10))),
		b.frame(ref, schemas.NewToolCall("c1", "shell", `{"command":"go test ./..."}`), decide("c1")),
		b.frame(ref, schemas.NewToolCall("c2", "shell", `{"command":"git status"}`), decide("c2")),
		b.frame(ref, tokens(1000, 1000), requestEnd(schemas.StopCompleted)),
		b.frame(ref, schemas.NewToolCallOutput("c1", output, schemas.StopCompleted)),
		b.frame(ref, schemas.NewToolCallOutput("c2", output, schemas.StopCompleted)),
	}
}

// benchStore is a store of the operating system's files.
func benchStore(b *testing.B, o Options) *Store {
	s, err := Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// BenchmarkApply applies batches of 64 sessions' turns, interleaved as they come from a shard.
func BenchmarkApply(b *testing.B) {
	for _, mode := range []struct {
		name string
		sync SyncMode
	}{{"lazy", SyncLazy}, {"always", SyncAlways}} {
		b.Run(mode.name, func(b *testing.B) {
			s, script := benchStore(b, Options{Sync: mode.sync}), newScript()
			frames := 0
			for b.Loop() {
				b.StopTimer()
				var batch []Frame
				turns := make([][]Frame, 64)
				for i := range turns {
					turns[i] = turnFrames(script, schemas.SessionRef{Project: "p", ID: fmt.Sprint("s", i)})
				}
				for step := range turns[0] {
					for i := range turns {
						f := turns[i][step]
						f.Sequence = script.sequence - uint64(len(turns)*len(turns[0])) + uint64(len(batch)) + 1
						for line := range f.Entries {
							f.Entries[line].Position.Sequence = f.Sequence
						}
						batch = append(batch, f)
					}
				}
				b.StartTimer()
				if err := s.Apply(context.Background(), 0, batch, script.mark()); err != nil {
					b.Fatal(err)
				}
				frames += len(batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(frames), "ns/frame")
		})
	}
}

// longSession is a store with one session of n turns.
func longSession(b *testing.B, n int) *Store {
	s, script := benchStore(b, Options{}), newScript()
	for range n {
		apply(b, s, script, turnFrames(script, bob)...)
	}
	return s
}

// BenchmarkApplyAtTurn applies one turn to a session of so many: the cost must not grow.
func BenchmarkApplyAtTurn(b *testing.B) {
	for _, n := range []int{20, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, script := benchStore(b, Options{}), newScript()
			for range n {
				apply(b, s, script, turnFrames(script, bob)...)
			}
			for b.Loop() {
				apply(b, s, script, turnFrames(script, bob)...)
			}
		})
	}
}

func BenchmarkMessagesPage(b *testing.B) {
	s := longSession(b, 1000)
	middle := schemas.Position{Sequence: 4000}
	for b.Loop() {
		page, err := s.Messages(context.Background(), bob, middle, Limit{Messages: 100})
		if err != nil || len(page.Entries) != 100 {
			b.Fatal(len(page.Entries), err)
		}
	}
}

func BenchmarkEach(b *testing.B) {
	s := longSession(b, 1000)
	n := 0
	for b.Loop() {
		err := each(context.Background(), s, bob, func(schemas.Entry) error { n++; return nil })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/message")
}

func BenchmarkSession(b *testing.B) {
	s := longSession(b, 1000)
	for b.Loop() {
		if _, found, err := s.Session(bob); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}
