package schedule

import (
	"flag"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"braid/engine"
	"braid/engine/internal/session"
	"braid/engine/internal/timelinetest"
)

var (
	orders = flag.Int("orders", 0, "how many orders of each story are played, strict and free; 0: 40, or 5 with -short")
	seed   = flag.Uint64("seed", 1, "which")
	named  = flag.String("story", "", "the story to play again, as free/NAME or strict/NAME")
	again  = flag.String("order", "", "its order, as a failure printed it")
)

// Models are coroutines: none may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stories are all timelines, each strict and free, with the core as it is.
func stories(t testing.TB) (all []*story) {
	t.Helper()
	archives, err := timelinetest.Load("../../testdata/timelines/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for name, archive := range archives {
		models, err := timelinetest.Models(archive)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cues, err := timelinetest.Parse(timelinetest.Section(archive, "script"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		prices, err := engine.ParsePrices([]byte(timelinetest.Section(archive, "prices.yaml")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		one := &story{name: name, archive: archive, models: models, prices: prices, cues: cues, step: (*session.State).Step}
		if why := unplayable(one); why != "" {
			t.Fatalf("%s can't be played: %s", name, why)
		}
		free := *one
		free.free = true
		all = append(all, one, &free)
	}
	return all
}

// String is the story's name in flags and messages.
func (t *story) String() string {
	if t.free {
		return "free/" + t.name
	}
	return "strict/" + t.name
}

// Whatever the order, the stream is lawful, the state is the fold of the log, models are sent what the
// log makes of it, and what a file says that order can't change is so.
func TestStoriesInAnyOrder(t *testing.T) {
	most := *orders
	switch {
	case most > 0:
	case testing.Short():
		most = 5
	default:
		most = 40
	}
	began := time.Now()
	var played, distinct, steps, explained atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, one := range stories(t) {
			t.Run(one.String(), func(t *testing.T) {
				t.Parallel()
				var seen fingerprints
				for i := range most {
					choose := draw(*seed<<32 + uint64(i))
					if i == 0 {
						choose = replay(nil) // as the file has it
					}
					done, _, err := one.run(choose)
					steps.Add(int64(len(done)))
					switch {
					case err == nil:
					case explained.Add(1) > 5: // more of them tell no more
						t.Fatal(err)
					default:
						t.Fatalf("%v\n%s", err, explain(one, done))
					}
					seen.add(done)
				}
				played.Add(int64(most))
				distinct.Add(int64(len(seen.seen)))
				t.Logf("%d orders, %d of them distinct", most, len(seen.seen))
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d orders, %d of them distinct, %d steps, in %v: %.0f orders a second",
		played.Load(), distinct.Load(), steps.Load(), took.Round(time.Millisecond), float64(played.Load())/took.Seconds())
}

// explain makes a failing order short, and tells what happens in it.
func explain(one *story, o order) string {
	o = shrink(o, func(less order) bool {
		_, _, err := one.run(replay(less))
		return err != nil
	})
	done, end, err := one.run(replay(o))
	var b strings.Builder
	b.WriteString("play it again with -run Replay -v -story " + one.String() + " -order '" + o.String() + "'\n")
	b.WriteString("what happens: " + done.String() + "\n")
	if err != nil {
		b.WriteString("what fails: " + err.Error() + "\n")
	}
	if end != nil {
		b.WriteString("the log: \n" + strings.Join(end.lines, "\n"))
	}
	return b.String()
}

// One order, again.
func TestReplay(t *testing.T) {
	if *named == "" {
		t.Skip("no -story")
	}
	one := storyNamed(t, *named)
	if one == nil {
		t.Fatalf("there is no story %s", *named)
	}
	done, end, err := one.run(replay(parseOrder(*again)))
	t.Logf("what happens: %s", done)
	if end != nil {
		t.Logf("the log:\n%s", strings.Join(end.lines, "\n"))
	}
	if err != nil {
		t.Error(err)
	}
}

// storyNamed is one of the stories; nil if there is none of that name.
func storyNamed(t testing.TB, name string) *story {
	t.Helper()
	all := stories(t)
	if i := slices.IndexFunc(all, func(s *story) bool { return s.String() == name }); i >= 0 {
		return all[i]
	}
	return nil
}
