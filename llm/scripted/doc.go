// Package scripted is a provider whose models say what a file tells them to. Tests,
// demonstrations and benchmarks use the same format: a script states what the model streams, at
// what pace, how it fails, and what it expects to be asked.
//
// A script is a YAML file; its name without ".yaml" is the name of the model, so weather.yaml is
// the model "scripted/weather":
//
//	# A model that looks at the clock, fails once, then answers.
//	turns:
//	  - name: asks for the time
//	    expect:
//	      system: {contains: helpful}
//	      tools: [exec_command]
//	      input:
//	        - {role: user, kind: text, contains: time}
//	    steps:
//	      - thinking: I had better look.
//	      - text: Let me look at the clock.
//	        deltas: 4
//	        pace: 10ms
//	      - tool_call: {name: exec_command, arguments: {command: date}}
//	      - usage: {output: 12, total: 100}
//
//	  - name: answers, at the second attempt
//	    attempts:
//	      - steps:
//	          - text: ["It is ", {pause: 50ms}, {fail: {message: overloaded, status_code: 529, retry_after: 1s}}]
//	      - expect:
//	          input:
//	            - {kind: tool_call_output, contains: "2026"}
//	        steps:
//	          - text: It is late.
//
// # The script
//
//	turns     the turns of the conversation, in order; at least one
//	repeat    true: after the last turn comes the first again; else a request beyond it fails
//	vision    false: the model does not see pictures; it does by default
//	window    how many tokens it takes, what it is asked and its answer together
//	count     what numbers the turns: "context" (the default) or "prompt", see below
//
// # Which turn a request gets
//
// It depends on the request alone, never on what the process remembers, so any process may serve
// any request of a session, and a session may go on after a crash. The turn's number is how many
// turns of the assistant the input holds, where messages of role assistant that follow one
// another are one turn. With "count: prompt" only those after the last text of role user count
// that the harness did not send: every prompt starts the script again. A turn in which the model
// says nothing leaves no trace in the input, and so is asked again.
//
// A turn with "when" stands outside of that count. Before anything else such turns are tried in
// the order of the file, and the first whose "when" fits the request answers it. So a script can
// answer what may come at any time, such as the request for a summary:
//
//   - when: {input: [{kind: text, contains: "summarize"}]}
//     steps: [{text: We talked about the weather.}]
//
// Among the attempts of a turn the request's attempt decides: the first entry of "attempts" is
// for attempt 1, and so on; the last is for all that follow.
//
// # A turn
//
//	name      for messages about the turn
//	when      makes it a turn out of the count; an expectation, see below
//	expect    what the request must be, else it fails with a message that shows the difference
//	steps     what happens, in order; then the request completes
//	attempts  in place of expect and steps: a list of {expect, steps}, one for each attempt
//
// # A step
//
// One of these that the model says. Each is one segment, closed before the next step:
//
//	text       a text
//	thinking   a piece of reasoning
//	tool_call  {name, arguments, id}: arguments are a string, kept as it is, or a mapping, which
//	           becomes JSON with its keys in the order of the file; id is made up if absent
//
// What is said is a string, or a list of pieces: each string is one delta, and between them may
// stand any of the steps below, which so happen in the middle of the segment. Beside it may stand
//
//	deltas     cut the string into so many deltas of about the same length
//	pace       pause so long before each delta
//	fidelity   a mapping that goes with the complete message
//
// Or one of these that happen:
//
//	pause   a duration such as 50ms
//	wait    the name of a gate: go on when the test calls [Script.Release]
//	usage   {cache_read, cache_write, output, total}: what the outcome reports
//	fail    {message, status, kind, status_code, retry_after, retryable}: end the request. status is
//	        failed (the default), timeout, malformed, auth or aborted; kind is provider (the default),
//	        input or context; all but auth, input and context are retryable unless said otherwise
//	cut     true: the connection ends without a word (malformed); "timeout": it falls silent
//	hang    the name of a gate: as wait, but deaf to cancellation, as a broken provider is
//	panic   a text: panic with it
//
// The last two break the contract of a model on purpose; package llm's Guard contains them.
//
// # An expectation
//
//	attempt   the attempt's number
//	system    what the system prompt must be, as a matcher
//	tools     names of tools that must be offered, among others
//	input     matchers of the last messages of the input, in order: two matchers look at the
//	          last two messages
//
// A matcher is a mapping; all of its members must fit:
//
//	role, kind, sender, stop_reason   as in the message
//	name       a tool call's tool
//	contains   a string or a list of strings: each occurs in the message
//	lacks      a string or a list of strings: none occurs in it
//	equals     the message is exactly this
//	fidelity   the message carries exactly this mapping
//	images     how many pictures the message has: a picture itself has one
//	image      a string or a list of strings: each occurs in what describes one of them, such as
//	           "image/png, 12 kB", or its URL without the query
//
// What contains, lacks and equals look at is a message's text: the arguments of a tool call, the
// output of a tool, the URL of a picture.
//
// An unknown key anywhere is an error, and every error names file and line. Anchors and aliases
// are not supported.
package scripted
