package gateway

// This file is what the description says in words of the types of bodies that package schemas does not
// describe, and of their members.

// means is what a member of a type is: what memberWords say of it in that type, or else wherever it stands,
// or else what the schema of a command says of a member of that name.
func (t *types) means(typ, member string) string {
	for _, name := range []string{typ + "." + member, member} {
		if says := memberWords[name]; says != "" {
			return says
		}
	}
	for _, kept := range []string{"create_body", "task_body", "approve_body", "abort_body", "set_body"} {
		properties, _ := t.kept[kept]["properties"].(map[string]any)
		property, _ := properties[member].(map[string]any)
		if says, _ := property["description"].(string); says != "" {
			return says
		}
	}
	return ""
}

// schemaWords say what types are.
var schemaWords = map[string]string{
	"abort_request":    "How to abort the running task.",
	"accepted":         "A request to a session was applied.",
	"agent_request":    "The definition of an agent. Its name is in the path.",
	"agent_view":       "One agent.",
	"agents_view":      "All agents.",
	"conflict_view":    "Two toolrunners that offer different definitions of the same tool.",
	"create_request":   "The settings of a new session. Either model or agent is needed.",
	"created_view":     "A session was created.",
	"decision_request": "A decision on a tool call.",
	"deleted_view":     "A session was deleted.",
	"failure":          "A task, model request, tool call or compaction that failed.",
	"failures_page":    "A page of failures.",
	"imported_view":    "A session was created from a trace.",
	"message_view":     "A recorded message and its position.",
	"messages_view":    "A page of a session's recorded messages. The last page also describes what is not recorded yet.",
	"model_info":       "A model that sessions can run on.",
	"model_list":       "The models that one engine knows.",
	"model_price":      "What a model costs, in US dollars per million tokens.",
	"pending_approval": "A tool call that waits for a person's decision.",
	"probe_view":       "The answer to a health check.",
	"queued_task":      "A task that waits in a session's queue.",
	"resync_view":      "What follows does not continue what the client has received, or something may have been missed.",
	"session_view":     "A session: its settings and its current state.",
	"sessions_view":    "A page of sessions.",
	"set_request":      "The settings to change. Absent ones stay as they are.",
	"shown_view":       "One session.",
	"state_view":       "What a session is doing at a position of its stream.",
	"steer_request":    "A prompt for the running task: either prompt or input is needed.",
	"tools_view":       "The tools that toolrunners offer.",
	"usage_report":     "What a project, or one session of it, used.",
	"usage_row":        "What was used on one day with one model.",
	"usage_total":      "The sum of all rows of a usage report.",
	"watching_view":    "Changes are reported from here on.",
}

// memberWords say what members are: those that have a meaning of their own in one type, as type.member, and
// those that mean the same wherever they stand.
var memberWords = map[string]string{
	"agent_request.model":  "The model to run on, as provider/model.",
	"agent_request.name":   "The agent's name; if given, it must be the name in the path.",
	"agent_view.agent":     "The agent's definition.",
	"conflict_view.tool":   "The name of the tool.",
	"create_request.id":    "The id of the new session; if absent, one is generated.",
	"deleted_view.id":      "The id of the session.",
	"failure.id":           "The position of the message that reports it: the id that streams give it.",
	"failure.message":      "What happened, at most 500 characters; absent if nothing is known.",
	"failure.model":        "The model that the session used, as provider/model; absent if none.",
	"failure.status":       "How it ended.",
	"failures_page.next":   "The cursor of the next page; absent on the last page.",
	"message_view.id":      "The position of the message: the id that streams give it.",
	"messages_view.cursor": "The position after everything in this page: send it as Last-Event-ID to stream what follows. Only on the last page.",
	"messages_view.next":   "The value of after for the next page; absent on the last page.",
	"messages_view.state":  "What the session is doing: waiting means for a person. Only on the last page.",
	"messages_view.pending": "The tool calls that wait for a person's decision. Only on the last page, and absent " +
		"if there are none.",
	"model_info.name":       "The model, as provider/model.",
	"model_price.input":     "US dollars per million input tokens that neither come from a cache nor are written to it.",
	"pending_approval.name": "The name of the tool.",
	"pending_approval.hash": "Identifies the call that is shown; send it with the decision.",
	"queued_task.prompt":    "The beginning of the prompt.",
	"resync_view.reason":    "Why, in words for people.",
	"session_view.agent":    "The agent that the session was created from; absent if none.",
	"session_view.approval_timeout_ms": "How many milliseconds a tool call waits for a decision before it is denied; 0 means " +
		"without limit.",
	"session_view.fallback_models": "The models that continue a task that the session's own can't, in this order, each as provider/model; absent if none.",
	"session_view.id":              "The id of the session.",
	"session_view.limits":          "The limits in force, with defaults filled in.",
	"session_view.model":           "The session's own model, as provider/model.",
	"sessions_view.next":           "The cursor of the next page; absent on the last page.",
	"state_view.cursor":            "The position at which this is true.",
	"tools_view.tools":             "The tools that sessions can use.",
	"usage_report.session":         "The session, if the report is about one.",
	"usage_report.from":            "The first day, in UTC; absent if the report covers all days of a session.",
	"usage_row.model":              "The model, as provider/model.",
	"set_request.approval_mode": "The approval mode from now on, also for calls that wait for a decision: read-only (a person decides on " +
		"calls of tools that may change something), always-ask (on all), allow-all (all run), deny-all (none runs).",
	"session_view.approval_mode": "Which tool calls need a person's approval: read-only (those of tools that may change something), " +
		"always-ask (all), allow-all (none), deny-all (all calls are denied).",
	"created_view.session":   "The new session.",
	"imported_view.session":  "The new session.",
	"imported_view.messages": "The number of messages in the trace.",
	"shown_view.session":     "The session.",
	"watching_view.cursor":   "The id of this event.",

	"active_model":    "The fallback model that the running task uses; absent if it uses the session's own model.",
	"agents":          "The agents, sorted by name.",
	"arguments":       "The call's arguments, as the model wrote them: JSON, not necessarily valid.",
	"cache_read":      "US dollars per million input tokens that are read from the provider's cache.",
	"cache_write":     "US dollars per million input tokens that are written to the provider's cache.",
	"command_id":      "The id of the command: the Idempotency-Key of the request, or a generated one. That of a task is the task's id.",
	"conflicts":       "Tools that toolrunners define differently; absent if there are none.",
	"created":         "When the session was created (RFC 3339, UTC).",
	"cursor":          "The position after everything this request recorded: send it as Last-Event-ID to stream what follows.",
	"day":             "The day, in UTC (YYYY-MM-DD).",
	"deadline":        "When the call is denied if nobody decides (RFC 3339); absent if never.",
	"failures":        "The failures, most recent first.",
	"first_available": "The first position from which the stream can be resumed; absent if unknown.",
	"ignored":         "The toolrunner whose definition is ignored.",
	"kind":            "What failed: a task, a model request (others may have followed it), a tool call or a compaction.",
	"last_activity":   "When something was last recorded in the session (RFC 3339, UTC).",
	"last_sequence":   "How much of the session's log this description takes into account: of two descriptions, the one with the greater number is newer.",
	"message":         "The message, as it is stored.",
	"messages":        "The recorded messages, in order.",
	"models":          "The models that providers list.",
	"more":            "Whether there is a next page.",
	"name":            "The name.",
	"output":          "US dollars per million output tokens.",
	"partials":        "The beginnings of messages that are still incomplete; absent if there are none, and on all pages but the last.",
	"pending":         "The tool calls that wait for a person's decision.",
	"price":           "What the model costs; absent if the engine does not know.",
	"providers":       "The providers that may serve other models than those listed.",
	"queue":           "The tasks that wait, in order.",
	"reason":          "Why, in words for people.",
	"requests":        "The number of model requests that used anything, completed or not.",
	"result":          "What came of the task: an event of type done or error. Absent if the request did not wait, or the task has not ended in time.",
	"rule":            "The policy's rule that requires a person's decision; absent if the approval mode requires it.",
	"session":         "The id of the session.",
	"sessions":        "The sessions, most recently active first.",
	"state":           "What the session is doing; waiting means for a person's decision.",
	"status":          "The state of the gateway, in one word.",
	"steers":          "Whether it waits to be added to the running task, and not for its own turn.",
	"taken":           "What became of the prompt: it started a task, was queued, or is added to the running task (steering). Absent for other requests.",
	"task_cause":      "Why the last task ended: done, user, max_turns, budget, loop, provider, engine or input. Absent if none has ended.",
	"task_id":         "The id of the task: the command_id in the answer to the request that sent it.",
	"task_status":     "How the last task ended; absent if none has ended.",
	"tasks":           "The number of tasks so far.",
	"time":            "When it was recorded (RFC 3339, UTC).",
	"title":           "The beginning of the first prompt; absent before there is one.",
	"to":              "The last day, in UTC, included.",
	"tokens":          "The tokens used, and what they cost.",
	"tool":            "The name of the tool; only of tool calls.",
	"total":           "The sum of all rows.",
	"total_cost_usd":  "What all requests cost in US dollars, as far as prices were known; absent if none was.",
	"total_tokens":    "The tokens that all requests used.",
	"turns":           "The number of turns of all tasks.",
	"usage":           "One row for each day and model.",
	"used":            "The toolrunner whose definition is used.",
}
