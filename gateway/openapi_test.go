package gateway

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"braid/schemas"
)

// described is the API's description, against which all answers of this package's tests are held.
type described struct {
	routes   map[string]route // by pattern
	mux      *http.ServeMux
	document map[string]any
	compiler *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

const documentURL = "https://braid.example/api"

var theAPI = sync.OnceValues(func() (*described, error) {
	table := (&Gateway{}).table()
	text, err := describeAPI(table)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &described{
		routes: map[string]route{}, mux: http.NewServeMux(), document: document.(map[string]any),
		compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{},
	}
	for _, r := range table {
		d.routes[r.method+" "+r.path] = r
		d.mux.Handle(r.method+" "+r.path, http.NotFoundHandler())
	}
	types, err := newTypes()
	if err != nil {
		return nil, err
	}
	// Clients are to expect new members of answers; tests are to miss none.
	for name, schema := range d.at("components", "schemas") {
		if _, kept := types.kept[name]; !kept {
			schema.(map[string]any)["additionalProperties"] = false
		}
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	return d, d.compiler.AddResource(documentURL, document)
})

func api(t testing.TB) *described {
	t.Helper()
	d, err := theAPI()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// at is an object of the document; nil if there is none.
func (d *described) at(path ...string) map[string]any {
	at := d.document
	for _, name := range path {
		at, _ = at[name].(map[string]any)
	}
	return at
}

// schema compiles the schema at a place of the document.
func (d *described) schema(t testing.TB, path ...string) *jsonschema.Schema {
	t.Helper()
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	pointer := "#"
	for _, name := range path {
		pointer += "/" + escape.Replace(name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[pointer]; s != nil {
		return s
	}
	s, err := d.compiler.Compile(documentURL + pointer)
	if err != nil {
		t.Fatalf("the description at %s: %v", pointer, err)
	}
	d.compiled[pointer] = s
	return s
}

// holds checks a document against the schema at a place.
func (d *described) holds(t testing.TB, what, text string, path ...string) {
	t.Helper()
	if d.at(path[:len(path)-1]...)[path[len(path)-1]] == nil {
		return // nothing is said
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = d.schema(t, path...).Validate(value)
	}
	if err != nil {
		t.Errorf("%s is not as described: %.2000s\n%v", what, text, err)
	}
}

// route finds the route of a request; false if none is described.
func (d *described) route(method, path string) (route, bool) {
	_, pattern := d.mux.Handler(httptest.NewRequest(method, path, nil))
	r, ok := d.routes[pattern]
	return r, ok && r.described()
}

// check holds an answer, and a request that was accepted, against the description.
func (d *described) check(t testing.TB, method, path, body string, a answer) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	r, ok := d.route(method, path)
	if method == http.MethodHead || !ok || strings.Contains(path, "//") {
		return
	}
	what := method + " " + r.path
	status := strconv.Itoa(a.status)
	place := []string{"paths", r.path, strings.ToLower(r.method)}
	response := append(slices.Clip(place), "responses", status)
	if d.at(response...) == nil {
		t.Errorf("%s: the answer %s is not described: %.500s", what, status, a.body)
		return
	}
	media := a.header.Get("Content-Type")
	if contents := d.at(append(slices.Clip(response), "content")...); len(contents) > 0 && contents[media] == nil || len(contents) == 0 && len(a.body) > 0 {
		t.Errorf("%s: %s with the type %q is not described", what, status, media)
	}
	if media == mediaJSON {
		d.holds(t, what+" "+status, string(a.body), append(slices.Clip(response), "content", mediaJSON, "schema")...)
	}
	if a.status < 300 && body != "" {
		d.holds(t, what+": the request", body, append(slices.Clip(place), "requestBody", "content", mediaJSON, "schema")...)
	}
	for name := range d.at(append(slices.Clip(response), "headers")...) {
		if a.header.Get(name) == "" && name != "Retry-After" {
			t.Errorf("%s %s: no header %s", what, status, name)
		}
	}
}

// checkEvent holds an event of a stream against the description.
func (d *described) checkEvent(t testing.TB, path string, e event) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	r, ok := d.route("GET", path)
	if !ok {
		t.Errorf("the stream %s is not described", path)
		return
	}
	name := e.name
	if name == "" {
		name = "message"
	}
	events := []string{"paths", r.path, "get", "responses", "200", "content", mediaEvents, "x-events"}
	if d.at(events...)[name] == nil {
		t.Errorf("GET %s: the event %q is not described", r.path, name)
	}
	d.holds(t, "the event "+name, e.data, append(events, name)...)
}

// Whatever is served is described, and answers as it is described: each route once in success and
// once in refusal. What is described further is held against every answer of the other tests.
func TestEveryRouteAnswersAsDescribed(t *testing.T) {
	w := newWorld(t)
	d := api(t)
	w.create("s")
	w.create("busy")
	w.task("busy")
	w.create("stopped")
	w.task("stopped")
	w.engine.session("busy").say(schemas.NewToolCall("c1", "exec", "{}"), &schemas.ApprovalRequest{ToolCallID: "c1", Name: "exec", Arguments: "{}", Hash: "h1"})
	trace := string(w.must(200, "GET", "/v1/sessions/busy/trace", "").body)
	lines := header("Content-Type", mediaLines)
	worked, failed := map[string]bool{}, map[string]bool{}
	for _, row := range []struct {
		method, path, body string
		status             int
		edits              []edit
	}{
		{"GET", "/healthz", "", 200, nil},
		{"POST", "/v1/sessions", `{"model":"shell/demo"}`, 201, nil},
		{"POST", "/v1/sessions", `{}`, 400, nil},
		{"POST", "/v1/sessions/import", trace, 201, []edit{lines}},
		{"POST", "/v1/sessions/import", trace, 415, nil},
		{"GET", "/v1/sessions", "", 200, nil},
		{"GET", "/v1/sessions?limit=0", "", 400, nil},
		{"GET", "/v1/sessions/busy", "", 200, nil},
		{"GET", "/v1/sessions/none", "", 404, nil},
		{"PATCH", "/v1/sessions/s", `{"approval_mode":"read-only"}`, 202, nil},
		{"PATCH", "/v1/sessions/s?x=1", `{"approval_mode":"read-only"}`, 400, nil},
		{"POST", "/v1/sessions/s/tasks", `{"prompt":"x"}`, 202, nil},
		{"POST", "/v1/sessions/busy/tasks", `{"prompt":"x"}`, 409, nil},
		{"DELETE", "/v1/sessions/s/tasks/t1", "", 202, nil},
		{"DELETE", "/v1/sessions/none/tasks/t1", "", 404, nil},
		{"POST", "/v1/sessions/s/steer", `{"prompt":"x"}`, 202, nil},
		{"POST", "/v1/sessions/s/steer", `{"prompt":""}`, 400, nil},
		{"POST", "/v1/sessions/busy/approvals/c1", `{"decision":"allow","hash":"h2"}`, 409, nil},
		{"POST", "/v1/sessions/busy/approvals/c1", `{"decision":"allow"}`, 202, nil},
		{"POST", "/v1/sessions/busy/retry-now", "", 202, nil},
		{"POST", "/v1/sessions/busy/retry-now", `{"x":1}`, 400, nil},
		{"POST", "/v1/sessions/stopped/abort", "", 202, nil},
		{"POST", "/v1/sessions/stopped/abort", "", 409, nil},
		{"GET", "/v1/sessions/s/messages?limit=1", "", 200, nil},
		{"GET", "/v1/sessions/s/messages", "", 200, nil},
		{"GET", "/v1/sessions/s/messages?after=old-7.0", "", 409, nil},
		{"GET", "/v1/sessions/s/trace", "", 200, nil},
		{"GET", "/v1/sessions/none/trace", "", 404, nil},
		{"GET", "/v1/sessions/none/stream", "", 404, nil},
		{"DELETE", "/v1/sessions/s", "", 202, nil},
		{"DELETE", "/v1/sessions/s?force=maybe", "", 400, nil},
		{"GET", "/v1/events?x=1", "", 400, nil},
		{"GET", "/v1/failures?limit=7&kind=task,tool", "", 200, nil},
		{"GET", "/v1/failures?limit=501", "", 400, nil},
		{"GET", "/v1/usage?session=busy", "", 200, nil},
		{"GET", "/v1/usage?session=none", "", 404, nil},
		{"GET", "/v1/models", "", 200, nil},
		{"GET", "/v1/models?x=1", "", 400, nil},
		{"GET", "/v1/tools", "", 200, nil},
		{"GET", "/v1/tools?x=1", "", 400, nil},
		{"PUT", "/v1/agents/a", `{"model":"shell/demo"}`, 200, nil},
		{"PUT", "/v1/agents/a", `{}`, 400, nil},
		{"GET", "/v1/agents", "", 200, nil},
		{"GET", "/v1/agents?x=1", "", 400, nil},
		{"GET", "/v1/agents/a", "", 200, nil},
		{"GET", "/v1/agents/b", "", 404, nil},
		{"DELETE", "/v1/agents/a", "", 204, nil},
		{"DELETE", "/v1/agents/a.b", "", 400, nil},
		{"GET", "/v1/openapi.json", "", 200, nil},
		{"GET", "/v1/openapi.json", "", 401, []edit{header("Authorization", "")}},
	} {
		w.must(row.status, row.method, row.path, row.body, row.edits...)
		path, _, _ := strings.Cut(row.path, "?")
		r, ok := d.route(row.method, path)
		if !ok {
			t.Errorf("%s %s is not described", row.method, path)
		}
		if row.status < 300 {
			worked[r.id] = true
		} else {
			failed[r.id] = true
		}
	}
	waitFor(t, "ready", func() bool { return w.do("GET", "/readyz", "").status == http.StatusOK })
	w.openStream("/v1/sessions/busy/stream", "").state()
	w.openStream("/v1/events", "").expect(eventWatching)
	worked["ready"], worked["streamSession"], worked["streamProject"] = true, true, true
	for pattern, r := range d.routes {
		switch {
		case !r.described():
			if r.access != accessPage {
				t.Errorf("%s is not described", pattern)
			}
		case !worked[r.id]:
			t.Errorf("%s: no success was tried", pattern)
		case !failed[r.id] && r.access != accessOpen:
			t.Errorf("%s: no refusal was tried", pattern)
		}
	}
}

// The document is what the specification asks of it, as far as generators stumble over it: ids that
// are unique, references that lead somewhere, path parameters that are in the path.
func TestTheDescriptionIsSound(t *testing.T) {
	w := newWorld(t)
	d := api(t)
	one, two := w.must(200, "GET", "/v1/openapi.json", ""), w.must(200, "GET", "/v1/openapi.json", "")
	if !bytes.Equal(one.body, two.body) || !bytes.HasPrefix(one.body, []byte(`{"openapi":"3.1.0"`)) {
		t.Errorf("it begins with %.60s", one.body)
	}
	for name := range d.at("components", "schemas") {
		d.schema(t, "components", "schemas", name)
	}
	ids := map[string]bool{}
	for path, item := range d.at("paths") {
		for method, o := range item.(map[string]any) {
			operation := o.(map[string]any)
			id, _ := operation["operationId"].(string)
			if id == "" || ids[id] || operation["summary"] == "" {
				t.Errorf("%s %s: operation %q, %v", method, path, id, operation["summary"])
			}
			ids[id] = true
			names := map[string]bool{}
			list, _ := operation["parameters"].([]any)
			for i, p := range list {
				parameter := p.(map[string]any)
				name := parameter["in"].(string) + " " + parameter["name"].(string)
				if names[name] {
					t.Errorf("%s: parameter %s twice", id, name)
				}
				names[name] = true
				d.schemaOfParameter(t, path, method, i)
			}
			if wanted := strings.Count(path, "{"); wanted != len(slices.DeleteFunc(slices.Collect(maps.Keys(names)), func(n string) bool { return !strings.HasPrefix(n, "path ") })) {
				t.Errorf("%s: parameters %v", id, names)
			}
		}
	}
	references(d.document, func(to string) {
		name, ok := strings.CutPrefix(to, "#/components/schemas/")
		if !ok || d.at("components", "schemas")[name] == nil {
			t.Errorf("%q leads nowhere", to)
		}
	})
}

func (d *described) schemaOfParameter(t testing.TB, path, method string, i int) {
	t.Helper()
	d.schema(t, "paths", path, method, "parameters", strconv.Itoa(i), "schema")
}

// references calls found with each reference in a document.
func references(v any, found func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if to, ok := value.(string); ok && name == "$ref" {
				found(to)
				continue
			}
			references(value, found)
		}
	case []any:
		for _, value := range v {
			references(value, found)
		}
	}
}
