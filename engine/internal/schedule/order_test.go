package schedule

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
)

// order is what happens in a run, a step after the other. It need not say everything: see [replay].
type order []string

func (o order) String() string { return strings.Join(o, " | ") }

func parseOrder(text string) (o order) {
	for step := range strings.SplitSeq(text, "|") {
		if step = strings.TrimSpace(step); step != "" {
			o = append(o, step)
		}
	}
	return o
}

// chooser picks one of the moves that can be made.
type chooser func([]move) move

// replay makes the steps of an order, each as soon as it can be made; until then, and behind the
// last, what comes first in the story happens.
func replay(o order) chooser {
	return func(moves []move) move {
		if len(o) > 0 {
			if i := slices.IndexFunc(moves, func(m move) bool { return m.name == o[0] }); i >= 0 {
				o = o[1:]
				return moves[i]
			}
		}
		return moves[0]
	}
}

// draw picks at random. In each run each kind of step is quick or slow by chance, so that runs
// differ in more than their noise: in one all frames wait long for their acknowledgement, in the next
// a tool is done before the model has begun.
func draw(seed uint64) chooser {
	random := rand.New(rand.NewPCG(seed, seed))
	pace := map[string]int{}
	return func(moves []move) move {
		total := 0
		for _, m := range moves {
			if pace[m.name] == 0 {
				pace[m.name] = []int{1, 8, 64}[random.IntN(3)]
				if m.extra {
					pace[m.name] = 1 + random.IntN(4)
				}
			}
			total += pace[m.name]
		}
		at := random.IntN(total)
		for _, m := range moves {
			if at -= pace[m.name]; at < 0 {
				return m
			}
		}
		return moves[0]
	}
}

// maxSteps is many times what any run needs.
const maxSteps = 1000

// run plays a story to its end and returns what happened; the error says what did not hold.
func (t *story) run(choose chooser) (done order, end *stage, err error) {
	var s *stage
	defer func() {
		p := recover()
		if s != nil {
			end, done = s, s.steps
			if s.owner != nil {
				s.stopModelOf(s.owner)
			}
		}
		switch p := p.(type) {
		case nil:
		case breach:
			err = fmt.Errorf("%s", p.what)
		default:
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	s = newStage(t)
	for s.advance(choose) {
		if len(s.steps) > maxSteps {
			s.fail("the session does not come to rest")
		}
	}
	s.checkEnd()
	return s.steps, s, nil
}

// advance makes one move; false if everything is over.
func (s *stage) advance(choose chooser) bool {
	s.turn()
	moves := s.moves()
	stuck := !slices.ContainsFunc(moves, func(m move) bool { return !m.extra })
	if stuck && s.free {
		moves = append(s.improvise(), moves...)
		stuck = len(moves) == 0 || moves[0].extra
	}
	if stuck {
		if left := s.left(); len(left) > 0 || s.owner != nil {
			s.fail("nothing can happen, and there is left to do: %q", left)
		}
		return false
	}
	m := choose(moves)
	s.steps = append(s.steps, m.name)
	m.do()
	return true
}

// shrink takes away from a failing order what it fails without: halves, then quarters, down to
// single steps, until each that is left is needed. What is printed can be read.
func shrink(o order, fails func(order) bool) order {
	if fails(nil) {
		return nil
	}
	for size := max(len(o)/2, 1); ; {
		cut := false
		for at := 0; at < len(o); {
			less := slices.Concat(o[:at], o[min(at+size, len(o)):])
			if fails(less) {
				o, cut = less, true
			} else {
				at += size
			}
		}
		if size > 1 {
			size /= 2
		} else if !cut {
			return o
		}
	}
}

// fingerprints tells orders apart.
type fingerprints struct {
	seed maphash.Seed
	seen map[uint64]bool
}

func (f *fingerprints) add(o order) {
	if f.seen == nil {
		f.seed, f.seen = maphash.MakeSeed(), map[uint64]bool{}
	}
	f.seen[maphash.String(f.seed, o.String())] = true
}
