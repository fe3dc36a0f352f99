package gateway

import (
	"cmp"
	"strings"

	"braid/schemas"
)

// This file is what the description says in words of groups, path parameters, codes and examples.

// apiTags group the operations.
var apiTags = []any{
	object{"name": tagSessions, "description": "Create, list, change and delete sessions."},
	object{"name": tagTasks, "description": "Tell a session what to do. Each of these requests is applied once per Idempotency-Key."},
	object{"name": tagHistory, "description": "Read what happened in a session, and follow what happens now."},
	object{"name": tagAgents, "description": "Agents: named definitions that sessions are created from."},
	object{"name": tagProject, "description": "The whole project: changes of all sessions, usage, models, tools, and this description."},
	object{"name": tagProbes, "description": "Health checks for operators. No token is needed."},
}

// The names of the groups.
const (
	tagSessions = "sessions"
	tagTasks    = "tasks"
	tagHistory  = "history"
	tagAgents   = "agents"
	tagProject  = "project"
	tagProbes   = "probes"
)

// tagged puts routes into a group.
func tagged(tag string, routes []route) []route {
	for i := range routes {
		routes[i].tag = tag
	}
	return routes
}

// pathWord says what a path parameter is.
func pathWord(name string) string {
	switch name {
	case "call":
		return "The tool call: the tool_call_id of its approval_request."
	case "task":
		return "The task: the command_id in the answer to the request that sent it."
	case "name":
		return "The name of the agent."
	}
	return "The id of the session."
}

// codeWords say when a code is the answer.
var codeWords = map[schemas.Code]string{
	schemas.CodeInvalid:        "the request is not valid; field says which part",
	schemas.CodeUnknownModel:   "no engine knows this model",
	schemas.CodeUnsupported:    "the session's model does not support this kind of input",
	schemas.CodeUnauthorized:   "the token is missing or wrong",
	schemas.CodeForbidden:      "the host or the origin is not allowed",
	schemas.CodeNotFound:       "nothing has this name",
	schemas.CodeUnknownSession: "there is no such session",
	schemas.CodeDeleted:        "the session was deleted",
	schemas.CodeSessionExists:  "a session with this id exists already",
	schemas.CodeTaskInProgress: "a task is running in the session",
	schemas.CodeNotRunning:     "no task is running that this could apply to",
	schemas.CodeNotPending:     "it is not waiting, or no longer",
	schemas.CodeHashMismatch:   "hash is not that of the waiting call, so another call was seen",
	schemas.CodeConflict:       "the Idempotency-Key was used for another request, or the cursor belongs to another stream",
	schemas.CodeHasHistory:     "the session has turns already, so input can't add earlier ones",
	schemas.CodeAborted:        "it was aborted and had no effect",
	schemas.CodeTooLarge:       "something exceeds a documented limit",
	schemas.CodeQueueFull:      "the session's queue of waiting tasks is full",
	schemas.CodeTooMany:        "the gateway serves as many of these as it may; this one was not started",
	schemas.CodeUnavailable:    "the broker or an engine can't be reached at the moment",
	schemas.CodeStorageFull:    "the broker's storage is full",
	schemas.CodeInternal:       "Braid failed; the gateway's log says why",
	codeMediaType:              "the body has an unsupported Content-Type, charset or encoding",
}

// exampleError is an answer that refuses with a code.
func exampleError(code schemas.Code) object {
	e := object{"code": string(code), "message": cmp.Or(codeWords[code], string(code))}
	if code == schemas.CodeInvalid {
		e["field"] = "model"
	}
	if after := code.RetryAfter(); after > 0 {
		e["retry_after_ms"] = after.Milliseconds()
	}
	return object{"error": e}
}

// sentences splits what is said of an operation into its first sentence and all of it; the latter is empty
// if that is the same.
func sentences(says string) (first, all string) {
	first, rest, more := strings.Cut(says, ". ")
	if !more || rest == "" {
		return strings.TrimSuffix(says, "."), ""
	}
	return first, says
}
