// Package trace is an engine's mirror of what all sessions recorded: a Pebble store that one
// projector fills from the session streams, and that folds and queries read.
//
// The streams are the truth; a trace is a cache of them that can be thrown away and rebuilt.
// What it adds is order and speed: the messages of a session one after the other, a summary of
// each session that never needs its messages, and indexes over sessions, command outcomes,
// token usage and failures.
//
//	stream ──frames──► [Store.Apply] ──one atomic batch──► messages + summary + indexes + mark
//	                                                          │
//	            [Store.Load], [Store.Messages], [Store.Sessions], ... ◄─┘
//
// Guarantees:
//
//  1. A batch of frames, everything derived from them and the mark of how far the shard has been
//     applied are stored together or not at all, whatever crashes. What is found after a crash
//     is what some earlier moment looked like.
//  2. A frame that was seen before, or was written by an owner that had been replaced, changes
//     nothing: the trace holds each recorded message once, in stream order.
//  3. Every reading method sees one moment. [SessionInfo.Last] and [Page.Head] name a position up
//     to which all messages can be read.
//  4. The cost of a frame does not grow with the length of its session.
//  5. A failing disk never ends or blocks the process: the store turns degraded, every call
//     answers [ErrDegraded], and the files are left as a power cut at that moment would have
//     left them.
//
// Not guaranteed: that the trace is up to date (compare [Store.Applied] with the stream), and
// that two engines' traces are equally far.
//
// A Store starts no goroutine of its own; Pebble's end with [Store.Close]. All methods are safe
// for concurrent use. Start reading at frame.go (what comes in), keys.go (how it is laid out),
// apply.go (how it is written), summary.go (what is derived) and fuse.go (failing disks).
package trace
