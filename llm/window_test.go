package llm_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"braid/llm"
	"braid/schemas"
)

// tokens is a request whose context is estimated at n tokens.
func tokens(n int, more ...schemas.Payload) llm.Request {
	req := llm.Request{System: strings.Repeat("word", n)}
	for _, p := range more {
		req.Input = append(req.Input, schemas.New(noon, p))
	}
	return req
}

// windowed is a model that remembers what it was asked.
type windowed struct {
	info  llm.Info
	asked []llm.Request
}

func (m *windowed) Info() llm.Info { return m.info }

func (m *windowed) Stream(_ context.Context, req llm.Request, _ func(schemas.Message) error) llm.Outcome {
	m.asked = append(m.asked, req)
	return llm.Completed(nil)
}

// The answer is bounded by what the context leaves of the window; a context that leaves nothing is refused
// before it is sent, with its size.
func TestCase_D13_WindowOverflow(t *testing.T) {
	picture := schemas.UserImage(schemas.DataURL("image/png", append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{1}, 1<<20)...)))
	for _, c := range []struct {
		why     string
		info    llm.Info
		req     llm.Request
		most    int64
		refused string
	}{
		{"nothing is known of the model", llm.Info{}, tokens(1 << 20), 0, ""},
		{"only what an answer may have", llm.Info{MaxOutput: 100}, tokens(1 << 20), 100, ""},
		{"all of it is left", llm.Info{Window: 32768, MaxOutput: 2000}, tokens(20000), 2000, ""},
		{"less is left, and an eighth of the context is kept", llm.Info{Window: 32768, MaxOutput: 32000}, tokens(20000), 32768 - 20000 - 2500, ""},
		{"whoever gave no limit gets none", llm.Info{Window: 32768}, tokens(20000), 0, ""},
		{"never less than an answer needs", llm.Info{Window: 32768, MaxOutput: 32000}, tokens(32768 - 300), 256, ""},
		{"nor more than it may have", llm.Info{Window: 32768, MaxOutput: 50}, tokens(32768 - 300), 50, ""},
		{"no answer fits", llm.Info{Window: 32768, MaxOutput: 32000}, tokens(32768 - 255), 0, "about 32513 tokens, and the model's window of 32768"},
		{"nor the context", llm.Info{Window: 32768}, tokens(100000), 0, "about 100000 tokens"},
		{"a picture is a thousand tokens, whatever its bytes", llm.Info{Window: 2048, MaxOutput: 2048, Vision: true}, tokens(0, picture), 2048 - 1004 - 125, ""},
		{"what stands for one is a few", llm.Info{Window: 512}, tokens(0, picture), 0, ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			m := &windowed{info: c.info}
			o := llm.Guard(m).Stream(t.Context(), c.req, func(schemas.Message) error { return nil })
			if c.refused == "" {
				if o.Status != schemas.StopCompleted || m.asked[0].MaxOutput != c.most {
					t.Errorf("it ends %s, asked was %d", o.Status, m.asked[0].MaxOutput)
				}
				return
			}
			if len(m.asked) > 0 || o.Status != schemas.StopFailed || o.Error.Kind != llm.KindContext || o.Error.Retryable || !strings.Contains(o.Error.Message, c.refused) {
				t.Errorf("asked %d times, it ends %s: %v", len(m.asked), o.Status, o.Error)
			}
			if used, estimated := llm.Used(c.req, o, nil); used.Total != 0 || estimated {
				t.Errorf("it has used %+v", used)
			}
		})
	}
}
