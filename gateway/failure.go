package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"braid/schemas"
)

// Codes of errors that only HTTP knows.
const (
	codeMethodNotAllowed schemas.Code = "method_not_allowed"
	codeMediaType        schemas.Code = "unsupported_media_type"
)

// statusOf is the HTTP status of a code.
func statusOf(code schemas.Code) int {
	switch code {
	case schemas.CodeInvalid, schemas.CodeUnknownModel, schemas.CodeUnsupported:
		return http.StatusBadRequest
	case schemas.CodeUnauthorized:
		return http.StatusUnauthorized
	case schemas.CodeForbidden:
		return http.StatusForbidden
	case schemas.CodeNotFound, schemas.CodeUnknownSession, schemas.CodeDeleted:
		return http.StatusNotFound
	case codeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case schemas.CodeSessionExists, schemas.CodeTaskInProgress, schemas.CodeNotRunning,
		schemas.CodeNotPending, schemas.CodeHashMismatch, schemas.CodeConflict, schemas.CodeHasHistory,
		schemas.CodeAborted:
		return http.StatusConflict
	case schemas.CodeQueueFull, schemas.CodeTooMany:
		return http.StatusTooManyRequests
	case schemas.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeMediaType:
		return http.StatusUnsupportedMediaType
	case schemas.CodeUnavailable, schemas.CodeStorageFull:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fail answers with an error. A client that left gets none, and its connection is cut: to return without
// an answer is to answer 200, and a client whose body came too late, whose connection is given up as
// well, may still be there to read it.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *schemas.Error
	if !errors.As(err, &known) {
		known = schemas.Errorf(schemas.CodeInternal, "the gateway failed; its log says why")
	}
	status := statusOf(known.Code)
	if status >= http.StatusInternalServerError {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		g.log.Warn().Err(err).Str("route", r.Pattern).Msg("a request failed")
	}
	writeError(w, status, known)
}

// writeError sends the one shape all errors have.
func writeError(w http.ResponseWriter, status int, err error) {
	var known *schemas.Error
	if !errors.As(err, &known) {
		known = schemas.Errorf(schemas.CodeInternal, "the gateway failed")
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="braid"`)
	}
	if known.RetryAfterMS > 0 {
		seconds := (known.RetryAfterMS + 999) / 1000
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	writeJSON(w, status, struct {
		Error *schemas.Error `json:"error"`
	}{known})
}

// writeJSON sends a document. What can't be sent is the client's loss: it sees a cut connection.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := schemas.EncodeJSON(v)
	if err != nil {
		http.Error(w, `{"error":{"code":"internal_error","message":"the answer can't be encoded"}}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// readFailed explains a failed read of the broker: if it is not an error that says more, the
// broker did not answer in time.
func readFailed(err error) error {
	var known *schemas.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.Join(schemas.Errorf(schemas.CodeUnavailable, "the broker does not answer"), err)
}
