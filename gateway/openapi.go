package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"braid/schemas"
)

// object is a JSON object of the description.
type object map[string]any

// apiDocument is the description as it is sent.
type apiDocument struct {
	OpenAPI    string         `json:"openapi"`
	Info       jsontext.Value `json:"info"`
	Servers    jsontext.Value `json:"servers"`
	Tags       jsontext.Value `json:"tags"`
	Security   jsontext.Value `json:"security"`
	Paths      jsontext.Value `json:"paths"`
	Components jsontext.Value `json:"components"`
}

// apiWords introduce the API.
const apiWords = "Braid runs sessions of LLM agents. A session is given tasks (prompts), runs them one at a time, and records everything " +
	"that happens in it as a stream of messages. " +
	"A POST, PATCH or DELETE that takes an Idempotency-Key is safe to repeat with the same key: it is applied once. " +
	"All errors have the same shape; a temporary one says when to try again. " +
	"Expect new members in answers; unknown members and parameters of requests are refused. " +
	"The schemas of the events of a text/event-stream are listed under x-events, by event name; message is an event without a name."

// describeAPI writes the OpenAPI document of a table of routes. It is the same, byte by byte,
// whenever the table is.
func describeAPI(table []route) ([]byte, error) {
	types, err := newTypes()
	if err != nil {
		return nil, err
	}
	paths := object{}
	for _, r := range table {
		if !r.described() {
			continue
		}
		item, ok := paths[r.path].(object)
		if !ok {
			item = object{}
			paths[r.path] = item
		}
		item[strings.ToLower(r.method)] = types.resolve(r.describe())
	}
	parts := []any{
		object{
			"title": "Braid", "version": "v1", "description": apiWords,
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		[]any{object{"url": "/", "description": "The gateway that serves this document."}},
		apiTags,
		[]any{object{"token": []any{}}},
		paths,
		object{"schemas": types.named, "securitySchemes": object{
			"token":      object{"type": "http", "scheme": "bearer", "description": "The gateway's token, as Authorization: Bearer."},
			"tokenQuery": object{"type": "apiKey", "in": "query", "name": "token", "description": "The same token as a query parameter, for streams only: a browser's EventSource can't send headers."},
		}},
	}
	values := make([]jsontext.Value, len(parts))
	for i, part := range parts {
		if values[i], err = schemas.EncodeJSON(part); err == nil {
			err = values[i].Canonicalize()
		}
		if err != nil {
			return nil, fmt.Errorf("describe the API: %w", err)
		}
	}
	return schemas.EncodeJSON(apiDocument{"3.1.0", values[0], values[1], values[2], values[3], values[4], values[5]})
}

// describe is the route's operation, with types in it that are not resolved.
func (r route) describe() object {
	responses := object{}
	for _, p := range r.replies {
		responses[strconv.Itoa(p.status)] = r.describeReply(p)
	}
	for status, codes := range r.errors() {
		responses[strconv.Itoa(status)] = describeErrors(codes)
	}
	o := object{"operationId": r.id, "tags": []string{r.tag}, "responses": responses}
	summary, all := sentences(r.does)
	if o["summary"] = summary; all != "" {
		o["description"] = all
	}
	if parameters := r.describeParameters(); len(parameters) > 0 {
		o["parameters"] = parameters
	}
	if r.body.media != nil {
		o["requestBody"] = object{"required": !r.optional, "content": r.body.describe(true)}
	}
	switch r.access {
	case accessOpen:
		o["security"] = []any{}
	case accessTokenOrQuery:
		o["security"] = []any{object{"token": []any{}}, object{"tokenQuery": []any{}}}
	case accessToken, accessPage:
	}
	return o
}

func (r route) describeReply(p reply) object {
	o := object{"description": p.says}
	if p.media != nil {
		o["content"] = p.content.describe(false)
	}
	headers := object{}
	if r.command {
		headers[headerIdempotency] = object{"description": "The key with which this request can be repeated: the one that was sent, or a generated one.", "schema": nameSchema()}
	}
	if p.status == http.StatusCreated {
		headers["Location"] = object{"description": "The path of the new session.", "schema": textSchema()}
	}
	if len(headers) > 0 {
		o["headers"] = headers
	}
	return o
}

// describe is the body by its media types. strict says that members that are not in the schema are
// refused; answers are open to new ones.
func (c content) describe(strict bool) object {
	all := object{}
	for _, media := range c.media {
		o := object{}
		switch {
		case c.schema == nil:
		case strict:
			o["schema"] = object{"allOf": []any{c.schema}, "unevaluatedProperties": false}
		default:
			o["schema"] = c.schema
		}
		if c.example != "" {
			o["example"] = jsontext.Value(c.example)
		}
		if c.events != nil {
			o["x-events"] = c.events
		}
		all[media] = o
	}
	return all
}

func (r route) describeParameters() []any {
	var all []any
	for element := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(element, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			all = append(all, object{"in": "path", "name": name, "required": true, "description": pathWord(name), "schema": nameSchema()})
		}
	}
	for _, p := range r.query { // the token is told by the scheme of security
		o := object{"in": "query", "name": p.name, "description": p.says, "schema": p.schema}
		if p.schema["type"] == "array" {
			o["explode"] = false // ?name=a,b
		}
		all = append(all, o)
	}
	if r.command {
		all = append(all, object{"in": "header", "name": headerIdempotency, "schema": nameSchema(),
			"description": "Makes the request safe to repeat: requests with the same key are applied once, and repeats get the first outcome. If absent, a key is generated."})
	}
	if r.traced {
		all = append(all,
			object{"in": "header", "name": headerTraceParent, "schema": textSchema(), "description": "A W3C trace context; the task becomes part of that trace."},
			object{"in": "header", "name": headerTraceState, "schema": textSchema(), "description": "The vendor-specific part of the W3C trace context."})
	}
	if r.resumes {
		all = append(all, object{"in": "header", "name": headerLastEvent, "schema": textSchema(),
			"description": "The id of the last event that was received; the stream continues after it. If absent, the stream begins with the current state."})
	}
	return all
}

// describeErrors is the answer that refuses with one of some codes, all of one status.
func describeErrors(codes []schemas.Code) object {
	names, reasons := make([]string, len(codes)), make([]string, len(codes))
	for i, code := range codes {
		names[i], reasons[i] = string(code), string(code)+": "+codeWords[code]
	}
	o := object{"description": strings.Join(reasons, ". ") + ".", "content": object{mediaJSON: object{"example": exampleError(codes[0]), "schema": object{
		"type": "object", "required": []string{"error"},
		"properties": object{"error": object{
			"allOf":      []any{schemaOf[schemas.Error]()},
			"properties": object{"code": object{"enum": names}},
		}},
	}}}}
	if slices.ContainsFunc(codes, func(c schemas.Code) bool { return c.RetryAfter() > 0 }) {
		o["headers"] = object{"Retry-After": object{"description": "Seconds to wait before trying again, rounded up; retry_after_ms has the same in milliseconds.", "schema": object{"type": "integer"}}}
	}
	return o
}

// showAPI answers with the description.
func (g *Gateway) showAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", mediaJSON)
	_, _ = w.Write(g.api)
	return nil
}
