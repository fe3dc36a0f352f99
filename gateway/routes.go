package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"braid/bus"
	"braid/schemas"
)

// route is one thing clients can ask for: what serves it, and what is said of it to those who ask
// for the API's description. One table holds both, so nothing is served that is not described.
type route struct {
	method, path string
	handle       handler
	access       access
	operation
}

// handler answers a request, or says why it does not.
type handler func(http.ResponseWriter, *http.Request) error

// table lists everything that is served.
func (g *Gateway) table() []route {
	return slices.Concat(
		g.pageRoutes(), tagged(tagProbes, g.probeRoutes()), tagged(tagSessions, g.sessionRoutes()), tagged(tagTasks, g.commandRoutes()),
		tagged(tagHistory, g.historyRoutes()), tagged(tagAgents, g.agentRoutes()), tagged(tagProject, g.projectRoutes()),
	)
}

// pageRoutes are for browsers. The page is no part of the API.
func (g *Gateway) pageRoutes() []route {
	return []route{
		{method: "GET", path: "/{$}", handle: g.page, access: accessPage},
		{method: "GET", path: "/static/{file}", handle: g.pageFile, access: accessPage},
	}
}

func (g *Gateway) probeRoutes() []route {
	return []route{
		{"GET", "/healthz", g.health, accessOpen, operation{
			id: "health", does: "Checks that the process is alive. Nothing else is checked.",
			replies: []reply{{status: 200, says: "The process is alive.", content: document[probeView]()}},
		}},
		{"GET", "/readyz", g.readyz, accessOpen, operation{
			id: "ready", does: "Checks that the broker can be reached and an engine answers.",
			replies: []reply{{status: 200, says: "The gateway can serve requests.", content: document[probeView]()}},
			codes:   []schemas.Code{schemas.CodeUnavailable, schemas.CodeInternal},
		}},
	}
}

// sessionRoutes are about sessions as wholes.
func (g *Gateway) sessionRoutes() []route {
	return []route{
		{"POST", "/v1/sessions", g.createSession, accessToken, operation{
			id: "createSession", does: "Creates a session. Either model or agent is needed.", command: true, body: document[createRequest]().like(`{"model":"shell/demo","approval_mode":"always-ask","limits":{"max_turns":20}}`),
			replies: []reply{{status: 201, says: "The session was created, now or by an earlier request with the same Idempotency-Key.", content: document[createdView]()}},
			codes:   []schemas.Code{schemas.CodeUnknownModel, schemas.CodeSessionExists, schemas.CodeDeleted},
		}},
		{"POST", "/v1/sessions/import", g.importSession, accessToken, operation{
			id: "importSession", does: "Creates a session from a trace. The whole trace, JSON Lines of at most 64 MiB, is checked before anything is stored.", command: true,
			body: content{media: []string{mediaLines, mediaOtherLines}},
			query: []parameter{
				{"id", "The id of the new session; if absent, one is generated.", nameSchema()},
				{"model", "The model to continue with, as provider/model; if absent, the agent's, or else the trace's own.", textSchema()},
				{"agent", "The agent to continue as. Its definition is used for settings that no other parameter gives, in preference to the trace's own.", nameSchema()},
				{"approval_mode", "Which tool calls need a person's approval; if absent, the agent's mode, or else read-only.", schemaOf[schemas.ApprovalMode]()},
				{"workspace", "The directory that file tools work in, on the toolrunner; if absent, the trace's own.", textSchema()},
				{"lenient", "If true, an incomplete last line is left out instead of refused; false by default.", schemaOf[bool]()},
			},
			replies: []reply{{status: 201, says: "The session was created from the trace.", content: document[importedView]()}},
			codes:   []schemas.Code{schemas.CodeUnknownModel, schemas.CodeSessionExists, schemas.CodeDeleted, schemas.CodeNotFound, schemas.CodeAborted},
		}},
		{"GET", "/v1/sessions", g.listSessions, accessToken, operation{
			id: "listSessions", does: "Lists sessions, most recently active first.",
			query: []parameter{
				limitParameter(usualSessions, mostSessions),
				{"cursor", "The next of the previous page; absent for the first page.", textSchema()},
				{"state", "Only sessions in this state.", schemaOf[bus.SessionState]()},
				{"agent", "Only sessions of this agent.", textSchema()},
				{"model", "Only sessions that were created for this model, as provider/model.", textSchema()},
				{"task_status", "Only sessions whose last task ended in one of these ways (see task_status of a session), separated by commas.", listOf(schemaOf[schemas.StopReason]())},
				{"created_since", "Only sessions that were created at this time or later.", timeSchema()},
				{"created_until", "Only sessions that were created before this time.", timeSchema()},
			},
			replies: []reply{{status: 200, says: "A page of sessions. There may be further pages even if this one has few sessions or none; see next.", content: document[sessionsView]()}},
		}},
		{"GET", "/v1/sessions/{id}", g.showSession, accessToken, operation{
			id: "showSession", does: "Describes a session.",
			replies: []reply{{status: 200, says: "The session's settings and current state.", content: document[shownView]()}},
		}},
		{"DELETE", "/v1/sessions/{id}", g.deleteSession, accessToken, operation{
			id: "deleteSession", does: "Deletes a session permanently. A session that runs a task is refused unless force is true.", command: true,
			query: []parameter{{"force", "If true, a running task is aborted first; false by default.", schemaOf[bool]()}},
			replies: []reply{
				{status: 202, says: "The session will be deleted; its data is removed soon.", content: document[accepted]()},
				{status: 204, says: "The session had been deleted already."},
			},
			codes: []schemas.Code{schemas.CodeTaskInProgress},
		}},
		{"PATCH", "/v1/sessions/{id}", g.changeSession, accessToken, operation{
			id: "changeSession", does: "Changes the settings of a session. They take effect at once, also for a running task and for calls that wait for a decision.", command: true, body: document[setRequest]().like(`{"approval_mode":"allow-all"}`),
			replies: []reply{appliedReply()},
		}},
	}
}

// commandRoutes say what sessions are to do.
func (g *Gateway) commandRoutes() []route {
	return []route{
		{"POST", "/v1/sessions/{id}/tasks", g.startTask, accessToken, operation{
			id: "startTask", does: "Starts a task. If the session is busy, when_busy decides whether it is refused, queued, or added to the running task.", command: true, traced: true, body: document[schemas.TaskBody]().like(`{"prompt":"Which files are there?","when_busy":"queue"}`),
			query: []parameter{{"wait", "How many seconds to wait for the task to end before answering; 0 by default.", numberSchema(0, int(maxWait.Seconds()))}},
			replies: []reply{
				{status: 202, says: "The task was accepted and has not ended. command_id is its id; stream from cursor to follow it.", content: document[accepted]()},
				{status: 200, says: "The task ended within the time given by wait; result is what came of it.", content: document[accepted]()},
			},
			codes: []schemas.Code{schemas.CodeTaskInProgress, schemas.CodeQueueFull, schemas.CodeUnsupported, schemas.CodeHasHistory},
		}},
		{"DELETE", "/v1/sessions/{id}/tasks/{task}", g.withdraw, accessToken, operation{
			id: "withdrawTask", does: "Withdraws a queued task.", command: true,
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotPending},
		}},
		{"POST", "/v1/sessions/{id}/steer", g.steer, accessToken, operation{
			id: "steer", does: "Adds a prompt to the running task. The model gets it with its next request.", command: true, traced: true, body: document[steerRequest]().like(`{"prompt":"Leave the tests alone."}`),
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotRunning, schemas.CodeQueueFull, schemas.CodeUnsupported, schemas.CodeHasHistory},
		}},
		{"POST", "/v1/sessions/{id}/approvals/{call}", g.decide, accessToken, operation{
			id: "decide", does: "Approves or denies a tool call that waits for a decision.", command: true, body: document[decisionRequest]().like(`{"decision":"allow","hash":"5d41402abc4b2a76"}`),
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotPending, schemas.CodeHashMismatch},
		}},
		{"POST", "/v1/sessions/{id}/abort", g.abort, accessToken, operation{
			id: "abort", does: "Aborts the running task. The next queued task then starts, unless drop_queue is true.", command: true, body: document[abortRequest]().like(`{"reason":"It goes in circles."}`), optional: true,
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotRunning},
		}},
		{"POST", "/v1/sessions/{id}/retry-now", g.retryNow, accessToken, operation{
			id: "retryNow", does: "Skips the wait before the next attempt of a failed model request.", command: true, body: document[struct{}]().like(`{}`), optional: true,
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotRunning, schemas.CodeNotPending},
		}},
	}
}

// historyRoutes tell what happened and happens in a session.
func (g *Gateway) historyRoutes() []route {
	return []route{
		{"GET", "/v1/sessions/{id}/messages", g.showMessages, accessToken, operation{
			id: "showMessages", does: "Pages through the recorded messages of a session. The last page also has messages that are still incomplete, and the cursor from which the stream continues.",
			query:   []parameter{{"after", "The next of the previous page; absent for the first page.", cursorSchema()}, limitParameter(usualMessages, mostMessages)},
			replies: []reply{{status: 200, says: "A page of messages, in order.", content: document[messagesView]()}},
			codes:   []schemas.Code{schemas.CodeConflict, schemas.CodeTooMany},
		}},
		{"GET", "/v1/sessions/{id}/trace", g.exportTrace, accessToken, operation{
			id: "exportTrace", does: "Exports the trace of a session: every recorded message, one per line. If the export fails midway, the connection is cut, so that it can't be mistaken for a complete one.",
			replies: []reply{{status: 200, says: "The trace, as JSON Lines.", content: content{media: []string{mediaLines}}}},
		}},
		{"GET", "/v1/sessions/{id}/stream", g.stream, accessTokenOrQuery, operation{
			id: "streamSession", does: "Streams a session as server-sent events, until the client disconnects or the session is deleted.",
			query: []parameter{
				{"include", "Include the prompts, and the conversations that came with them; left out by default.", oneOf("prompt")},
				{"view", "stream (the default): every message, as it arrives. turns: results, turn by turn.", oneOf(viewStream, viewTurns)},
				lastEventParameter(),
			},
			resumes: true,
			replies: []reply{{status: 200, says: "The stream. Messages have an id to resume from; their schema depends on view.", content: eventStream(map[string]object{
				"message":      {"anyOf": []any{schemaOf[schemas.Message](), schemaOf[schemas.TurnEvent]()}},
				eventTaskState: schemaOf[stateView](),
				eventResync:    schemaOf[resyncView](),
				eventDeleted:   schemaOf[struct{}](),
			})}},
		}},
	}
}

// projectRoutes are about all sessions together, and about the API itself.
func (g *Gateway) projectRoutes() []route {
	return []route{
		{"GET", "/v1/events", g.streamProject, accessTokenOrQuery, operation{
			id: "streamProject", does: "Streams the changes of all sessions as server-sent events. An event comes when a session is created, runs, waits for a person, becomes idle or is deleted. To keep a list up to date, wait for the event watching before listing the sessions.",
			query:   []parameter{lastEventParameter()},
			resumes: true,
			replies: []reply{{status: 200, says: "The stream. Each message describes how a session is now; fast changes are reported once.", content: eventStream(map[string]object{
				"message":     schemaOf[shownView](),
				eventDeleted:  schemaOf[deletedView](),
				eventWatching: schemaOf[watchingView](),
				eventResync:   schemaOf[resyncView](),
			})}},
		}},
		{"GET", "/v1/usage", g.showUsage, accessToken, operation{
			id: "showUsage", does: "Reports usage by day and model. Deleted sessions are not included.",
			query: []parameter{
				{"from", "The first day, in UTC; if absent, the report covers 30 days, or all days of a single session.", daySchema()},
				{"to", "The last day, in UTC, included; today by default.", daySchema()},
				{"session", "Only this session.", nameSchema()},
			},
			replies: []reply{{status: 200, says: "The usage report.", content: document[bus.UsageReport]()}},
			codes:   []schemas.Code{schemas.CodeTooLarge, schemas.CodeUnknownSession, schemas.CodeDeleted},
		}},
		{"GET", "/v1/failures", g.listFailures, accessToken, operation{
			id: "listFailures", does: "Lists the tasks, model requests, tool calls and compactions that failed, most recent first. What a person aborted or denied is not listed, nor are failures of deleted sessions.",
			query: []parameter{
				limitParameter(usualFailures, mostFailures),
				{"cursor", "The next of the previous page; absent for the first page.", textSchema()},
				{"kind", "Only failures of these kinds, separated by commas.", listOf(schemaOf[bus.FailureKind]())},
				{"since", "Only failures at this time or later.", timeSchema()},
			},
			replies: []reply{{status: 200, says: "A page of failures. There may be further pages even if this one has few failures or none; see next.", content: document[bus.FailuresPage]()}},
		}},
		{"GET", "/v1/models", g.listModels, accessToken, operation{
			id: "listModels", does: "Lists the models that an engine knows, with their prices.",
			replies: []reply{{status: 200, says: "The models; the listed providers may serve others.", content: document[bus.ModelList]()}},
		}},
		{"GET", "/v1/tools", g.listTools, accessToken, operation{
			id: "listTools", does: "Lists the tools that toolrunners offer at the moment.",
			replies: []reply{{status: 200, says: "The tools, and any conflicting definitions of them.", content: document[toolsView]()}},
		}},
		{"GET", "/v1/openapi.json", g.showAPI, accessToken, operation{
			id: "showAPI", does: "Returns this description of the API, in OpenAPI 3.1.",
			replies: []reply{{status: 200, says: "This document.", content: content{media: []string{mediaJSON}, schema: object{"type": "object"}}}},
		}},
	}
}

// routes is the table as a handler.
func (g *Gateway) routes(table []route) http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range table {
		mux.Handle(r.method+" "+r.path, g.serveRoute(r))
		methods[r.path] = append(methods[r.path], r.method)
	}
	delete(methods, "/v1/sessions/import") // any other method means the session of that name
	for path, allowed := range methods {
		if slices.Contains(allowed, http.MethodGet) { // the mux serves it for each GET
			allowed = append(allowed, http.MethodHead)
		}
		slices.Sort(allowed)
		mux.Handle(path, g.serveRoute(route{path: path, handle: methodNotAllowed(strings.Join(allowed, ", "))}))
	}
	mux.Handle("/", g.serveRoute(route{path: "/", handle: func(_ http.ResponseWriter, _ *http.Request) error {
		return schemas.Errorf(schemas.CodeNotFound, "this gateway serves no such path")
	}}))
	return mux
}

func (g *Gateway) serveRoute(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		err := g.guard.admit(request, r.access)
		if err == nil && r.described() && r.access != accessOpen {
			err = checkQuery(request.URL.RawQuery, r.parameters())
		}
		if err == nil {
			err = r.handle(w, request)
		}
		if err != nil {
			g.fail(w, request, err)
		}
	})
}

// parameters are what may stand in the route's query.
func (r route) parameters() []parameter {
	if r.access == accessTokenOrQuery {
		return append(slices.Clip(r.query), parameter{"token", "The token, for clients that can't send headers.", textSchema()})
	}
	return r.query
}

// checkQuery refuses a query that holds anything but known parameters, each once.
func checkQuery(query string, known []parameter) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return schemas.Errorf(schemas.CodeInvalid, "the query string is malformed")
	}
	for name, given := range values {
		switch {
		case !slices.ContainsFunc(known, func(p parameter) bool { return p.name == name }):
			return &schemas.Error{Code: schemas.CodeInvalid, Field: shorten(name), Message: "there is no such parameter"}
		case len(given) > 1:
			return &schemas.Error{Code: schemas.CodeInvalid, Field: name, Message: "the parameter is given twice"}
		}
	}
	return nil
}

func methodNotAllowed(allowed string) handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Allow", allowed)
		return schemas.Errorf(codeMethodNotAllowed, "this path takes %s", allowed)
	}
}
