// Package gateway is Braid's HTTP edge: it turns requests into commands and questions on the
// bus, and sessions into server-sent events. It holds no state that matters: any number of
// gateways serve the same sessions, and one that is restarted hands out the same ids as before.
//
// Where to read:
//
//	gateway.go    options, start and stop
//	routes.go     everything that is served: who serves it, and what it takes and answers
//	operation.go  the words of that table
//	openapi.go    the table as an OpenAPI document; openapi_types.go: the Go types in it, openapi_words.go and
//	              openapi_members.go: the words
//	guard.go      who may ask: token, host, origin
//	observe.go    what every answer carries; the line in the log; events.go: what is told to those who count
//	crowd.go      how much is served at once
//	request.go    reading bodies, parameters and idempotency keys, strictly
//	failure.go    errors as HTTP answers
//	commands.go   create, approve, abort, set, retry
//	tasks.go      start, steer and withdraw a task; wait for its end
//	import.go     make a session of a trace; delete.go: delete one
//	agents.go     definitions of agents
//	page.go       the web page, which is package web
//	overview.go   lists of sessions, models and tools; usage
//	queries.go    one session, messages with the live tail, trace, health
//	stream.go     the event stream of one watcher
//	turns.go      the same in the view of turns
//	replay.go     what a watcher missed, read from the broker
//	sse.go        the wire format and the deadlines of writes
//	hub.go        one per watched session: follows it and fans out
//	project.go    one for the project: how its sessions stand; hints.go: which of them to ask about next;
//	              projectstream.go: who watches that
//	moment.go     what watchers and /messages take from a hub
//	hubs.go       which hubs there are; their beginning and end
//	ring.go       the encoded frames that a hub keeps
//	taskstate.go  what a session is doing
//	partials.go   what has been streamed of messages that are not complete
//
// # What a watcher may rely on
//
//  1. An event without a name is one message of the stream: the envelope as it is stored, on one
//     data line. Its id is a cursor, "<epoch>-<sequence>.<line>", which comes from the broker:
//     the same message has the same id on every gateway, for ever, and ids strictly increase.
//  2. A connection that gives a cursor gets what follows it: each message once, in order, none
//     left out. Where that can't be kept, the event "resync_required" says so; what the watcher
//     holds may then be incomplete, and /messages has the rest.
//  3. The event "task_state" says what the session is doing at the position of its own id. It
//     is the first event of a fresh connection; after a reconnect it follows what was missed.
//  4. Comments come at least every 15 s and carry no id.
//  5. With "view=turns" an event without a name is one of [schemas.TurnView] instead, and its id
//     is the cursor of the message that completed it, with ".1", ".2" and so on for all but the
//     last event of one message. It is the same on every gateway and goes on from any event, from
//     any cursor and over expired fragments, as exactly as 2 says. Such a connection also gets
//     "task_state" whenever the state, or who is waited for, changes.
//  6. /messages answers with the history, with what has been streamed of incomplete messages,
//     and with a cursor from which the stream continues both without loss or repeat.
//
// # What not to assume
//
// A connection may end at any time, also because its watcher reads too slowly; the last id it
// saw is where to go on. A watcher that leaves changes nothing about the session: tasks go on
// and are ended by a request to abort, by nothing else. The prompt is not part of the stream
// (its sender has it) unless "include=prompt" asks for it.
//
// Over HTTP/1.1 browsers open six connections to one origin, for all tabs together: a page
// should hold one stream of a session, or the project's, which tells of all sessions, and a proxy
// in front should offer TLS and HTTP/2.
//
// # Goroutines
//
// A [Gateway] owns one goroutine for each session that is watched, however many watch it, and ends it
// some seconds after the last watcher has left. While somebody watches the project, it owns two more, and
// one for each question that these ask just then. [Gateway.Close] ends all of them and waits;
// [Gateway.Serve] also waits for the requests that it serves.
package gateway
