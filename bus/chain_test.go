package bus

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestChainFeed(t *testing.T) {
	const e = "e"
	at := Point{Sequence: 10, Fence: 5, N: 2}
	for _, row := range []struct {
		name     string
		at       Point
		header   FrameHeader
		sequence uint64
		want     Verdict
	}{
		{"the next number under the fence", at, FrameHeader{Epoch: e, Fence: 5, N: 3, Prev: 10}, 12, Take},
		{"the same frame again", at, FrameHeader{Epoch: e, Fence: 5, N: 2, Prev: 8}, 10, Duplicate},
		{"an earlier frame, late", at, FrameHeader{Epoch: e, Fence: 5, N: 1, Prev: 5}, 8, Duplicate},
		{"a second copy, stored later", at, FrameHeader{Epoch: e, Fence: 5, N: 2, Prev: 8}, 13, Duplicate},
		{"a number was skipped", at, FrameHeader{Epoch: e, Fence: 5, N: 4, Prev: 12}, 13, Gap},
		{"an older fence", at, FrameHeader{Epoch: e, Fence: 4, N: 9, Prev: 9}, 12, Duplicate},
		{"a newer owner that read the same end", at, FrameHeader{Epoch: e, Fence: 11, N: 1, Prev: 10}, 12, Take},
		{"a newer owner after frames that were missed", at, FrameHeader{Epoch: e, Fence: 12, N: 1, Prev: 11}, 13, Gap},
		{"a newer owner, its first frame missed", at, FrameHeader{Epoch: e, Fence: 11, N: 2, Prev: 12}, 13, Gap},
		{"a newer owner that found the last frame expired", at, FrameHeader{Epoch: e, Fence: 11, N: 1, Prev: 9}, 12, Expired},
		{"another epoch", at, FrameHeader{Epoch: "f", Fence: 5, N: 3, Prev: 10}, 12, Resync},
		{"a newer fence at a sequence given out before", at, FrameHeader{Epoch: e, Fence: 7, N: 1, Prev: 5}, 9, Resync},
		{"the first frame of a session", Point{}, FrameHeader{Epoch: e, Fence: 1, N: 1}, 2, Take},
		{"not the first frame of a session", Point{}, FrameHeader{Epoch: e, Fence: 1, N: 2, Prev: 2}, 3, Gap},
		{"known by sequence, next", Point{Sequence: 10}, FrameHeader{Epoch: e, Fence: 5, N: 7, Prev: 10}, 11, Take},
		{"known by sequence, old", Point{Sequence: 10}, FrameHeader{Epoch: e, Fence: 5, N: 6, Prev: 8}, 10, Duplicate},
		{"known by sequence, later", Point{Sequence: 10}, FrameHeader{Epoch: e, Fence: 5, N: 9, Prev: 12}, 14, Gap},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := NewChain(e, row.at)
			if got := c.Feed(row.header, row.sequence); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
			moved := c.Last() != row.at
			if taken := row.want == Take || row.want == Expired; taken && c.Last() != (Point{row.sequence, row.header.Fence, row.header.N}) {
				t.Errorf("taken, yet the place is %+v", c.Last())
			} else if !taken && moved && c.Last().Sequence != row.sequence {
				t.Errorf("not taken, yet the place is %+v", c.Last())
			}
		})
	}
}

func TestChainEnds(t *testing.T) {
	taken := func(headers ...FrameHeader) *Chain {
		c := NewChain("e", Point{})
		for i, h := range headers {
			h.Epoch, h.Fence, h.N, h.Prev = "e", 1, uint64(i+1), c.Last().Sequence
			c.Feed(h, uint64(10*(i+1)))
		}
		return c
	}
	recorded, live := FrameHeader{Recorded: true}, FrameHeader{}
	for _, row := range []struct {
		name  string
		chain *Chain
		ends  Ends
		want  Verdict
	}{
		{"everything was taken", taken(recorded, live), Ends{Log: 10, Live: 20}, Take},
		{"the last live frame has expired", taken(recorded, live), Ends{Log: 10}, Take},
		{"a recorded frame follows", taken(recorded, live), Ends{Log: 30, Live: 20}, Gap},
		{"a live frame follows", taken(recorded, live), Ends{Log: 10, Live: 30}, Gap},
		{"a recorded frame is gone", taken(recorded, recorded), Ends{Log: 10}, Resync},
		{"everything is gone", taken(recorded), Ends{}, Resync},
		{"a live frame is gone and its sequence given out again", taken(recorded, live), Ends{Log: 19}, Resync},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.chain.Ends(row.ends); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestChainLog(t *testing.T) {
	c := NewChain("e", Point{})
	for _, row := range []struct {
		name     string
		fence, n uint64
		sequence uint64
		want     Verdict
	}{
		{"the first", 1, 1, 2, Take},
		{"live frames between don't matter", 1, 5, 9, Take},
		{"a second copy of it", 1, 5, 11, Duplicate},
		{"an earlier number, late", 1, 4, 12, Duplicate},
		{"the next owner", 20, 1, 21, Take},
		{"the owner before, late", 1, 6, 22, Duplicate},
		{"read again", 20, 1, 21, Duplicate},
		{"on", 20, 2, 23, Take},
	} {
		if got := c.Log(FrameHeader{Fence: row.fence, N: row.n, Recorded: true}, row.sequence); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

// storedFrame is a frame in a model of a stream.
type storedFrame struct {
	header   FrameHeader
	sequence uint64
	copy     bool // of the frame before
	expired  bool
}

// drawStream makes up a session's history: owners that follow one another, frames stored twice,
// live frames that expire before or after the next owner looks.
func drawStream(t *rapid.T) []storedFrame {
	var stream []storedFrame
	sequence := uint64(rapid.IntRange(0, 5).Draw(t, "foreign"))
	for range rapid.IntRange(1, 4).Draw(t, "owners") {
		sequence += uint64(rapid.IntRange(1, 3).Draw(t, "step"))
		fence := sequence
		prev := uint64(0)
		for i := range stream { // the owner reads the true ends
			if !stream[i].header.Recorded && rapid.IntRange(0, 5).Draw(t, "expires") == 0 {
				stream[i].expired = true
			}
			if !stream[i].expired {
				prev = stream[i].sequence
			}
		}
		for n := range rapid.IntRange(0, 6).Draw(t, "frames") {
			sequence += uint64(rapid.IntRange(1, 3).Draw(t, "step"))
			h := FrameHeader{Epoch: "e", Fence: fence, N: uint64(n + 1), Prev: prev, Recorded: rapid.Bool().Draw(t, "recorded")}
			stream = append(stream, storedFrame{header: h, sequence: sequence})
			prev = sequence
			if rapid.IntRange(0, 9).Draw(t, "twice") == 0 {
				sequence++
				stream = append(stream, storedFrame{header: h, sequence: sequence, copy: true})
				if rapid.Bool().Draw(t, "acknowledged the copy") {
					prev = sequence
				}
			}
		}
	}
	return stream
}

// Whatever the feed does, a reader that fills gaps from the stream takes every frame that still
// exists once, in order, and knows of every one that is missing.
func TestChainPutsAnyDeliveryInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := drawStream(t)
		var feed []storedFrame // a frame may be missing, late, or come twice
		for _, f := range stream {
			for range rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2}).Draw(t, "deliveries") {
				at := len(feed)
				if at > 0 && rapid.IntRange(0, 5).Draw(t, "late") == 0 {
					at = rapid.IntRange(max(0, at-3), at).Draw(t, "at")
				}
				feed = slices.Insert(feed, at, f)
			}
		}
		r := modelReader{chain: NewChain("e", Point{}), stream: stream}
		for _, f := range feed {
			r.receive(t, f)
		}
		if len(stream) > 0 {
			r.fill(stream[len(stream)-1].sequence) // the tail mark
		}
		r.audit(t)
	})
}

// modelReader reads as a follower does.
type modelReader struct {
	chain   *Chain
	stream  []storedFrame
	taken   []storedFrame
	flagged []bool
}

func (r *modelReader) receive(t *rapid.T, f storedFrame) {
	switch v := r.chain.Feed(f.header, f.sequence); v {
	case Take, Expired:
		r.take(f, v)
	case Gap:
		r.fill(f.sequence)
		if r.chain.Last().Sequence < f.sequence && !f.expired {
			t.Fatalf("the stream was read to %d and the reader stands at %d", f.sequence, r.chain.Last().Sequence)
		}
	case Resync:
		t.Fatalf("resync at %d %+v, the reader stands at %+v", f.sequence, f.header, r.chain.Last())
	}
}

func (r *modelReader) take(f storedFrame, v Verdict) {
	r.taken = append(r.taken, f)
	r.flagged = append(r.flagged, v == Expired)
}

func (r *modelReader) fill(upTo uint64) {
	from := r.chain.Last().Sequence
	for _, f := range r.stream {
		if f.expired || f.sequence <= from || f.sequence > upTo {
			continue
		}
		if v := r.chain.Stream(f.header, f.sequence); v != Duplicate {
			r.take(f, v)
		}
	}
}

func (r *modelReader) audit(t *rapid.T) {
	type number struct{ fence, n uint64 }
	seen := map[number]bool{}
	for i, f := range r.taken {
		if i > 0 && f.sequence <= r.taken[i-1].sequence {
			t.Fatalf("frame %d was taken after %d", f.sequence, r.taken[i-1].sequence)
		}
		if seen[number{f.header.Fence, f.header.N}] {
			t.Fatalf("frame %d of fence %d was taken twice", f.header.N, f.header.Fence)
		}
		seen[number{f.header.Fence, f.header.N}] = true
	}
	for _, f := range r.stream {
		if !f.expired && !seen[number{f.header.Fence, f.header.N}] {
			t.Fatalf("frame %d exists and was not taken", f.sequence)
		}
	}
	i := 0               // of the frames taken
	missing := uint64(0) // the first frame missing since the last one taken
	for _, f := range r.stream {
		switch {
		case i < len(r.taken) && r.taken[i].sequence == f.sequence:
			// What had expired before the next owner looked never was, to that owner and its
			// readers: its first frame names the frame before.
			never := f.header.N == 1 && f.header.Prev < missing
			if missing > 0 && !never && !r.flagged[i] {
				t.Fatalf("frames before %d are missing, unnoticed", f.sequence)
			}
			missing = 0
			i++
		case !f.copy && !seen[number{f.header.Fence, f.header.N}] && missing == 0:
			missing = f.sequence
		}
	}
}
