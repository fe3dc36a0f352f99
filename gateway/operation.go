package gateway

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"braid/schemas"
)

// operation is what the API's description says of a route besides its method and path.
type operation struct {
	// id is what generated clients call it; an operation without one is not described.
	id   string
	does string
	// tag is the group that it stands in.
	tag string
	// query are the parameters it takes: any other is refused.
	query []parameter
	// resumes is set where the header Last-Event-ID counts.
	resumes bool
	// command is set if it sends a command: the header Idempotency-Key makes it safe to repeat.
	command bool
	// traced is set where the headers of a W3C trace context count.
	traced bool
	// body is what it takes, if anything. optional says that it may be left out.
	body     content
	optional bool
	replies  []reply
	// codes are why it may be refused, besides what errors adds.
	codes []schemas.Code
}

// described reports whether the operation is part of the API.
func (o operation) described() bool { return o.id != "" }

// parameter is one parameter of a query.
type parameter struct {
	name, says string
	schema     object
}

// reply is one way in which an operation succeeds.
type reply struct {
	status int
	says   string
	content
}

// content is a body. The zero value is none.
type content struct {
	media   []string
	schema  object // of JSON
	events  map[string]object
	example string // JSON
}

// Media types.
const (
	mediaJSON       = "application/json"
	mediaLines      = "application/x-ndjson"
	mediaOtherLines = "application/jsonl" // the same, as others call it
	mediaEvents     = "text/event-stream"
)

// document is a body that is the JSON of a T.
func document[T any]() content {
	return content{media: []string{mediaJSON}, schema: object{goType: reflect.TypeFor[T]()}}
}

// like is the body with an example, in JSON.
func (c content) like(example string) content {
	c.example = example
	return c
}

// eventStream is a body of server-sent events, with what the data of each is. Those without a name
// are called "message", as browsers do.
func eventStream(events map[string]object) content {
	return content{media: []string{mediaEvents}, schema: textSchema(), events: events}
}

// appliedReply is the answer to a command that was applied.
func appliedReply() reply {
	return reply{status: http.StatusAccepted, says: "The request was applied. Stream from cursor to see its effects.", content: document[accepted]()}
}

// errors are all codes an operation may be refused with, by status.
func (r route) errors() map[int][]schemas.Code {
	all := slices.Clone(r.codes)
	if r.access != accessOpen {
		all = append(all, schemas.CodeInvalid, schemas.CodeUnauthorized, schemas.CodeForbidden, schemas.CodeInternal, schemas.CodeUnavailable)
	}
	if strings.Contains(r.path, "{id}") {
		all = append(all, schemas.CodeUnknownSession, schemas.CodeDeleted)
	}
	if r.command {
		all = append(all, schemas.CodeConflict, schemas.CodeStorageFull, schemas.CodeTooMany)
	}
	if r.resumes {
		all = append(all, schemas.CodeTooMany)
	}
	if r.body.media != nil {
		all = append(all, schemas.CodeTooLarge, codeMediaType)
	}
	slices.Sort(all)
	byStatus := map[int][]schemas.Code{}
	for _, code := range slices.Compact(all) {
		byStatus[statusOf(code)] = append(byStatus[statusOf(code)], code)
	}
	return byStatus
}

// The schemas of parameters.

func textSchema() object { return object{"type": "string"} }

func nameSchema() object {
	return object{"type": "string", "pattern": "^[A-Za-z0-9_-]{1," + strconv.Itoa(schemas.MaxNameLength) + "}$"}
}

func cursorSchema() object {
	return object{"type": "string", "description": "A position in the session's stream: <epoch>-<sequence>.<line>."}
}

func timeSchema() object { return object{"type": "string", "format": "date-time"} }

func daySchema() object { return object{"type": "string", "format": "date"} }

func oneOf(values ...string) object { return object{"type": "string", "enum": values} }

// listOf is a parameter of several values, which stand in one, with commas between them.
func listOf(item object) object { return object{"type": "array", "items": item} }

func numberSchema(least, most int) object {
	return object{"type": "integer", "minimum": least, "maximum": most}
}

func limitParameter(usual, most int) parameter {
	s := numberSchema(1, most)
	s["default"] = usual
	return parameter{"limit", "The maximum number of entries in the page.", s}
}

func lastEventParameter() parameter {
	return parameter{"last_event_id", "The same as the header Last-Event-ID, for clients that can't send it. The header takes precedence.", textSchema()}
}
