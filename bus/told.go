package bus

import "math"

// Told remembers what was told of sessions last, for whoever tells of a [ProjectFeed]: nothing is told
// twice, and nothing after what is newer. What it remembers is bounded; a session that is forgotten may
// be told of again. The zero value has told nothing. It is not safe for concurrent use.
type Told struct{ words map[string]word }

// word is what was told of a session: how it stood at a sequence, or that it is gone.
type word struct {
	at   uint64
	gone bool
}

// deleted is the word after which nothing is told of a session: an id that was deleted stays so.
var deleted = word{math.MaxUint64, true}

// maxTold bounds what is remembered.
const maxTold = 8192

// Stands reports whether it is news how a session stands at a sequence, which is told then.
func (t *Told) Stands(session string, at uint64) bool { return t.tell(session, word{at: at}) }

// Gone reports whether it is news that nobody knows a session, though there was a frame of it. It may
// come to be, or come back.
func (t *Told) Gone(session string, frame uint64) bool {
	return t.tell(session, word{max(frame, t.words[session].at), true})
}

// Deleted reports whether it is news that a session is deleted.
func (t *Told) Deleted(session string) bool { return t.tell(session, deleted) }

// Behind reports whether a tail mark is beyond what was told, so that a frame may have been missed.
func (t *Told) Behind(e TailEvent) bool {
	told, known := t.words[e.Session.ID]
	return told != deleted && (e.Last == 0 || !known || told.at < e.Last)
}

// Forget forgets what was told of all sessions, so that anything is news again.
func (t *Told) Forget() { clear(t.words) }

// tell reports whether a word about a session is news, and remembers it if so.
func (t *Told) tell(session string, now word) bool {
	told, known := t.words[session]
	if known && (told == deleted || now.at < told.at || now.at == told.at && now.gone == told.gone) {
		return false
	}
	switch {
	case t.words == nil:
		t.words = map[string]word{}
	case len(t.words) >= maxTold:
		clear(t.words)
	}
	t.words[session] = now
	return true
}
