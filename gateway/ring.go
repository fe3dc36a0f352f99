package gateway

import (
	"sort"

	"braid/schemas"
)

// ring holds the newest entries of a session, bounded in bytes. Entries are numbered from the
// first one ever pushed, so that a reader's place stays valid while older entries leave.
type ring struct {
	entries []*entry
	first   uint64 // number of entries[0]
	bytes   int
	limit   int
	// base is the place behind which every message is in the ring.
	base schemas.Position
}

// end is the number that the next entry gets.
func (r *ring) end() uint64 { return r.first + uint64(len(r.entries)) }

// entryOverhead is about what an entry takes besides its bytes.
const entryOverhead = 128

// push adds an entry and drops the oldest ones over the limit. The newest one always stays.
func (r *ring) push(e *entry) {
	r.entries = append(r.entries, e)
	r.bytes += len(e.encoded) + entryOverhead
	for r.bytes > r.limit && len(r.entries) > 1 {
		oldest := r.entries[0]
		r.entries[0] = nil
		r.entries = r.entries[1:]
		r.first++
		r.bytes -= len(oldest.encoded) + entryOverhead
		r.base = oldest.position
	}
}

// reset empties the ring; what follows base is pushed next.
func (r *ring) reset(base schemas.Position) {
	r.first = r.end()
	r.entries, r.bytes, r.base = nil, 0, base
}

// find returns the number of the first entry that holds something after a position; false if the
// ring does not go back that far.
func (r *ring) find(at schemas.Position) (number uint64, ok bool) {
	if at.Compare(r.base) < 0 {
		return 0, false
	}
	i := sort.Search(len(r.entries), func(i int) bool { return r.entries[i].position.Compare(at) > 0 })
	return r.first + uint64(i), true
}

// from returns at most limit bytes of entries from a number on, at least one if there is any;
// false if that entry has left. The slice is the caller's.
func (r *ring) from(number uint64, limit int) (batch []*entry, ok bool) {
	if number < r.first || number > r.end() {
		return nil, false
	}
	rest := r.entries[number-r.first:]
	size := 0
	for i, e := range rest {
		if size += len(e.encoded) + entryOverhead; size > limit && i > 0 {
			rest = rest[:i]
			break
		}
	}
	if len(rest) == 0 {
		return nil, true
	}
	return append([]*entry(nil), rest...), true
}
