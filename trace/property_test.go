package trace

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// Whatever the stream holds, however it is cut into batches, delivered again, and interrupted by
// crashes: the store is what a prefix of the stream amounts to, and in the end all of it.
func TestStoreFollowsTheStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, script: newScript(), fs: vfs.NewCrashableMem()}
		w.open()
		defer func() { w.close() }()
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch w.pick(10) {
			case 0:
				w.close()
				w.open()
			case 1:
				w.crash()
			case 2:
				if err := w.store.Reset(0); err != nil {
					t.Fatal(err)
				}
			default:
				w.deliver()
			}
		}
		w.deliverAll()
		if mark := w.check(); len(w.stream) > 0 && mark.Sequence != w.stream[len(w.stream)-1].Sequence {
			t.Fatalf("applied up to %d of %d", mark.Sequence, w.script.sequence)
		}
	})
}

// world is a stream, a projector and a store.
type world struct {
	t      *rapid.T
	script *script
	stream []Frame
	fs     *vfs.MemFS
	store  *Store
}

func (w *world) pick(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "pick") }

func (w *world) open() {
	s, err := Open("trace", Options{FS: w.fs, MemTableBytes: 64 << 10})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
	w.check()
}

func (w *world) close() {
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// crash goes on with what a power cut leaves of the files.
func (w *world) crash() {
	seed := uint64(w.pick(1000))
	clone := w.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: []int{0, 10, 100}[w.pick(3)],
		RNG:                 rand.New(rand.NewPCG(seed, 1)),
	})
	w.close()
	w.fs = clone
	w.open()
}

// deliver lets the stream grow, and hands the store a batch that begins at or before the frame
// it needs next.
func (w *world) deliver() {
	for range w.pick(8) {
		w.stream = append(w.stream, w.script.randomFrame(w.pick))
	}
	next := w.next()
	from := max(0, next-w.pick(5))
	to := min(len(w.stream), next+w.pick(10))
	if from < to {
		w.apply(w.stream[from:to])
	}
	w.check()
}

func (w *world) deliverAll() {
	if rest := w.stream[w.next():]; len(rest) > 0 {
		w.apply(rest)
	}
}

func (w *world) apply(batch []Frame) {
	if err := applyBatch(w.store, batch); err != nil {
		w.t.Fatal(err)
	}
}

// next is the index of the first frame above the store's mark.
func (w *world) next() int {
	mark, _, err := w.store.Applied(0)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, f := range w.stream {
		if f.Sequence > mark.Sequence {
			return i
		}
	}
	return len(w.stream)
}

func (w *world) check() Mark {
	mark, err := check(w.store, w.stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return mark
}
