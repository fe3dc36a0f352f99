// Package toolrunner executes tools: for a session it never knows, on behalf of an engine it never
// meets. Calls come from a [Queue], run in [Slots], and give back fragments of output while they
// run and one result at the end.
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
// environment and files: credentials belong in files another user owns, or the toolrunner in a
// container of its own.
//
// # Goroutines
//
// [Execution.Run] starts one goroutine for the tool and waits for it, except for a tool that does
// not stop; [Slots.Stop] waits for those too. [Runner.Run] owns everything it starts.
package toolrunner
