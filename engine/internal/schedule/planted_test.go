package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"braid/engine/internal/session"
	"braid/schemas"
)

// What is planted here are mistakes that the story's own order hides. Some order shows each; what is
// left of that order when it is made shorter is short, and fails without none of its steps.
func TestPlantedMistakesAreFoundAndMadeShort(t *testing.T) {
	for name, tt := range map[string]struct {
		story  string
		step   func(base stepper) stepper
		most   int // steps that may be left
		breach string
	}{
		"outputs go to the model in the order in which tools end": {
			"free/either-output-order-as-called", inOrderOfEnd, 5, "message 4 of the input",
		},
		"a result that comes before request_end is lost": {
			"free/either-request-end-before-outputs", losesEarlyResults, 5, "nothing can happen",
		},
		"a new owner starts again what runs": {
			"free/takeover-while-asked-after-request-end", startsAgain, 1, "started twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			one := storyNamed(t, tt.story)
			if one == nil {
				t.Fatal("there is no such story")
			}
			if _, _, err := one.run(replay(nil)); err != nil {
				t.Fatalf("the story itself: %v", err)
			}
			one.step = tt.step(one.step)
			fails := func(o order) bool {
				_, _, err := one.run(replay(o))
				return err != nil
			}
			found := find(one, 200)
			if found == nil {
				t.Fatal("no order shows it")
			}
			short := shrink(found, fails)
			if len(short) > tt.most {
				t.Errorf("of %d steps %d are left: %s", len(found), len(short), short)
			}
			_, _, err := one.run(replay(parseOrder(short.String())))
			if err == nil || !strings.Contains(err.Error(), tt.breach) {
				t.Errorf("played again, as it is printed: %v", err)
			}
			for i := range short {
				if fails(slices.Delete(slices.Clone(short), i, i+1)) {
					t.Errorf("step %d of %s is not needed", i, short)
				}
			}
			t.Logf("of %d steps %d are left: %s", len(found), len(short), short)
		})
	}
}

// find draws orders until one fails.
func find(one *story, most int) order {
	for i := range most {
		if done, _, err := one.run(draw(uint64(i))); err != nil {
			return done
		}
	}
	return nil
}

// inOrderOfEnd hands the outputs at the end of an input over in the order in which they came.
func inOrderOfEnd(base stepper) stepper {
	came, ends := map[string]int{}, 0
	return func(s *session.State, now time.Time, e session.Event) session.Output {
		out := base(s, now, e)
		for _, m := range out.Messages {
			if p, ok := m.Payload.(*schemas.ToolCallOutput); ok {
				ends++
				came[p.ToolCallID] = ends
			}
		}
		for i, effect := range out.Effects {
			call, ok := effect.(session.CallModel)
			if !ok {
				continue
			}
			call.Input = slices.Clone(call.Input)
			slices.SortStableFunc(call.Input, func(a, b schemas.Message) int {
				p, ok := a.Payload.(*schemas.ToolCallOutput)
				q, both := b.Payload.(*schemas.ToolCallOutput)
				if !ok || !both {
					return 0
				}
				return came[p.ToolCallID] - came[q.ToolCallID]
			})
			out.Effects[i] = call
		}
		return out
	}
}

// losesEarlyResults does not hear of tools that end while the model speaks.
func losesEarlyResults(base stepper) stepper {
	return func(s *session.State, now time.Time, e session.Event) session.Output {
		if _, ended := e.(session.ToolEnded); ended && s.Task != nil && s.Task.Request.Open {
			return session.Output{}
		}
		return base(s, now, e)
	}
}

// startsAgain takes the calls that an owner before had allowed for its own.
func startsAgain(base stepper) stepper {
	return func(s *session.State, now time.Time, e session.Event) session.Output {
		out := base(s, now, e)
		for i, effect := range out.Effects {
			if start, ok := effect.(session.StartTool); ok {
				start.Resumed = false
				out.Effects[i] = start
			}
		}
		return out
	}
}
