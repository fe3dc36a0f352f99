package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"braid/schemas"
)

// No answer is read without end, neither in size nor in time, and what was given up is told as a code.
func TestAnswersAreBounded(t *testing.T) {
	session := func(c *Client) error {
		_, err := c.Session("s").Info(context.Background())
		return err
	}
	export := func(c *Client) error { return c.Session("s").Export(context.Background(), io.Discard) }
	typed := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		typed(w, r)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		typed(w, r)
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	mute := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, row := range []struct {
		why   string
		serve http.HandlerFunc
		ask   func(*Client) error
		code  schemas.Code
	}{
		{"an answer without end", endless, session, schemas.CodeTooLarge},
		{"half an answer", silent, session, schemas.CodeUnavailable},
		{"no answer", mute, session, schemas.CodeUnavailable},
		{"half an export", silent, export, schemas.CodeUnavailable},
	} {
		server := httptest.NewServer(row.serve)
		transport := HTTP(server.URL, "t").(*httpTransport)
		transport.most, transport.within, transport.silence = 1<<20, 20*time.Millisecond, 20*time.Millisecond
		if row.code == schemas.CodeTooLarge {
			transport.within = time.Minute
		}
		c := New(transport)
		c.pauses = pauses{first: time.Millisecond, longest: time.Millisecond, tries: 2, patience: time.Minute}
		if err := row.ask(c); !IsCode(err, row.code) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %s", row.why, err, row.code)
		}
		c.Close()
		server.Close()
	}
}

// What a server says of when to try again is kept to, and a proxy's word is as good.
func TestRetryAfterIsKept(t *testing.T) {
	for _, row := range []struct {
		why, header, body string
		code              schemas.Code
		after             time.Duration
	}{
		{"a gateway", "5", `{"error":{"code":"too_many","message":"m","retry_after_ms":4500}}`, schemas.CodeTooMany, 4500 * time.Millisecond},
		{"a full queue, which the caller decides on", "5", `{"error":{"code":"queue_full","message":"m","retry_after_ms":5000}}`, schemas.CodeQueueFull, 5 * time.Second},
		{"a proxy", "7", "slow down", schemas.CodeTooMany, 7 * time.Second},
		{"a proxy that speaks JSON as others do", "7", `{"error":{"message":"slow down","type":"busy"}}`, schemas.CodeTooMany, 7 * time.Second},
		{"a proxy that names a day", "Wed, 21 Oct 2015 07:28:00 GMT", "", schemas.CodeTooMany, 0},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Retry-After", row.header)
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, row.body)
		err := refusal(w.Result())
		if !IsCode(err, row.code) || RetryAfter(err) != row.after {
			t.Errorf("%s: %v after %s", row.why, err, RetryAfter(err))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		busy := &schemas.Error{Code: schemas.CodeTooMany, RetryAfterMS: 5000}
		begun, tries := time.Now(), 0
		_, err := retry(t.Context(), defaultPauses, func() (int, error) {
			if tries++; tries < 4 {
				return 0, busy
			}
			return 0, nil
		})
		if took := time.Since(begun); err != nil || took != 15*time.Second {
			t.Errorf("tried again for %s: %v", took, err)
		}
		begun = time.Now()
		_, err = retry(t.Context(), defaultPauses, func() (int, error) { return 0, busy })
		if took := time.Since(begun); !errors.Is(err, busy) || took < 50*time.Second || took > defaultPauses.patience {
			t.Errorf("given up after %s: %v", took, err)
		}
	})
}
