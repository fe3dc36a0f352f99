package bus

import "sync/atomic"

// Stats are counts of what a connection has seen since it was made.
type Stats struct {
	// Connected says whether the broker is reached now, Reconnects how often it was reached again.
	Connected  bool
	Reconnects uint64
	// GapsMended is how often followers read from the streams what the feed had not brought them,
	// GapsLost how often what was missing had expired, and Resyncs how often followers ended because
	// their place in a stream was no more.
	GapsMended, GapsLost, Resyncs uint64
}

// feedGaps counts what followers missed.
type feedGaps struct{ mended, lost, resyncs atomic.Uint64 }

// Stats returns the counts as they are now.
func (c *Conn) Stats() Stats {
	return Stats{
		Connected: c.Connected(), Reconnects: c.reconnectCount(),
		GapsMended: c.gaps.mended.Load(), GapsLost: c.gaps.lost.Load(), Resyncs: c.gaps.resyncs.Load(),
	}
}

// countMended counts what is being read as a gap that the feed has left, if there is anything to read.
func (f *Follower) countMended() {
	if f.reading != nil {
		f.c.gaps.mended.Add(1)
	}
}
