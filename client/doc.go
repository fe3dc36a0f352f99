// Package client is what a Go program uses to run agents on Braid.
//
//	c := client.New(client.HTTP("http://127.0.0.1:7300", token))
//	defer c.Close()
//	s, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{Model: "shell/demo"}})
//	…
//	result, err := s.Run(ctx, client.Prompt("which files are there?"))
//	fmt.Println(result.Status, result.Output)
//
// A [Client] has a project's sessions, a [Session] is a handle on one. [Session.Run] gives it a task
// and returns what that came to; [Session.Start] returns a [Task] to wait for later. [Session.Stream]
// and [Session.Turns] tell what happens as it happens, message by message or turn by turn:
//
//	for event, err := range s.Stream(ctx, client.WatchOptions{After: task.Cursor}) {
//		if err != nil {
//			return err
//		}
//		switch e := event.(type) {
//		case client.Message: // e.Payload says which; e.Cursor is where to go on after it
//		case client.State: // e.Pending are the calls that wait for a person: s.Approve, s.Deny
//		case client.Gap: // fragments are missing here
//		}
//	}
//
// # Two transports
//
// [HTTP] speaks to a gateway, which checks a token. [NATS] speaks to the broker itself, as gateways
// do: one hop less, and no check but the broker's own. Cursors, events, errors and keys are the same
// through both, so a program may begin with one and go on with the other. Only the cursors of
// [Client.Events] mean nothing to the other one.
//
// # What to rely on
//
//  1. A call starts one task, or none: what is sent again after a broken connection has the same id,
//     and takes effect once. With a [Key] that holds for callers too, also for one that was
//     restarted and does not know how far it came.
//  2. A range gives each message (or turn) once, in the session's order, none left out, however often
//     the connection breaks. What has expired meanwhile is told by a [Gap].
//  3. Nobody waits for a slow range: not the session, not the others who watch it. What piles up for it
//     is bounded, at about a megabyte; it falls back to what is stored, and where fragments have expired
//     by then a [Gap] says so. Turns are made of what is recorded, and have no gaps.
//  4. Waiting and watching change nothing. A task goes on when its caller leaves; [Session.Abort]
//     ends it.
//  5. There is no goroutine to stop: ranges run in the caller's, and end with it.
//
// # Errors
//
// An error that a caller can decide on is, or wraps, a *[schemas.Error] with the code and the field
// that the server gave; [IsCode] tells, and [RetryAfter] when to try again, if the server said so. What can
// be tried again is tried again, for about 20 seconds, or a minute if the server is silent or asks for
// patience, and is [schemas.CodeUnavailable] then: the command may have been taken, and sending it again
// under its key is safe. No answer is read beyond a bound ([schemas.CodeTooLarge]). If the context ended the
// error is the context's.
//
// Where to read:
//
//	client.go     clients, transports, trying again
//	command.go    sessions and what can be asked of them
//	task.go       tasks and their results
//	event.go      what watching gives
//	watch.go      one range over many connections
//	history.go    what is recorded
//	project.go    lists: sessions, models, tools; agents.go, usage.go, failures.go
//	projectevents.go  all sessions as they change
//	import.go     sessions made of traces
//	http.go, httpwatch.go, sse.go        over HTTP
//	nats.go, natswatch.go, natsturns.go, natsevents.go  over the broker
package client
