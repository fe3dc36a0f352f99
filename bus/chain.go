package bus

// Point is a reader's place in a session: the last frame it has taken. The zero Point stands
// before the first frame. A place known by its sequence alone, such as a cursor, has no Fence.
type Point struct {
	Sequence uint64
	Fence    uint64
	N        uint64
}

// Verdict is what a reader does with a frame.
type Verdict int

// The verdicts.
const (
	// Take: the frame is the next one.
	Take Verdict = iota
	// Duplicate: the frame, or a later one, was taken before; drop it.
	Duplicate
	// Gap: frames stand between the reader's end and this one; read them from the stream.
	Gap
	// Expired: the frame is the next one that exists, but frames before it did exist and can't
	// be read any more; take it, and show only recorded messages of what lies around the gap.
	Expired
	// Resync: the stream lost what the reader has seen, or is another; start again.
	Resync
)

// String names the verdict.
func (v Verdict) String() string {
	return [...]string{"take", "duplicate", "gap", "expired", "resync"}[v]
}

// Chain is the rule by which a reader puts the frames of one session in order, whatever way they
// reach it. Frames it takes have strictly increasing sequences, and none is skipped unnoticed:
//
//   - under one fence frames are numbered without a gap, so the number after the last one proves
//     that nothing stands between;
//   - the first frame under a newer fence names the last frame before it, in Prev;
//   - a frame under an older fence, or with a number not above the last, was taken before.
//
// A Chain is a value of one reader, without I/O, and not safe for concurrent use.
type Chain struct {
	epoch string
	last  Point
	log   uint64 // sequence of the last recorded frame taken
}

// NewChain returns the chain of a reader that stands at a point of a stream of that epoch.
func NewChain(epoch string, at Point) *Chain { return &Chain{epoch: epoch, last: at} }

// Last is the reader's place.
func (c *Chain) Last() Point { return c.last }

// Feed judges a frame that arrived by the feed, where any frame may be missing, late or doubled.
// Take and Expired advance the chain.
func (c *Chain) Feed(h FrameHeader, sequence uint64) Verdict {
	if h.Epoch != c.epoch {
		return Resync
	}
	if sequence <= c.last.Sequence {
		if c.last.Fence == 0 || c.behind(h) {
			return Duplicate
		}
		return Resync // a newer frame at a sequence that was given out before
	}
	v := c.judge(h)
	c.advance(v, h, sequence)
	return v
}

// Stream judges a frame that was read from the stream, in a read that left nothing out since the
// reader's place: what is missing before the frame is gone. So it never says Gap.
func (c *Chain) Stream(h FrameHeader, sequence uint64) Verdict {
	if sequence <= c.last.Sequence {
		return Duplicate
	}
	v := c.judge(h)
	if v == Gap {
		v = Expired
	}
	c.advance(v, h, sequence)
	return v
}

// Log judges a frame for a reader of recorded frames alone, which can't see gaps and needs not:
// it reads in stream order. It says Take or Duplicate.
func (c *Chain) Log(h FrameHeader, sequence uint64) Verdict {
	v := Take
	if sequence <= c.last.Sequence || c.behind(h) {
		v = Duplicate
	}
	c.advance(v, h, sequence)
	return v
}

// Ends judges the true ends of the session: Take when the reader has everything, Gap when frames
// follow its place, Resync when recorded frames it has taken are gone. Live frames may be gone:
// they expire.
func (c *Chain) Ends(e Ends) Verdict {
	switch {
	case e.Log < c.log:
		return Resync
	case c.log > 0 && c.log < e.Log && e.Log <= c.last.Sequence:
		return Resync // a recorded frame the reader has not seen, where it had been already
	case e.Last() > c.last.Sequence:
		return Gap
	}
	return Take
}

// behind reports that the frame is not after the last one taken by fence and number.
func (c *Chain) behind(h FrameHeader) bool {
	return h.Fence < c.last.Fence || h.Fence == c.last.Fence && h.N <= c.last.N
}

// judge decides on a frame whose sequence is above the reader's place.
func (c *Chain) judge(h FrameHeader) Verdict {
	switch {
	case c.behind(h):
		return Duplicate
	case h.Fence == c.last.Fence && h.N == c.last.N+1:
		return Take
	case h.Fence == c.last.Fence:
		return Gap
	case h.Prev > c.last.Sequence:
		return Gap
	case h.Prev == c.last.Sequence:
		return Take
	case c.last.Fence == 0 || h.N == 1:
		return Expired
	}
	return Gap // a newer fence whose first frames are missing
}

func (c *Chain) advance(v Verdict, h FrameHeader, sequence uint64) {
	switch v {
	case Take, Expired:
		c.last = Point{Sequence: sequence, Fence: h.Fence, N: h.N}
	case Duplicate:
		// A second copy of a frame stands behind the first: the next frame may name it as Prev.
		c.last.Sequence = max(c.last.Sequence, sequence)
	default:
		return
	}
	if h.Recorded {
		c.log = max(c.log, sequence)
	}
}
