package gateway

import (
	"cmp"
	"strings"

	"braid/schemas"
)

// This file is what the description says in words: of members that mean one thing wherever they stand,
// of path parameters, of codes, and the examples.

// means is what a member of that name is, by the schemas of commands or by the list below.
func (t *types) means(member string) string {
	for _, kept := range []string{"create_body", "task_body", "approve_body", "abort_body"} {
		properties, _ := t.kept[kept]["properties"].(map[string]any)
		property, _ := properties[member].(map[string]any)
		if says, _ := property["description"].(string); says != "" {
			return says
		}
	}
	return memberWords[member]
}

// memberWords say what members are that no command has.
var memberWords = map[string]string{
	"active_model":    "The fallback model that the running task is with; absent: it is with the session's own.",
	"agents":          "By name.",
	"arguments":       "The call's arguments, as the model wrote them.",
	"cache_read":      "US dollars per million tokens that were read from the provider's cache.",
	"cache_write":     "US dollars per million tokens that were written to it.",
	"command_id":      "The Idempotency-Key, or the id that was given to the request; of a task its id.",
	"created":         "When it was made.",
	"cursor":          "Where the stream goes on behind all of this: a Last-Event-ID.",
	"day":             "In UTC.",
	"deadline":        "When it counts as denied; absent: never.",
	"fallback_models": "Who goes on with a task that the model can't.",
	"id":              "The name; one is made up where none is given.",
	"input":           "A conversation: its last turn is the prompt.",
	"last_activity":   "When something was recorded of it last.",
	"last_sequence":   "How far the session's log was read for this; of two descriptions the one with the greater number is newer.",
	"message":         "The envelope, as it is stored.",
	"messages":        "What is recorded, in order.",
	"models":          "Those that are listed.",
	"more":            "There is a next page.",
	"name":            "Its name.",
	"next":            "Where the next page begins: its parameter after.",
	"output":          "US dollars per million tokens of output.",
	"partials":        "The beginnings of messages that are being said now.",
	"pending":         "Calls that wait for a person.",
	"price":           "What it costs, in US dollars per million tokens; absent: the engine does not know.",
	"providers":       "They may serve other models, too.",
	"queue":           "Tasks that wait, in order.",
	"reason":          "For people.",
	"requests":        "Model calls that used something, completed or not.",
	"result":          "What the task came to; absent: that was not waited for, or has not come in time.",
	"rule":            "The rule of the policy that has a person asked; absent: the approval mode does.",
	"session":         "The session.",
	"sessions":        "Those with the latest activity first.",
	"state":           "What the session is doing; waiting is for a person.",
	"status":          "In one word.",
	"steers":          "It waits to be added to the running task.",
	"taken":           "What became of the prompt.",
	"task_cause":      "Why the last task ended; absent: none has.",
	"task_id":         "The command_id of the request that asked for it.",
	"task_status":     "How the last task ended; absent: none has.",
	"tasks":           "How many there were.",
	"title":           "The beginning of the first prompt.",
	"tokens":          "What was used.",
	"tool":            "Its name.",
	"total":           "All rows added up.",
	"total_cost_usd":  "What that cost in US dollars, as far as prices were known.",
	"total_tokens":    "What all requests used.",
	"turns":           "Those of all tasks.",
	"type":            "What it is.",
}

// apiTags group the operations.
var apiTags = []any{
	object{"name": tagSessions, "description": "Sessions as wholes: make, list, change, delete."},
	object{"name": tagTasks, "description": "What a session is to do. Each of these is applied once under its Idempotency-Key."},
	object{"name": tagHistory, "description": "What happened in a session, and what happens now."},
	object{"name": tagAgents, "description": "Named definitions of what sessions run on."},
	object{"name": tagProject, "description": "All sessions together: changes, usage, models and tools."},
	object{"name": tagProbes, "description": "For whoever runs a gateway. They need no token."},
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
		return "The call: the tool_call_id of its approval_request."
	case "task":
		return "The task: the command_id of the request that asked for it."
	case "name":
		return "The agent."
	}
	return "The session."
}

// codeWords say when a code is the answer.
var codeWords = map[schemas.Code]string{
	schemas.CodeInvalid:        "the request is malformed; field says where",
	schemas.CodeUnknownModel:   "no engine knows the model",
	schemas.CodeUnsupported:    "the session's model can't take such input",
	schemas.CodeUnauthorized:   "the token is missing or wrong",
	schemas.CodeForbidden:      "the host or the origin is not allowed",
	schemas.CodeNotFound:       "there is nothing of that name",
	schemas.CodeUnknownSession: "there is no such session",
	schemas.CodeDeleted:        "the session was deleted",
	schemas.CodeSessionExists:  "there is a session of that name",
	schemas.CodeTaskInProgress: "the session runs a task",
	schemas.CodeNotRunning:     "there is no task to act on",
	schemas.CodeNotPending:     "it does not wait (any more)",
	schemas.CodeHashMismatch:   "another call waits than the one that was seen",
	schemas.CodeConflict:       "the key was used for another request, or the cursor is of another stream",
	schemas.CodeHasHistory:     "earlier turns can't come before those that there are",
	schemas.CodeAborted:        "an abort ended it; nothing has come of it",
	schemas.CodeTooLarge:       "something is over a stated limit",
	schemas.CodeQueueFull:      "as many tasks wait as may",
	schemas.CodeTooMany:        "as many are served at once as may be; nothing has begun",
	schemas.CodeUnavailable:    "the broker or an engine can't be reached now",
	schemas.CodeStorageFull:    "the broker has no room",
	schemas.CodeInternal:       "Braid failed; its log says why",
	codeMediaType:              "the body is of another type",
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
