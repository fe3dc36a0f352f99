package gateway

import (
	"net/http"
	"testing"

	"braid/schemas"
)

// What a gateway serves at once is bounded; whoever is refused is told when to come back.
func TestTooMany(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxWatchers, o.MaxWaiting = 1, 2 })
	w.create("s")
	w.create("other")
	refused := func(why, method, path, body string) {
		t.Helper()
		a := w.must(429, method, path, body)
		p := a.problem(t)
		if p.Code != schemas.CodeTooMany || a.header.Get("Retry-After") != "5" || p.RetryAfterMS != 5000 {
			t.Errorf("%s: %+v, after %q s", why, p, a.header.Get("Retry-After"))
		}
	}
	e := w.openStream("/v1/sessions/s/stream", "")
	e.state()
	refused("a page of another session's messages", "GET", "/v1/sessions/other/messages", "")
	w.must(200, "GET", "/v1/sessions/s/messages", "") // which is followed anyway
	refused("a second stream", "GET", "/v1/sessions/other/stream", "")
	refused("the project's", "GET", "/v1/events", "")
	refused("a wait for a task's end", "POST", "/v1/sessions/s/tasks?wait=1", `{"prompt":"x"}`)
	w.task("s") // without a wait: nothing of the refused one has begun
	e.close()
	waitFor(t, "the first watcher is gone", func() bool {
		other, err := w.tryStream("/v1/sessions/other/stream", "")
		if err != nil {
			return false
		}
		defer other.close()
		return other.response.StatusCode == http.StatusOK
	})

	ref := schemas.SessionRef{Project: "default", ID: "other"}
	leave, err := w.g.waiting.enter(ref)
	if err != nil {
		t.Fatal(err)
	}
	refused("a second command of the session", "POST", "/v1/sessions/other/tasks", `{"prompt":"x"}`)
	w.must(202, "POST", "/v1/sessions/s/abort", "")
	leave()
	w.must(202, "POST", "/v1/sessions/other/tasks", `{"prompt":"x"}`)
}

func TestCrowd(t *testing.T) {
	c := newCrowd("things", 3, 2)
	a, b := schemas.SessionRef{Project: "p", ID: "a"}, schemas.SessionRef{Project: "p", ID: "b"}
	var leaves []func()
	for _, row := range []struct {
		why string
		ref schemas.SessionRef
		ok  bool
	}{
		{"the first", a, true}, {"the second of one", a, true}, {"a third of one", a, false},
		{"the first of another", b, true}, {"a fourth of all", b, false},
	} {
		leave, err := c.enter(row.ref)
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", row.why, err)
		}
		if err == nil {
			leaves = append(leaves, leave)
		}
	}
	for _, leave := range leaves {
		leave()
	}
	if c.mu.all != 0 || len(c.mu.of) != 0 {
		t.Errorf("%d are left, of %v", c.mu.all, c.mu.of)
	}
}
