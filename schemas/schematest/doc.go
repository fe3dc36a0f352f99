// Package schematest supports tests of message streams: a notation in which a stream can be
// read and written by people, and generators of payloads and of legal streams.
//
// A timeline has one message a line:
//
//	trace user "list the files"            # a prompt: role user, scope trace
//	event request_begin
//	partial_text start                     # fragments: phase, then content
//	partial_text delta "I "
//	partial_text delta "look."
//	partial_text stop
//	text "I look."                         # complete messages of the model
//	streamed tool_call A ls "{}"           # start, deltas, stop and complete in one line
//	+ event approval_decision allow A      # "+": in the frame of the line before
//	partial_tool_call_output A start       # fragments of a call begin with its id
//	tool_call_output A "go.mod" stop_reason=completed
//	event token_usage
//	+ event request_end completed
//	kid: event request_begin               # a message of the child session kid
//	kid/grand: text "hi"                   # of its child
//	gap                                    # live frames were lost here
//	event task_end completed
//	finish                                 # the stream is finished here
//
// Words with blanks are quoted as in Go. Members that have no place of their own follow as
// name=value: stop_reason, attempt, error_message, retry_in_ms, cause, code, sender, steers. The rules that a line is
// expected to break follow a "!":
//
//	event request_end completed  ! usage-then-end
//
// Each line is a frame of its own, of the next sequence from 1, unless it begins with "+". "@7"
// in that place gives the frame sequence 7. Timestamps are made up.
package schematest
