package trace

import "errors"

// The errors a caller decides on; test with errors.Is.
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("trace store is closed")
	// ErrDegraded: the disk failed, or the store on it is damaged. The store stays unusable
	// until it is closed and opened again; the process, and the sessions, go on without it.
	ErrDegraded = errors.New("trace store is degraded")
	// ErrInUse: another process, or another Store of this one, has the directory open.
	ErrInUse = errors.New("trace store is in use")
	// ErrFormat: the directory holds something else, or a store of another version.
	ErrFormat = errors.New("trace store has an unknown format")
	// ErrNoSpace: too little free space on the disk. Nothing was written; the same call may
	// succeed when there is space again.
	ErrNoSpace = errors.New("too little disk space for the trace store")
	// ErrForeign: the frames don't continue what the store holds: another stream, or another
	// life of it. [Store.Reset] the shard and apply the stream from its beginning.
	ErrForeign = errors.New("trace store mirrors another stream")
	// ErrChanged: the session was deleted, or its shard was reset, while it was being read.
	ErrChanged = errors.New("session changed while its trace was being read")
)
