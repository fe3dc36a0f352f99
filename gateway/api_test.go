package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// impatient makes requests that no engine answers fail soon.
func impatient(o *Options) {
	o.CommandWait, o.QueryWait = 300*time.Millisecond, 300*time.Millisecond
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	w.create("busy")
	w.task("busy")
	call := schemas.NewToolCall("c1", "exec", "{}")
	w.engine.session("busy").say(call, &schemas.ApprovalRequest{ToolCallID: "c1", Name: "exec", Arguments: "{}", Hash: "h1"})

	big := `{"prompt":"` + strings.Repeat("x", schemas.MaxPrompt+1) + `"}`
	huge := `{"prompt":"` + strings.Repeat("x", maxTaskBody) + `"}`
	const sessions, tasks, one = "/v1/sessions", "/v1/sessions/s/tasks", "/v1/sessions/s"
	long := strings.Repeat("a", schemas.MaxNameLength+1)
	for _, row := range []struct {
		why, method, path, body string
		edits                   []edit
		status                  int
		code                    schemas.Code
		field                   string
	}{
		{"no token", "GET", one, "", []edit{header("Authorization", "")}, 401, schemas.CodeUnauthorized, ""},
		{"a wrong token", "GET", one, "", []edit{header("Authorization", "Bearer nope")}, 401, schemas.CodeUnauthorized, ""},
		{"another scheme", "GET", one, "", []edit{header("Authorization", "Basic "+testToken)}, 401, schemas.CodeUnauthorized, ""},
		{"a token in the query, where no browser needs it", "GET", one + "?token=" + testToken, "", []edit{header("Authorization", "")}, 401, schemas.CodeUnauthorized, ""},
		{"a wrong token in the query of a stream", "GET", one + "/stream?token=nope", "", []edit{header("Authorization", "")}, 401, schemas.CodeUnauthorized, ""},
		{"two tokens", "GET", one, "", []edit{func(r *http.Request) {
			r.Header["Authorization"] = []string{"Bearer " + testToken, "Bearer nope"}
		}}, 401, schemas.CodeUnauthorized, ""},
		{"a scheme and nothing", "GET", one, "", []edit{header("Authorization", "Bearer")}, 401, schemas.CodeUnauthorized, ""},
		{"no token, and nothing there", "GET", "/nothing", "", []edit{header("Authorization", "")}, 401, schemas.CodeUnauthorized, ""},
		{"a rebound host", "GET", one, "", []edit{func(r *http.Request) { r.Host = "evil.example" }}, 403, schemas.CodeForbidden, ""},
		{"a page of another origin", "POST", tasks, `{"prompt":"x"}`, []edit{header("Origin", "http://evil.example")}, 403, schemas.CodeForbidden, ""},
		{"a page of another port", "POST", tasks, `{"prompt":"x"}`, []edit{header("Origin", "http://127.0.0.1:1")}, 403, schemas.CodeForbidden, ""},
		{"a page without an origin", "POST", tasks, `{"prompt":"x"}`, []edit{header("Origin", "null")}, 403, schemas.CodeForbidden, ""},

		{"nothing there", "GET", "/v2/sessions", "", nil, 404, schemas.CodeNotFound, ""},
		{"a trailing slash", "GET", sessions + "/", "", nil, 400, schemas.CodeInvalid, "path"},
		{"an unknown session", "GET", sessions + "/none", "", nil, 404, schemas.CodeUnknownSession, ""},
		{"its stream", "GET", sessions + "/none/stream", "", nil, 404, schemas.CodeUnknownSession, ""},
		{"its messages", "GET", sessions + "/none/messages", "", nil, 404, schemas.CodeUnknownSession, ""},
		{"its trace", "GET", sessions + "/none/trace", "", nil, 404, schemas.CodeUnknownSession, ""},
		{"a task for it", "POST", sessions + "/none/tasks", `{"prompt":"x"}`, nil, 404, schemas.CodeUnknownSession, ""},
		{"another method", "PUT", one, "", nil, 405, codeMethodNotAllowed, ""},
		{"a get where only posts go", "GET", tasks, "", nil, 405, codeMethodNotAllowed, ""},

		{"a form", "POST", tasks, "prompt=x", []edit{header("Content-Type", "application/x-www-form-urlencoded")}, 415, codeMediaType, ""},
		{"no type", "POST", tasks, `{"prompt":"x"}`, []edit{header("Content-Type", "")}, 415, codeMediaType, ""},
		{"two types", "POST", tasks, `{"prompt":"x"}`, []edit{func(r *http.Request) { r.Header["Content-Type"] = []string{"application/json", "text/plain"} }}, 415, codeMediaType, ""},
		{"another character set", "POST", tasks, `{"prompt":"x"}`, []edit{header("Content-Type", "application/json; charset=latin1")}, 415, codeMediaType, ""},
		{"another one, of a trace", "POST", sessions + "/import", "", []edit{header("Content-Type", "application/jsonl; charset=utf-16")}, 415, codeMediaType, ""},
		{"a compressed body", "POST", tasks, `{"prompt":"x"}`, []edit{header("Content-Encoding", "gzip")}, 415, codeMediaType, ""},
		{"a compressed trace", "POST", sessions + "/import", "", []edit{header("Content-Type", "application/jsonl"), header("Content-Encoding", "br")}, 415, codeMediaType, ""},
		{"no body", "POST", tasks, "", nil, 415, codeMediaType, ""},
		{"no JSON", "POST", tasks, "{", nil, 400, schemas.CodeInvalid, ""},
		{"two documents", "POST", tasks, `{"prompt":"x"} {}`, nil, 400, schemas.CodeInvalid, ""},
		{"an unknown member", "POST", tasks, `{"prompt":"x","promt":"y"}`, nil, 400, schemas.CodeInvalid, "promt"},
		{"a member twice", "POST", tasks, `{"prompt":"x","prompt":"y"}`, nil, 400, schemas.CodeInvalid, "prompt"},
		{"the wrong type", "POST", tasks, `{"prompt":1}`, nil, 400, schemas.CodeInvalid, "prompt"},
		{"no object", "POST", tasks, `["x"]`, nil, 400, schemas.CodeInvalid, ""},
		{"an empty prompt", "POST", tasks, `{"prompt":""}`, nil, 400, schemas.CodeInvalid, "prompt"},
		{"a long prompt", "POST", tasks, big, nil, 413, schemas.CodeTooLarge, "prompt"},
		{"words in the place of parts", "POST", tasks, `{"input":[{"role":"user","content":"x"}]}`, nil, 400, schemas.CodeInvalid, "input[0].content"},
		{"a part nobody knows", "POST", tasks, `{"input":[{"role":"user","content":[{"type":"video"}]}]}`, nil, 400, schemas.CodeInvalid, "input[0].content[0].type"},
		{"a member of a part nobody knows", "POST", tasks, `{"input":[{"role":"user","content":[{"type":"text","text":"x","y":1}]}]}`, nil, 400, schemas.CodeInvalid, "input[0].content[0].y"},
		{"a picture that is none", "POST", tasks, `{"input":[{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,AAAA"}]}]}`, nil, 400, schemas.CodeInvalid, "input[0].content[0].image_url"},
		{"a lone surrogate", "POST", tasks, `{"prompt":"a\ud83d"}`, nil, 400, schemas.CodeInvalid, "prompt"},
		{"a body over the limit", "POST", tasks, huge, nil, 413, schemas.CodeTooLarge, ""},
		{"no model", "POST", sessions, `{}`, nil, 400, schemas.CodeInvalid, "model"},
		{"a model without provider", "POST", sessions, `{"model":"demo"}`, nil, 400, schemas.CodeInvalid, "model"},
		{"a fallback model without provider", "POST", sessions, `{"model":"shell/demo","fallback_models":["a/b","c"]}`, nil, 400, schemas.CodeInvalid, "fallback_models[1]"},
		{"a model to fall back on that was tried", "POST", sessions, `{"model":"shell/demo","fallback_models":["shell/demo"]}`, nil, 400, schemas.CodeInvalid, "fallback_models[0]"},
		{"an id that is no name", "POST", sessions, `{"model":"shell/demo","id":"a.b"}`, nil, 400, schemas.CodeInvalid, "id"},
		{"an unknown mode", "POST", sessions, `{"model":"shell/demo","approval_mode":"maybe"}`, nil, 400, schemas.CodeInvalid, "approval_mode"},
		{"a limit that is none", "POST", sessions, `{"model":"shell/demo","limits":{"max_turns":-2}}`, nil, 400, schemas.CodeInvalid, "limits.max_turns"},
		{"a budget in another form", "POST", sessions, `{"model":"shell/demo","limits":{"max_cost_task_usd":"0.25"}}`, nil, 400, schemas.CodeInvalid, "limits.max_cost_task_usd"},
		{"a budget of less than there is", "POST", sessions, `{"model":"shell/demo","limits":{"max_cost_session_usd":1e-12}}`, nil, 400, schemas.CodeInvalid, "limits.max_cost_session_usd"},
		{"a misspelt limit", "POST", sessions, `{"model":"shell/demo","limits":{"max_turn":2}}`, nil, 400, schemas.CodeInvalid, "limits.max_turn"},
		{"a mode to set that nobody knows", "PATCH", one, `{"approval_mode":"maybe"}`, nil, 400, schemas.CodeInvalid, "approval_mode"},
		{"nothing to set", "PATCH", one, `{}`, nil, 400, schemas.CodeInvalid, "approval_mode"},
		{"what can't be set", "PATCH", one, `{"model":"shell/demo"}`, nil, 400, schemas.CodeInvalid, "model"},
		{"a mode for an unknown session", "PATCH", sessions + "/none", `{"approval_mode":"allow-all"}`, nil, 404, schemas.CodeUnknownSession, ""},
		{"a decision due before it is asked for", "POST", sessions, `{"model":"shell/demo","approval_timeout_ms":-1}`, nil, 400, schemas.CodeInvalid, "approval_timeout_ms"},
		{"a long reason", "POST", one + "/abort", `{"reason":"` + strings.Repeat("x", schemas.MaxReason+1) + `"}`, nil, 413, schemas.CodeTooLarge, "reason"},
		{"an odd decision", "POST", "/v1/sessions/busy/approvals/c1", `{"decision":"forbidden"}`, nil, 400, schemas.CodeInvalid, "decision"},
		{"a call that is no name", "POST", "/v1/sessions/busy/approvals/c.1", `{"decision":"allow"}`, nil, 400, schemas.CodeInvalid, "tool_call_id"},
		{"a key that is no name", "POST", tasks, `{"prompt":"x"}`, []edit{header(headerIdempotency, "a b")}, 400, schemas.CodeInvalid, headerIdempotency},
		{"an empty key", "POST", tasks, `{"prompt":"x"}`, []edit{header(headerIdempotency, "")}, 400, schemas.CodeInvalid, headerIdempotency},
		{"two keys", "POST", tasks, `{"prompt":"x"}`, []edit{func(r *http.Request) { r.Header[headerIdempotency] = []string{"a", "b"} }}, 400, schemas.CodeInvalid, headerIdempotency},
		{"a long key", "POST", tasks, `{"prompt":"x"}`, []edit{header(headerIdempotency, long)}, 400, schemas.CodeInvalid, headerIdempotency},

		{"no limit", "GET", sessions + "?limit=0", "", nil, 400, schemas.CodeInvalid, "limit"},
		{"an odd limit", "GET", one + "/messages?limit=x", "", nil, 400, schemas.CodeInvalid, "limit"},
		{"an unknown parameter", "GET", sessions + "?page=2", "", nil, 400, schemas.CodeInvalid, "page"},
		{"a parameter twice", "GET", sessions + "?limit=2&limit=3", "", nil, 400, schemas.CodeInvalid, "limit"},
		{"an odd cursor", "GET", one + "/messages?after=7", "", nil, 400, schemas.CodeInvalid, "after"},
		{"a cursor of another stream", "GET", one + "/messages?after=old-7.0", "", nil, 409, schemas.CodeConflict, "after"},
		{"an unknown view", "GET", one + "/stream?view=words", "", nil, 400, schemas.CodeInvalid, "view"},
		{"an empty view", "GET", one + "/stream?view=", "", nil, 400, schemas.CodeInvalid, "view"},
		{"prompts in the view of turns", "GET", one + "/stream?view=turns&include=prompt", "", nil, 400, schemas.CodeInvalid, "include"},
		{"a place amid a message, in the view of messages", "GET", one + "/stream?last_event_id=a-7.0.1", "", nil, 400, schemas.CodeInvalid, "last_event_id"},
		{"no place at all", "GET", one + "/stream?view=turns&last_event_id=a-7.0.0", "", nil, 400, schemas.CodeInvalid, "last_event_id"},
		{"an id of no event of the project", "GET", "/v1/events?last_event_id=" + long, "", nil, 400, schemas.CodeInvalid, "last_event_id"},
		{"an unknown inclusion", "GET", one + "/stream?include=all", "", nil, 400, schemas.CodeInvalid, "include"},

		{"a session that exists", "POST", sessions, `{"model":"shell/demo","id":"s"}`, nil, 409, schemas.CodeSessionExists, ""},
		{"a second task", "POST", "/v1/sessions/busy/tasks", `{"prompt":"x"}`, nil, 409, schemas.CodeTaskInProgress, ""},
		{"an abort at rest", "POST", one + "/abort", "", nil, 409, schemas.CodeNotRunning, ""},
		{"a retry at rest", "POST", one + "/retry-now", "", nil, 409, schemas.CodeNotRunning, ""},
		{"a retry of something", "POST", one + "/retry-now", `{"request":1}`, nil, 400, schemas.CodeInvalid, "request"},
		{"a call that does not wait", "POST", "/v1/sessions/busy/approvals/c2", `{"decision":"allow"}`, nil, 409, schemas.CodeNotPending, ""},
		{"another call than was seen", "POST", "/v1/sessions/busy/approvals/c1", `{"decision":"allow","hash":"h2"}`, nil, 409, schemas.CodeHashMismatch, ""},
	} {
		t.Run(row.why, func(t *testing.T) {
			a := w.do(row.method, row.path, row.body, row.edits...)
			problem := a.problem(t)
			if a.status != row.status || problem.Code != row.code || problem.Field != row.field || problem.Message == "" {
				t.Errorf("%d %s, want %d %s %q", a.status, a.body, row.status, row.code, row.field)
			}
			if got := a.header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Cache-Control") == "" {
				t.Errorf("headers %v", a.header)
			}
			if row.status == 401 && a.header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
			if row.status == 405 && a.header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
}

// Names of schemes are the same in any case, and as many blanks as anybody likes may follow.
func TestTokensThatAreTaken(t *testing.T) {
	w := newWorld(t)
	for _, given := range []string{"Bearer " + testToken, "bearer " + testToken, "BEARER   " + testToken} {
		w.must(200, "GET", "/v1/sessions", "", header("Authorization", given))
	}
}

// What is served for a GET is served for a HEAD, and Allow says so.
func TestAllow(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{"/v1/sessions": "GET, HEAD, POST", "/v1/sessions/s/tasks": "POST", "/": "GET, HEAD"} {
		if got := w.must(405, "OPTIONS", path, "").header.Get("Allow"); got != want {
			t.Errorf("%s takes %s, want %s", path, got, want)
		}
	}
	w.must(200, "HEAD", "/v1/sessions", "")
}

// A body that is announced as too large is refused before it is sent, if the client waits for that.
func TestTooLargeABodyIsNotAskedFor(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	for path, media := range map[string]string{"/v1/sessions/s/tasks": mediaJSON, "/v1/sessions/import": mediaLines} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1"+path, iotest.ErrReader(errors.New("nothing may be read")))
		r.ContentLength = maxTrace + 1
		r.Header.Set("Authorization", "Bearer "+testToken)
		r.Header.Set("Content-Type", media)
		r.Header.Set("Expect", "100-continue")
		answer := httptest.NewRecorder()
		w.g.Handler().ServeHTTP(answer, r)
		if answer.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
}

// Names of character sets are the same in any case, and one of the first half of UTF-8 is UTF-8.
func TestMediaTypesThatAreTaken(t *testing.T) {
	w := newWorld(t)
	for _, given := range []string{"application/json", "Application/JSON", `application/json; charset="UTF-8"`, "application/json;charset=us-ascii", "application/json; odd=x"} {
		w.must(201, "POST", "/v1/sessions", `{"model":"shell/demo"}`, header("Content-Type", given), header("Content-Encoding", "identity"))
	}
}

func TestCase_B16_OddIDsNeverReachASubject(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	w.task("s")
	for _, id := range []string{
		"*", "%3E", "a.b", "a%20b", "%C3%A9", strings.Repeat("a", 300), "x%0D%0APUB%20y%200", "..%2Fs", "%2E%2E", "$SYS", "s%00",
	} {
		for _, path := range []string{"", "/stream", "/messages", "/trace"} {
			if a := w.do("GET", "/v1/sessions/"+id+path, ""); a.status != http.StatusBadRequest {
				t.Errorf("GET %s%s: %d %s", id, path, a.status, a.body)
			}
		}
		for _, path := range []string{"/tasks", "/abort", "/approvals/c", "/retry-now"} {
			if a := w.do("POST", "/v1/sessions/"+id+path, `{}`); a.status != http.StatusBadRequest {
				t.Errorf("POST %s%s: %d %s", id, path, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/v1/sessions//stream", "/v1/sessions/./stream", "/v1/sessions/s/../s", "//v1/sessions"} {
		if a := w.do("GET", path, ""); a.status != http.StatusBadRequest {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
}

func TestCommands(t *testing.T) {
	w := newWorld(t)
	var made struct {
		CommandID string      `json:"command_id"`
		Session   sessionView `json:"session"`
	}
	a := w.must(201, "POST", "/v1/sessions", `{"model":"shell/demo","system_prompt":"be kind","approval_mode":"always-ask","approval_timeout_ms":60000,"workspace":"w","agent":"a","limits":{"max_turns":3}}`)
	a.decode(t, &made)
	if !schemas.ValidName(made.Session.ID) || made.Session.State != bus.StateIdle || made.Session.Model != "shell/demo" {
		t.Errorf("created %+v", made)
	}
	if a.header.Get(headerIdempotency) != made.CommandID || a.header.Get("Location") != "/v1/sessions/"+made.Session.ID {
		t.Errorf("headers %v", a.header)
	}
	id := made.Session.ID
	w.task(id)
	s := w.engine.session(id)
	s.say(schemas.NewToolCall("c1", "exec", "{}"), &schemas.ApprovalRequest{ToolCallID: "c1", Name: "exec", Arguments: "{}", Hash: "h1"})
	var shown struct {
		Session sessionView `json:"session"`
	}
	w.must(200, "GET", "/v1/sessions/"+id, "").decode(t, &shown)
	if shown.Session.State != bus.StateWaiting || len(shown.Session.Pending) != 1 || shown.Session.Pending[0].Hash != "h1" {
		t.Errorf("shown %+v", shown.Session)
	}
	w.must(202, "POST", "/v1/sessions/"+id+"/retry-now", "")
	w.must(202, "PATCH", "/v1/sessions/"+id, `{"approval_mode":"read-only"}`)
	w.must(202, "POST", "/v1/sessions/"+id+"/approvals/c1", `{"decision":"deny","hash":"h1"}`)
	w.must(202, "POST", "/v1/sessions/"+id+"/abort", `{"reason":"enough"}`)
	if !s.aborted {
		t.Error("not aborted")
	}
	var list struct {
		Sessions []sessionView `json:"sessions"`
	}
	w.must(200, "GET", "/v1/sessions?limit=10", "").decode(t, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].ID != id {
		t.Errorf("listed %+v", list)
	}
	w.must(200, "GET", "/v1/sessions/"+id, "", header("Origin", w.url)) // a page of our own
	if a := w.do("HEAD", "/v1/sessions/"+id+"/stream", ""); a.status != 200 || len(a.body) != 0 {
		t.Errorf("HEAD of a stream: %d %q", a.status, a.body)
	}
}

// A prompt is given where its request stands in a trace, as far as that can be understood; a request is never
// refused for it.
func TestCallers(t *testing.T) {
	w := newWorld(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for i, row := range []struct {
		why      string
		parents  []string
		states   []string
		recorded schemas.TraceContext
	}{
		{"nothing is said", nil, []string{"a=1"}, schemas.TraceContext{}},
		{"a parent", []string{parent}, nil, schemas.TraceContext{TraceParent: parent}},
		{"a state in two headers", []string{parent}, []string{"a=1", "b=2"}, schemas.TraceContext{TraceParent: parent, TraceState: "a=1,b=2"}},
		{"two parents", []string{parent, parent}, nil, schemas.TraceContext{}},
		{"nonsense", []string{"nonsense"}, []string{"a=1"}, schemas.TraceContext{}},
		{"a state without an end", []string{parent}, []string{strings.Repeat("a", 5000)}, schemas.TraceContext{TraceParent: parent}},
	} {
		for _, ask := range []string{"tasks", "steer"} {
			id := fmt.Sprintf("%s-%d", ask, i)
			w.create(id)
			w.must(202, "POST", "/v1/sessions/"+id+"/"+ask, `{"prompt":"x"}`, func(r *http.Request) {
				r.Header["Traceparent"], r.Header["Tracestate"] = row.parents, row.states
			})
			commands, err := w.conn.ReadCommands(testContext(t), schemas.SessionRef{Project: "default", ID: id}, 0, 0)
			if err != nil || len(commands) != 2 || commands[1].Caller != row.recorded {
				t.Errorf("%s, %s: %+v, %v", ask, row.why, commands, err)
			}
		}
	}
}

func TestCase_C22_ARepeatIsNoSecondRun(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	key := header(headerIdempotency, "k1")
	before := w.engine.applied
	first := w.must(202, "POST", "/v1/sessions/s/tasks", `{"prompt":"x"}`, key)
	again := w.must(202, "POST", "/v1/sessions/s/tasks", `{"prompt":"x"}`, key)
	if diff := cmp.Diff(string(first.body), string(again.body)); diff != "" {
		t.Errorf("the repeat got another answer\n%s", diff)
	}
	if a := w.do("POST", "/v1/sessions/s/tasks", `{"prompt":"y"}`, key); a.status != 409 || a.problem(t).Code != schemas.CodeConflict {
		t.Errorf("another prompt under the same key: %d %s", a.status, a.body)
	}
	if n := w.engine.applied - before; n != 1 {
		t.Errorf("%d commands were applied", n)
	}

	// A session without a name: the repeat means the same one.
	one := w.must(201, "POST", "/v1/sessions", `{"model":"shell/demo"}`, header(headerIdempotency, "k2"))
	two := w.must(201, "POST", "/v1/sessions", `{"model":"shell/demo"}`, header(headerIdempotency, "k2"))
	if diff := cmp.Diff(string(one.body), string(two.body)); diff != "" {
		t.Errorf("the repeat made another session\n%s", diff)
	}
}

func TestNoEngine(t *testing.T) {
	t.Parallel()
	broker := bustest.Single(t)
	conn := broker.Conn(t)
	s := serve(t, conn, impatient)
	s.must(200, "GET", "/healthz", "", header("Authorization", ""), func(r *http.Request) { r.Host = "10.0.0.1" })
	d := startDouble(t, conn)
	d.open("s")
	d.stop()
	for _, row := range []struct{ method, path, body string }{
		{"GET", "/readyz", ""},
		{"GET", "/v1/sessions", ""},
		{"GET", "/v1/sessions/s", ""},
		{"GET", "/v1/sessions/s/stream", ""},
		{"GET", "/v1/sessions/s/messages", ""},
		{"GET", "/v1/sessions/s/trace", ""},
		{"POST", "/v1/sessions", `{"model":"shell/demo"}`},
		{"POST", "/v1/sessions/s/tasks", `{"prompt":"x"}`},
	} {
		a := s.do(row.method, row.path, row.body)
		if a.status != 503 || a.header.Get("Retry-After") == "" || a.problem(t).Code != schemas.CodeUnavailable {
			t.Errorf("%s %s: %d %s", row.method, row.path, a.status, a.body)
		}
		if row.method == "POST" && a.header.Get(headerIdempotency) == "" {
			t.Errorf("%s: the answer does not say under which key to try again", row.path)
		}
	}
}

func TestBrokerAway(t *testing.T) {
	t.Parallel()
	broker := bustest.Listening(t)
	conn := broker.Conn(t)
	d := startDouble(t, broker.Conn(t))
	d.open("s")
	s := serve(t, conn, impatient)
	waitFor(t, "ready", func() bool { return s.do("GET", "/readyz", "").status == 200 })
	broker.Stop(0)
	waitFor(t, "the gateway notices", func() bool { return !conn.Connected() })
	for _, row := range []struct{ method, path, body string }{
		{"GET", "/v1/sessions/s", ""},
		{"GET", "/v1/sessions/s/stream", ""},
		{"POST", "/v1/sessions/s/tasks", `{"prompt":"x"}`},
	} {
		if a := s.do(row.method, row.path, row.body); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %s", row.method, row.path, a.status, a.body)
		}
	}
	waitFor(t, "not ready", func() bool { return s.do("GET", "/readyz", "").status == 503 })
	d.stop()
}

func TestLogHoldsNoSecrets(t *testing.T) {
	buffer, log := logBuffer()
	w := newWorld(t, func(o *Options) { o.Log = log })
	w.create("s")
	w.must(202, "POST", "/v1/sessions/s/tasks", `{"prompt":"my-secret-prompt"}`)
	w.do("POST", "/v1/sessions/s/tasks", `{"prompt":"my-secret-prompt","x":1}`)
	e := w.openStream("/v1/sessions/s/stream?token="+testToken, "", header("Authorization", ""))
	e.state()
	e.close()
	w.do("GET", "/v1/sessions/my-secret-prompt%20", "")
	w.stop()
	out := buffer.String()
	for _, secret := range []string{testToken, "my-secret-prompt"} {
		if strings.Contains(out, secret) {
			t.Errorf("the log holds %q:\n%s", secret, out)
		}
	}
	for _, want := range []string{`"route":"GET /v1/sessions/{id}/stream"`, `"session":"s"`, `"status":202`, `"method":"POST"`, `"took":`} {
		if !strings.Contains(out, want) {
			t.Errorf("the log does not hold %s:\n%s", want, out)
		}
	}
}

func TestOptions(t *testing.T) {
	conn := bustest.Single(t).Conn(t)
	for _, row := range []struct {
		why string
		o   Options
	}{
		{"no connection", Options{Token: "x"}},
		{"no token", Options{Conn: conn}},
		{"an odd project", Options{Conn: conn, Token: "x", Project: "a.b"}},
	} {
		if _, err := New(row.o); err == nil {
			t.Errorf("%s: accepted", row.why)
		}
	}
	s := serve(t, conn, func(o *Options) { o.Hosts = []string{"Braid.example"} })
	if a := s.do("GET", "/nothing", "", func(r *http.Request) { r.Host = "braid.example:8443" }); a.status != 404 {
		t.Errorf("a configured host: %d %s", a.status, a.body)
	}
}

func TestTrace(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	w.task("s")
	s := w.engine.session("s")
	for _, word := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		s.say(schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, word),
			schemas.TextFragment(schemas.PhaseStop, ""), schemas.AssistantText(word))
	}
	a := w.must(200, "GET", "/v1/sessions/s/trace", "")
	if got := a.header.Get("Content-Type"); got != "application/x-ndjson" {
		t.Errorf("content type %q", got)
	}
	var want strings.Builder
	rows, _ := s.recorded(schemas.Position{}, 1000)
	for _, m := range rows {
		line, _ := schemas.Encode(m.Message)
		want.Write(append(line, '\n'))
	}
	if diff := cmp.Diff(want.String(), string(a.body)); diff != "" {
		t.Errorf("(-recorded +exported)\n%s", diff)
	}
	// An export that breaks off must not look whole.
	w.engine.refuse(func(q bus.Query) bool {
		var args bus.ExportArgs
		return q.Op == bus.QueryExport && (q.DecodeArgs(&args) != nil || args.After != schemas.Position{})
	})
	response, err := w.request(testContext(t), "GET", "/v1/sessions/s/trace", "")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the end of a broken export was clean")
	}
}
