// Package toolrunner executes tools: for a session it never knows, on behalf of an engine it never
// meets. Whoever has tools of their own makes them of functions and calls [Serve]:
//
//	type Greeting struct {
//		Name string `json:"name" jsonschema:"who is greeted"`
//	}
//
//	hello := toolrunner.Func("hello", "Greets somebody.",
//		func(ctx context.Context, in Greeting, out io.Writer) (string, error) {
//			return "hello, " + in.Name, nil
//		}, toolrunner.ReadOnly)
//	err := toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{Tools: []toolrunner.Tool{hello}})
//
// # The life of a call
//
// An engine stores a record that the call is queued, and puts a message into the queue of a pool,
// which all toolrunners of the pool share. One of them pulls it, no more than it has [Slots] for,
// and stores the started record on the condition that nothing followed the queued one. So of all
// who were ever handed the call one starts it, and a call that was withdrawn is never started. The
// message leaves the queue when its start is stored; a toolrunner that dies before leaves it to
// another one, and one that dies after leaves the call to its owner, who alone can judge whether
// it may run again.
//
// Output goes to the owner as it comes, as fragments that may be lost. The owner asks for what it
// misses; output is kept while the call runs and for a while after. The done record has all of it
// once more, and is again refused if something follows the started one: a toolrunner that was
// taken for lost, and comes back, changes nothing.
//
// A [Runner] does this with whatever [Queue] it is given; serve.go, delivery.go and control.go
// bring it together with the broker.
//
// # The execution contract
//
// Every tool runs under the same rules, which [Execution] alone implements; a tool is a function
// that writes bytes and returns a [Result].
//
//   - Text. Whatever bytes a tool writes become valid UTF-8 without control characters or escape
//     sequences, the same text however the bytes were cut into writes.
//   - Fragments. Each has the byte offset of its text, and together they are exactly the result's
//     output. Small writes share a fragment; the first byte after a quiet time never waits. The
//     text so far is kept, so any stretch can be sent again ([Execution.From]).
//   - Cap. The model sees the head of the text, cut at a rune boundary, and a line that says how
//     much there was. The whole text goes to a store, up to a limit of its own.
//   - Never empty. An output without a visible character says so.
//   - Notes. The tool's last word (an exit code) and images are outside the cap.
//   - Stop reason. An abort outranks a timeout, that a crash or error, that the tool's own word.
//   - Stopping. A tool has a grace to end after its context did. Then the result is made without
//     it, says that the tool may still be running, and discards what it writes later.
//   - Nothing a tool does is an error of the toolrunner: a panic is a failed call.
//
// # exec_command
//
// [Exec] is the built-in tool that runs shell commands. It is made so that a command leaves
// nothing behind: its process group is ended (SIGTERM, then SIGKILL) when the call is stopped and
// killed when its shell exits. On Linux processes that left the group are found by a mark in their
// environment and killed as well, and a small guardian process does it all if the toolrunner
// itself is killed. What remains: a process that leaves the group and also drops its environment,
// or runs as another user; on other systems, any process that leaves the group. A container or a
// cgroup around the toolrunner contains those too. A toolrunner that is process 1 of a container
// needs an init that reaps orphans.
//
// Commands see an allow-list of the toolrunner's environment and never the credentials of Braid
// or NATS. They run as the toolrunner's user, though, and that user may read the toolrunner's own
// environment (the toolrunner command hides its own, on Linux) and files: credentials belong in
// files another user owns, or the toolrunner in a container of its own.
//
// # Goroutines
//
// [Execution.Run] starts one goroutine for the tool and waits for it, except for a tool that does
// not stop; [Slots.Stop] waits for those too. [Serve] and [Runner.Run] own everything they start.
package toolrunner
