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
			id: "health", does: "Says that the process answers, nothing more.",
			replies: []reply{{status: 200, says: "It does.", content: document[probeView]()}},
		}},
		{"GET", "/readyz", g.readyz, accessOpen, operation{
			id: "ready", does: "Says whether the broker is reached and an engine answers.",
			replies: []reply{{status: 200, says: "Both.", content: document[probeView]()}},
			codes:   []schemas.Code{schemas.CodeUnavailable, schemas.CodeInternal},
		}},
	}
}

// sessionRoutes are about sessions as wholes.
func (g *Gateway) sessionRoutes() []route {
	return []route{
		{"POST", "/v1/sessions", g.createSession, accessToken, operation{
			id: "createSession", does: "Creates a session.", command: true, body: document[createRequest]().like(`{"model":"shell/demo","approval_mode":"always-ask","limits":{"max_turns":20}}`),
			replies: []reply{{status: 201, says: "It is created, or was by the same request before.", content: document[createdView]()}},
			codes:   []schemas.Code{schemas.CodeUnknownModel, schemas.CodeSessionExists, schemas.CodeDeleted},
		}},
		{"POST", "/v1/sessions/import", g.importSession, accessToken, operation{
			id: "importSession", does: "Makes a session of a trace. Every line is looked at before anything is stored.", command: true,
			body: content{media: []string{mediaLines, mediaOtherLines}},
			query: []parameter{
				{"id", "The session's name; one is made up if there is none.", nameSchema()},
				{"model", "provider/model that goes on with it; else the agent's, else the trace's own.", textSchema()},
				{"agent", "The agent as which it goes on: its definition says what the other parameters leave open, before the trace does.", nameSchema()},
				{"approval_mode", "Who decides on tool calls.", schemaOf[schemas.ApprovalMode]()},
				{"workspace", "Where tools that touch files run.", textSchema()},
				{"lenient", "true: leave out a last line that is torn.", schemaOf[bool]()},
			},
			replies: []reply{{status: 201, says: "It is imported.", content: document[importedView]()}},
			codes:   []schemas.Code{schemas.CodeUnknownModel, schemas.CodeSessionExists, schemas.CodeDeleted, schemas.CodeNotFound, schemas.CodeAborted},
		}},
		{"GET", "/v1/sessions", g.listSessions, accessToken, operation{
			id: "listSessions", does: "Lists sessions, those with the latest activity first.",
			query: []parameter{
				limitParameter(usualSessions, mostSessions),
				{"cursor", "next of the page before.", textSchema()},
				{"state", "What they are doing.", schemaOf[bus.SessionState]()},
				{"agent", "Whose they are.", textSchema()},
				{"model", "provider/model that they were made for.", textSchema()},
				{"task_status", "How their last task ended, as session.task_status says it: one of these ways.", listOf(schemaOf[schemas.StopReason]())},
				{"created_since", "They are not older; included.", timeSchema()},
				{"created_until", "They are older.", timeSchema()},
			},
			replies: []reply{{status: 200, says: "A page of them. One of few, or of none, may have a next page.", content: document[sessionsView]()}},
		}},
		{"GET", "/v1/sessions/{id}", g.showSession, accessToken, operation{
			id: "showSession", does: "Describes a session.",
			replies: []reply{{status: 200, says: "What it is and does.", content: document[shownView]()}},
		}},
		{"DELETE", "/v1/sessions/{id}", g.deleteSession, accessToken, operation{
			id: "deleteSession", does: "Deletes a session, for good.", command: true,
			query: []parameter{{"force", "true: also one that runs a task.", schemaOf[bool]()}},
			replies: []reply{
				{status: 202, says: "It is decided: nothing is left of it soon.", content: document[accepted]()},
				{status: 204, says: "It was deleted before."},
			},
			codes: []schemas.Code{schemas.CodeTaskInProgress},
		}},
		{"PATCH", "/v1/sessions/{id}", g.changeSession, accessToken, operation{
			id: "changeSession", does: "Changes how a session goes on.", command: true, body: document[setRequest]().like(`{"approval_mode":"allow-all"}`),
			replies: []reply{appliedReply()},
		}},
	}
}

// commandRoutes say what sessions are to do.
func (g *Gateway) commandRoutes() []route {
	return []route{
		{"POST", "/v1/sessions/{id}/tasks", g.startTask, accessToken, operation{
			id: "startTask", does: "Starts a task, or has it wait as when_busy says.", command: true, traced: true, body: document[schemas.TaskBody]().like(`{"prompt":"Which files are there?","when_busy":"queue"}`),
			query: []parameter{{"wait", "Seconds that the answer may wait for the task's end.", numberSchema(0, int(maxWait.Seconds()))}},
			replies: []reply{
				{status: 202, says: "It is taken. command_id is the task's id; watch from cursor.", content: document[accepted]()},
				{status: 200, says: "It has ended, in the time that wait gave it.", content: document[accepted]()},
			},
			codes: []schemas.Code{schemas.CodeTaskInProgress, schemas.CodeQueueFull, schemas.CodeUnsupported, schemas.CodeHasHistory},
		}},
		{"DELETE", "/v1/sessions/{id}/tasks/{task}", g.withdraw, accessToken, operation{
			id: "withdrawTask", does: "Takes back a task that waits.", command: true,
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotPending},
		}},
		{"POST", "/v1/sessions/{id}/steer", g.steer, accessToken, operation{
			id: "steer", does: "Adds a prompt to the running task.", command: true, traced: true, body: document[steerRequest]().like(`{"prompt":"Leave the tests alone."}`),
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotRunning, schemas.CodeQueueFull, schemas.CodeUnsupported, schemas.CodeHasHistory},
		}},
		{"POST", "/v1/sessions/{id}/approvals/{call}", g.decide, accessToken, operation{
			id: "decide", does: "Decides on a tool call that waits for it.", command: true, body: document[decisionRequest]().like(`{"decision":"allow","hash":"5d41402abc4b2a76"}`),
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotPending, schemas.CodeHashMismatch},
		}},
		{"POST", "/v1/sessions/{id}/abort", g.abort, accessToken, operation{
			id: "abort", does: "Ends the running task.", command: true, body: document[abortRequest]().like(`{"reason":"It goes in circles."}`), optional: true,
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotRunning},
		}},
		{"POST", "/v1/sessions/{id}/retry-now", g.retryNow, accessToken, operation{
			id: "retryNow", does: "Ends the announced wait before the next attempt.", command: true, body: document[struct{}]().like(`{}`), optional: true,
			replies: []reply{appliedReply()},
			codes:   []schemas.Code{schemas.CodeNotRunning, schemas.CodeNotPending},
		}},
	}
}

// historyRoutes tell what happened and happens in a session.
func (g *Gateway) historyRoutes() []route {
	return []route{
		{"GET", "/v1/sessions/{id}/messages", g.showMessages, accessToken, operation{
			id: "showMessages", does: "Pages through the history. The last page also has what is being said now, and the cursor from which the stream goes on.",
			query:   []parameter{{"after", "next of the page before: a cursor.", cursorSchema()}, limitParameter(usualMessages, mostMessages)},
			replies: []reply{{status: 200, says: "A page of it.", content: document[messagesView]()}},
			codes:   []schemas.Code{schemas.CodeConflict, schemas.CodeTooMany},
		}},
		{"GET", "/v1/sessions/{id}/trace", g.exportTrace, accessToken, operation{
			id: "exportTrace", does: "Exports the trace: every recorded message, one a line. A connection that breaks before the end is cut, never closed in order.",
			replies: []reply{{status: 200, says: "The trace.", content: content{media: []string{mediaLines}}}},
		}},
		{"GET", "/v1/sessions/{id}/stream", g.stream, accessTokenOrQuery, operation{
			id: "streamSession", does: "Streams a session as server-sent events, until the client leaves.",
			query: []parameter{
				{"include", "prompt: also what tasks were given.", oneOf("prompt")},
				{"view", "stream: every message, as it comes; turns: results, turn by turn.", oneOf(viewStream, viewTurns)},
				lastEventParameter(),
			},
			resumes: true,
			replies: []reply{{status: 200, says: "The stream.", content: eventStream(map[string]object{
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
			id: "streamProject", does: "Tells of all sessions as server-sent events: each that begins, runs, waits, rests or is deleted.",
			query:   []parameter{lastEventParameter()},
			resumes: true,
			replies: []reply{{status: 200, says: "The stream.", content: eventStream(map[string]object{
				"message":     schemaOf[shownView](),
				eventDeleted:  schemaOf[deletedView](),
				eventWatching: schemaOf[watchingView](),
				eventResync:   schemaOf[resyncView](),
			})}},
		}},
		{"GET", "/v1/usage", g.showUsage, accessToken, operation{
			id: "showUsage", does: "Tells what the sessions used that are not deleted, by day and model.",
			query: []parameter{
				{"from", "The first day, in UTC; absent: 30 days in all, of a session all.", daySchema()},
				{"to", "The last day, included; absent: today.", daySchema()},
				{"session", "The session alone.", nameSchema()},
			},
			replies: []reply{{status: 200, says: "What they used.", content: document[bus.UsageReport]()}},
			codes:   []schemas.Code{schemas.CodeTooLarge, schemas.CodeUnknownSession, schemas.CodeDeleted},
		}},
		{"GET", "/v1/models", g.listModels, accessToken, operation{
			id: "listModels", does: "Lists the models that the engine knows that answers, with their prices.",
			replies: []reply{{status: 200, says: "The models; providers may serve others.", content: document[bus.ModelList]()}},
		}},
		{"GET", "/v1/tools", g.listTools, accessToken, operation{
			id: "listTools", does: "Lists the tools that toolrunners offer now.",
			replies: []reply{{status: 200, says: "The tools.", content: document[toolsView]()}},
		}},
		{"GET", "/v1/openapi.json", g.showAPI, accessToken, operation{
			id: "showAPI", does: "Describes this API: OpenAPI 3.1.",
			replies: []reply{{status: 200, says: "The document that you read.", content: content{media: []string{mediaJSON}, schema: object{"type": "object"}}}},
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
		return append(slices.Clip(r.query), parameter{"token", "The token, for those who can't send headers.", textSchema()})
	}
	return r.query
}

// checkQuery refuses a query that holds anything but known parameters, each once.
func checkQuery(query string, known []parameter) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return schemas.Errorf(schemas.CodeInvalid, "the query can't be read")
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
