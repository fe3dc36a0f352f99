// Package session is the pure core of the engine: what a session is, and what happens next.
//
// It is two functions. [State.Apply] is the fold: it takes the messages of a session's log, in
// order, and keeps what they mean. [State.Step] takes one event (a command, a message from the
// model, output of a tool, a timer) and returns the messages to append and the effects to carry
// out once they are stored. Step applies what it appends through the same fold, so a session
// recovered from its log is in the state its last owner left it in, by construction.
//
// There is no goroutine, clock, I/O, context or randomness here. Time comes in with each event;
// ids are derived from the owner's fence. The caller guarantees:
//
//   - one goroutine at a time per State;
//   - appended messages reach the log in the order they were returned, those of one Step in one
//     frame;
//   - an effect is carried out only after the messages returned with it, and all before, are
//     acknowledged by the broker;
//   - when an append is refused for good, the State is dropped: it is ahead of the log.
//
// Reading order: state.go, fold.go, event.go, step.go, then request.go and route.go (the model), approval.go,
// policy.go and deadline.go (people), queue.go (prompts that come while a task runs), workspace.go and
// output.go (the tools), usage.go, limits.go and loop.go (what was used, turns and budgets, repetitions),
// end.go, carry.go and telling.go (abort, the task's end, what is left of it), recover.go (taking over), and import.go,
// importstep.go and delete.go (how a session may begin and end besides).
package session
