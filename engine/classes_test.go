package engine

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"braid/bus/bustest"
	"braid/llm"
	"braid/llm/openai"
	"braid/schemas"
)

// answered is a whole answer of a provider.
const answered = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"done\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// provider is a house whose model "real/m" is a server: the first requests go to fails, then it answers.
func (h *house) provider(failures int32, fails http.HandlerFunc) (asked *atomic.Int32) {
	h.t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or it is not noticed that the client leaves
		if asked.Add(1) <= failures {
			fails(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, answered)
	}))
	h.t.Cleanup(server.Close)
	p, err := openai.New(openai.Config{Name: "real", BaseURL: server.URL, APIKey: "key"})
	if err != nil {
		h.t.Fatal(err)
	}
	if h.models, err = llm.NewCatalog(p); err != nil {
		h.t.Fatal(err)
	}
	return asked
}

// From the words of a provider to what becomes of the turn: what another attempt can't mend ends it at
// once, all else climbs the ladder, which is announced, whatever it is worded like.
func TestCase_D29_WhatIsTriedAgain(t *testing.T) {
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for why, tt := range map[string]struct {
		fails http.HandlerFunc
		again bool
		want  string // the first request's status
	}{
		"a key that is not valid":         {says(401, `{"error":{"message":"invalid api key"}}`), false, "auth"},
		"a key worded as a quota":         {says(401, `{"error":{"message":"quota exceeded for this key"}}`), false, "auth"},
		"a quota, as 403":                 {says(403, `{"error":{"message":"Quota exceeded for project"}}`), true, "failed"},
		"a gateway's own wording":         {says(502, `Upstream HTTP/2 stream failed`), true, "failed"},
		"wording that nobody knows":       {says(500, `{"oops":"the hamster is tired"}`), true, "failed"},
		"an error inside of the answer":   {says(200, "data: {\"error\":{\"message\":\"Upstream HTTP/2 stream failed\"}}\n\n"), true, "failed"},
		"a connection that is reset":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, "failed"},
		"a request that it does not take": {says(400, `{"error":{"message":"thinking block is not signed"}}`), false, "failed"},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Single(t), nil)
			asked := h.provider(2, tt.fails)
			h.engine("e1", func(o *Options) { o.Timing.Retry = thousandth })
			h.create("real/m", schemas.ApproveAll)
			h.task("t", "go")
			var got []string
			for _, m := range h.follow(taskEnded) {
				switch p := m.Payload.(type) {
				case *schemas.RequestEnd:
					got = append(got, fmt.Sprint(p.Status, " ", p.RetryInMS))
				case *schemas.TaskEnd:
					got = append(got, "task "+string(p.Status))
				}
			}
			want, requests := []string{tt.want + " 0", "task " + tt.want}, int32(1)
			if tt.again {
				want, requests = []string{tt.want + " 2000", tt.want + " 4000", "completed 0", "task completed"}, 3
			}
			expect(t, got, want...)
			if n := asked.Load(); n != requests {
				t.Errorf("the provider was asked %d times, want %d", n, requests)
			}
		})
	}
}

// What a person stops is not tried again.
func TestCase_D29_AStopIsFinal(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	reached := make(chan struct{})
	asked := h.provider(1, func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	})
	h.engine("e1", func(o *Options) { o.Timing.Retry = thousandth })
	h.create("real/m", schemas.ApproveAll)
	h.task("t", "go")
	<-reached
	if o := h.abort("enough"); o.Code != schemas.CodeApplied {
		t.Fatalf("abort: %+v", o)
	}
	expect(t, transcript(h.follow(taskEnded)), "end aborted", "abort enough", "task aborted")
	if n := asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
}
