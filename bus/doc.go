// Package bus is everything Braid does with NATS. It is the only package that imports it.
//
// What it offers, and where to read:
//
//	server.go     an embedded nats-server, for one process or a small cluster
//	conn.go       a connection: dialling with patience; address.go: what of a URL may be shown; stats.go: counts
//	publish.go    publishing with typed answers; retry.go: reads that are asked again
//	topology.go   the streams, buckets and their settings, created idempotently
//	subjects.go   every subject, built and parsed in one place
//	frame.go      frames: one or more messages in one stored broker message
//	batch.go      what waits for the frame in flight: deltas joined and cut, groups kept whole
//	blob.go       payloads over the broker's limit; blobread.go reads them; body.go: of messages about calls
//	chain.go      the rule by which a reader orders frames and finds gaps
//	claim.go      ownership of a session: claim, release, and the fence they give
//	log.go        the owner's side of a session log: the true ends, append, confirm, release
//	append.go     how one frame is stored: retries, verdicts, what a reconnect may have changed
//	read.go       reading a stretch of a session from whatever replica answers
//	get.go        one read, of any replica or of the leader; stored.go: is it still that stream
//	follow.go     a watcher's side: replay, then the feed, gaps filled; event.go: what it delivers
//	project.go    what happens in all sessions of a project, without a promise; told.go: what was told of it
//	feed.go       the feed itself, bounded, and which fragments of it are shown
//	consume.go    a trace's side: the recorded frames of a whole shard
//	delete.go     the end of a session; sweep.go: blobs that nothing refers to
//	command.go    sending commands and waiting for their outcomes; commandread.go reads them
//	wakeup.go     wake-ups, and how engines hand them to one another; pull.go takes them
//	schedule.go   commands the broker sends at an instant
//	liveness.go   which instances live; running.go: which sessions are in motion where
//	tool.go       the queue of tool calls; tracecontext.go: what messages say of their sender's trace
//	record.go     what became of a call, a chain of records
//	fragment.go   a running call's output; output.go: all of it, kept; control.go: cancel and resend
//	registry.go   which tools there are; agents.go: which agents
//	query.go      questions that any engine answers; questions.go, usage.go, failures.go: which ones; serve.go: workers
//	activity.go   what a session is doing, from an answer on, message by message
//	answer.go     answers over the broker's limit, in parts
//	import.go     traces that wait to become sessions
//	kv.go         buckets read as the streams they are
//
// # What holds
//
// The stream sequence is the order: one session's stream is all its frames by sequence. A frame
// is appended under a fence, the sequence of its owner's claim, and the broker refuses it once a
// newer claim exists, whatever the old owner believes. Nothing is decided by the absence of a
// record, since any replica may answer a read and one may lag: decisions are compare-and-set.
//
// # What does not
//
// The feed is best effort. Frames are stored before they are published to it, but some reach no
// subscriber when a stream's leader changes; a [Follower] finds and fills such gaps.
// The fence guards appends, not effects: an engine that was stopped between the
// acknowledgement of a frame and a model call makes that call, and can record nothing of it.
package bus
