package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"braid/schemas"
)

// observe gives every answer its headers and its line in the log, tells events of it, refuses paths that the mux
// would redirect, and keeps a panic from passing unseen.
func observe(log zerolog.Logger, events Events, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		recorder := &statusRecorder{ResponseWriter: w}
		setHeaders(w.Header())
		defer func() {
			failed := recover()
			if failed != nil && failed != http.ErrAbortHandler { //nolint:errorlint // the value that was panicked with
				log.Error().Str("panic", fmt.Sprint(failed)).Bytes("stack", debug.Stack()).Msg("a request failed")
			}
			took := time.Since(begun)
			logRequest(log, r, recorder.status, took)
			if events.Answered != nil {
				events.Answered(r.Pattern, recorder.status, took)
			}
			if failed != nil {
				panic(http.ErrAbortHandler) // the connection is of no use: the client must notice
			}
		}()
		if err := checkPath(r.URL.Path); err != nil {
			writeError(recorder, http.StatusBadRequest, err)
			return
		}
		next.ServeHTTP(recorder, r)
	})
}

func setHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the stream's URL may hold the token
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

// logRequest writes one line. The route's pattern stands for the path, and there is no query.
func logRequest(log zerolog.Logger, r *http.Request, status int, took time.Duration) {
	event := log.Info()
	switch {
	case routine(r):
		event = log.Debug()
	case status >= http.StatusInternalServerError:
		event = log.Warn()
	}
	event = event.Str("method", r.Method).Str("route", r.Pattern).Int("status", status).Dur("took", took)
	if id := r.PathValue("id"); schemas.ValidName(id) {
		event = event.Str("session", id)
	}
	event.Msg("request")
}

// routine reports that a request comes again and again by itself: from probes, and from pages.
func routine(r *http.Request) bool {
	switch r.Pattern {
	case "GET /healthz", "GET /readyz", "GET /v1/sessions", "GET /{$}", "GET /static/{file}":
		return true
	}
	return false
}

// statusRecorder remembers the status. http.ResponseController finds what it wraps.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (s *statusRecorder) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write notes the status that a first write implies.
func (s *statusRecorder) Write(b []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
