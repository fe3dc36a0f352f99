// Package engine runs sessions: it takes their commands, calls models, has tools executed, and
// appends everything to the session's log.
//
// An [Engine] is one process's share of the work. Engines share nothing but the broker; any of
// them may be killed at any moment, and another goes on from the log. Reading order:
//
//	engine.go      what an engine is made of, start and stop
//	route.go       a wake-up arrives: is the session ours, somebody's, or nobody's?
//	runner.go      one goroutine that owns one session, and its loop
//	command.go     the commands it is asked, each answered once
//	agent.go       what a new session has from its agent
//	import.go      a trace becomes the beginning of a session
//	own.go         claiming a session and folding its log; letting it go
//	append.go      one frame in flight; effects that wait for it
//	effect.go      carrying out effects: the model, tools, answers
//	timeout.go     how long a model may take, and be silent
//	prices.go      what requests cost
//	toolcall.go    one tool call from its first record to its last
//	toolwait.go    waiting for its start and its end, and what is done when they don't come
//	settled.go     what there is to tell of calls that no toolrunner tells of
//	workspace.go   calls go to where the session's files are
//	policy.go      the operator's rules for tool calls
//	delete.go      the end of a session
//	deadline.go    decisions that must come in time
//	tooldesk.go    what toolrunners say to the owner
//	motion.go      how many sessions do what
//	events.go      what engines tell those who count
//	ledger.go      what stored messages amount to
//	watch.go       who lives, whose sessions need somebody, are our own loops alive
//	sweep.go       blobs that nothing refers to
//	projector.go   the session logs become the trace
//	reader.go      what only looks: the trace, and questions about it
//	queries.go     what people ask of the trace
//	overview.go    lists, usage and models; failures.go: what failed
//
// To see what sessions look like, read testdata/timelines: stories of people, tools and failures,
// with all that comes of them on the stream, in the trace and in what models are sent.
//
// What a session does is decided in engine/internal/session, which is pure. Here is the I/O
// around it, under these rules:
//
//   - A session has at most one owner: appends carry the fence of its claim, and the broker
//     refuses them once there is a newer one. An owner that is refused drops the session at
//     once, without another effect.
//   - An effect outside the log happens only after the frame that announces it is acknowledged.
//     A model call besides needs that acknowledgement to be fresh.
//   - What can be lost is a model call that another owner repeats: an engine that is stopped
//     between acknowledgement and call makes a call that records nothing.
//
// # Goroutines
//
// An engine owns two goroutines that pull wake-ups, one for each lane, and one for each wake-up that is
// finding its way, of which there is a most; one that watches over other engines' sessions, one that
// sweeps blobs, and one for each shard that the projector writes to the trace. [Engine.Stop] ends all of
// them and waits.
//
// A session in motion has a runner, whose loop is one goroutine and the only one that touches the
// session's state. The loop works in tenures: from a claim to letting go of it. A tenure owns a goroutine
// that appends frames, and one for each thing that takes time: a model call, a tool call, a timer. They
// report to the loop through two channels, and the tenure ends only when all of them have (tenure.spawn).
package engine
