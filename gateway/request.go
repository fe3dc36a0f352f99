package gateway

import (
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"braid/schemas"
)

// Bounds of a request's body in bytes: what commands take at most, with room for what escaping adds.
const (
	maxBody     = 2 << 20
	maxTaskBody = schemas.MaxInput + 12<<20
)

// readBody reads a JSON document strictly: of the right media type, within the limit, without
// members that v does not know. optional permits an empty body, which leaves v as it is.
func readBody(w http.ResponseWriter, r *http.Request, v any, optional bool) error {
	return readLimited(w, r, v, optional, maxBody)
}

func readLimited(w http.ResponseWriter, r *http.Request, v any, optional bool, limit int64) error {
	tooLarge := schemas.Errorf(schemas.CodeTooLarge, "the body is over the limit of %d bytes", limit)
	if announces(r, limit) {
		return tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return schemas.Errorf(schemas.CodeInvalid, "the body took too long to arrive")
	case err != nil:
		return schemas.Errorf(schemas.CodeInvalid, "the body could not be read")
	case len(body) == 0 && optional:
		return nil
	}
	if err := checkMedia(r.Header, mediaJSON); err != nil {
		return err
	}
	return schemas.DecodeInput(body, v)
}

// announces reports that a body over the limit is to come, and that the client waits to be told whether it is
// wanted. Any other is read up to the limit: who is cut off while it writes may not read the answer.
func announces(r *http.Request, limit int64) bool {
	return r.ContentLength > limit && strings.EqualFold(r.Header.Get("Expect"), "100-continue")
}

// checkMedia refuses a body that is none of some types, in another character set than UTF-8, or compressed:
// it would be read as something else than what was sent.
func checkMedia(h http.Header, types ...string) error {
	given := h.Values("Content-Type")
	if len(given) != 1 {
		given = []string{""}
	}
	media, parameters, err := mime.ParseMediaType(given[0])
	charset, encoding := parameters["charset"], strings.Join(h.Values("Content-Encoding"), ", ")
	switch {
	case err != nil || !slices.Contains(types, media):
		return schemas.Errorf(codeMediaType, "the body must be of the type %s", strings.Join(types, " or "))
	case charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii"):
		return schemas.Errorf(codeMediaType, "the body must be in UTF-8")
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return schemas.Errorf(codeMediaType, "the body must not be compressed")
	}
	return nil
}

// session is the session a request names.
func (g *Gateway) session(r *http.Request) (schemas.SessionRef, error) {
	ref := schemas.SessionRef{Project: g.o.Project, ID: r.PathValue("id")}
	return ref, schemas.ValidateName("session", ref.ID)
}

// headerIdempotency is the header that makes a request safe to repeat.
const headerIdempotency = "Idempotency-Key"

// commandID is the client's idempotency key, or a new one. given says which. It is announced in
// the answer, also in one that reports an error: a command whose outcome is unknown is stored
// under it.
func commandID(w http.ResponseWriter, r *http.Request) (id string, given bool, err error) {
	values := r.Header.Values(headerIdempotency)
	switch {
	case len(values) == 0:
		id = "g-" + rand.Text()
	case len(values) > 1:
		return "", true, &schemas.Error{Code: schemas.CodeInvalid, Field: headerIdempotency, Message: "there is more than one " + headerIdempotency}
	default:
		id, given = values[0], true
		if err := schemas.ValidateName(headerIdempotency, id); err != nil {
			return "", true, err
		}
	}
	w.Header().Set(headerIdempotency, id)
	return id, given, nil
}

// The headers of a W3C trace context.
const (
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
)

// caller is where in a trace the request was made; nowhere if what it says is malformed, which fails
// nobody. Of two parents neither is believed; a state may come in parts.
func caller(r *http.Request) schemas.TraceContext {
	parents := r.Header.Values(headerTraceParent)
	if len(parents) != 1 {
		return schemas.TraceContext{}
	}
	return schemas.ParseTraceContext(parents[0], strings.Join(r.Header.Values(headerTraceState), ","))
}

func shorten(s string) string {
	if len(s) > schemas.MaxNameLength {
		s = s[:schemas.MaxNameLength]
	}
	return strings.ToValidUTF8(s, "")
}

// pageLimit reads "limit": 1 to most, else the default.
func pageLimit(values url.Values, usual, most int) (int, error) {
	given := values.Get("limit")
	if given == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 || n > most {
		return 0, &schemas.Error{Code: schemas.CodeInvalid, Field: "limit", Message: "limit must be a number from 1 to " + strconv.Itoa(most)}
	}
	return n, nil
}

// flagParameter reads "true" or "false"; an empty value is false.
func flagParameter(name, value string) (bool, error) {
	switch value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, &schemas.Error{Code: schemas.CodeInvalid, Field: name, Message: name + " must be true or false"}
}

// listParameter reads values with commas between them; an empty value is none.
func listParameter[T ~string](value string) (list []T) {
	if value == "" {
		return nil
	}
	for one := range strings.SplitSeq(value, ",") {
		list = append(list, T(one))
	}
	return list
}

// cursorParameter parses a cursor; an empty one is the zero cursor. Errors name the parameter.
func cursorParameter(name, value string) (schemas.Cursor, error) {
	if value == "" {
		return schemas.Cursor{}, nil
	}
	c, err := schemas.ParseCursor(value)
	return c, atParameter(name, err)
}

// atParameter is an error of a parameter's value, with the parameter's name.
func atParameter(name string, err error) error {
	if refused, ok := errors.AsType[*schemas.Error](err); ok {
		return &schemas.Error{Code: refused.Code, Field: name, Message: refused.Message}
	}
	return err
}
