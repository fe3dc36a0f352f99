package gateway

import (
	"net/http"
	"strings"
	"testing"

	"braid/schemas"
)

const (
	traceMeta   = `{"timestamp":"2026-11-30T08:00:00.000Z","type":"session_meta","payload":{"session_id":"old","provider":"shell","model_id":"demo","system_prompt":"","workspace":""}}`
	tracePrompt = `{"timestamp":"2026-11-30T08:00:01.000Z","type":"model_msg","payload":{"type":"text","role":"user","text":"hi"}}`
)

var ndjson = header("Content-Type", "application/x-ndjson")

// What can't be imported is refused where it is wrong, and no session is made.
func TestImportRefusals(t *testing.T) {
	w := newWorld(t)
	for _, row := range []struct {
		name, query, body string
		edits             []edit
		status            int
		field             string
	}{
		{"another media type", "", traceMeta, nil, 415, ""},
		{"a parameter that is none", "?colour=red", traceMeta, []edit{ndjson}, 400, "colour"},
		{"an id that is no name", "?id=a.b", traceMeta, []edit{ndjson}, 400, "id"},
		{"a model that is none", "?model=x", traceMeta, []edit{ndjson}, 400, "model"},
		{"a mode nobody knows", "?approval_mode=x", traceMeta, []edit{ndjson}, 400, "approval_mode"},
		{"an agent that is no name", "?agent=*", traceMeta, []edit{ndjson}, 400, "agent"},
		{"a flag that is none", "?lenient=perhaps", traceMeta, []edit{ndjson}, 400, "lenient"},
		{"nothing", "", "\n", []edit{ndjson}, 400, ""},
		{"a line that is no message", "", traceMeta + "\nhello\n" + tracePrompt, []edit{ndjson}, 400, "line 2"},
		{"no session_meta", "", tracePrompt + "\n" + traceMeta, []edit{ndjson}, 400, "line 1"},
		{"a torn last line", "", traceMeta + "\n" + tracePrompt[:30], []edit{ndjson}, 400, "line 2"},
		{"a torn line that is not the last", "?lenient=true", tracePrompt[:30] + "\n" + traceMeta, []edit{ndjson}, 400, "line 1"},
		{"a trace without end", "", traceMeta + strings.Repeat("\n", maxTrace), []edit{ndjson}, 413, ""},
		{"no token", "", traceMeta, []edit{ndjson, header("Authorization", "")}, 401, ""},
	} {
		a := w.do("POST", "/v1/sessions/import"+row.query, row.body, row.edits...)
		if a.status != row.status || a.problem(t).Field != row.field {
			t.Errorf("%s: %d %s, want %d %q", row.name, a.status, a.body, row.status, row.field)
		}
	}
	if n := len(w.engine.sessions); n != 0 {
		t.Errorf("%d sessions were made", n)
	}
}

// A trace becomes a session once, however often it is sent under one key.
func TestImport(t *testing.T) {
	w := newWorld(t)
	key := header(headerIdempotency, "k")
	body := "\xef\xbb\xbf" + traceMeta + "\r\n\r\n" + tracePrompt
	first := w.must(201, "POST", "/v1/sessions/import", body, ndjson, key)
	var made struct {
		Session  sessionView `json:"session"`
		Messages int         `json:"messages"`
	}
	first.decode(t, &made)
	if made.Messages != 2 || made.Session.ID == "" || first.header.Get("Location") != "/v1/sessions/"+made.Session.ID {
		t.Errorf("%s, at %s", first.body, first.header.Get("Location"))
	}
	again := w.must(201, "POST", "/v1/sessions/import", body, header("Content-Type", "application/jsonl"), key)
	if string(again.body) != string(first.body) {
		t.Errorf("the repeat is answered %s, it was %s", again.body, first.body)
	}
	if a := w.do("POST", "/v1/sessions/import", traceMeta, ndjson, key); a.status != 409 || a.problem(t).Code != schemas.CodeConflict {
		t.Errorf("another trace under the same key: %d %s", a.status, a.body)
	}
	if n := w.engine.applied; n != 1 {
		t.Errorf("%d commands were applied", n)
	}
	w.must(201, "POST", "/v1/sessions/import?id=import&lenient=true", traceMeta+"\n"+tracePrompt[:30], ndjson)
	// A session may have the name of the path.
	w.must(200, "GET", "/v1/sessions/import", "")
	if a := w.do("PUT", "/v1/sessions/import", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", a.status)
	}
}

// Under a name that is taken, or was, nothing is imported, and the trace is not even read.
func TestImportUnderATakenName(t *testing.T) {
	w := newWorld(t)
	w.engine.open("there")
	ref := schemas.SessionRef{Project: "default", ID: "gone"}
	w.engine.own(ref)
	if err := w.conn.DeleteSession(testContext(t), ref, "double"); err != nil {
		t.Fatal(err)
	}
	const wrong = "no trace" // which would be said of it
	for _, row := range []struct {
		name, id string
		edits    []edit
		code     schemas.Code
	}{
		{"of a session that is there", "there", nil, schemas.CodeSessionExists},
		{"of one that was deleted", "gone", nil, schemas.CodeDeleted},
		{"of one that was deleted, maybe again", "gone", []edit{header(headerIdempotency, "k")}, schemas.CodeDeleted},
		{"of one that this may have made", "there", []edit{header(headerIdempotency, "k")}, schemas.CodeInvalid},
		{"of none", "new", nil, schemas.CodeInvalid},
	} {
		a := w.do("POST", "/v1/sessions/import?id="+row.id, wrong, append(row.edits, ndjson)...)
		if got := a.problem(t).Code; got != row.code {
			t.Errorf("the name %s: %s, want %s", row.name, got, row.code)
		}
	}
}
