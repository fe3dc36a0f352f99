package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"braid/llm"
	"braid/llm/internal/sse"
	"braid/llm/internal/transport"
	"braid/schemas"
)

// model is one model of a provider.
type model struct {
	provider *Provider
	name     string
	config   ModelConfig
	from     string // "provider/model"
}

// Info implements [llm.Model].
func (m *model) Info() llm.Info {
	return llm.Info{Vision: m.config.Vision, Window: m.config.Window, MaxOutput: m.config.MaxOutput}
}

// Stream implements [llm.Model].
func (m *model) Stream(ctx context.Context, req llm.Request, emit func(schemas.Message) error) llm.Outcome {
	client := m.provider.client
	e := llm.NewEmitter(emit, nil)
	body, err := m.body(req)
	if err != nil {
		return e.End(client.Unservable("%v", err))
	}
	response, err := client.Post(ctx, transport.Request{URL: m.provider.url, Header: m.provider.header, Body: body, Alive: req.Alive})
	if err != nil {
		return e.End(client.Outcome(ctx, err))
	}
	defer response.Close()
	r := &reading{
		ctx: ctx, response: response,
		answer: &answer{model: m, client: client, emit: e, ids: map[string]bool{}},
	}
	o := r.read()
	o.Usage = r.usage
	return e.End(o)
}

// reading is the reading of one answer.
type reading struct {
	*answer

	ctx      context.Context //nolint:containedctx // of the one request
	response *transport.Response
}

// read reads the answer to its end.
func (r *reading) read() llm.Outcome {
	events := r.response.Events()
	switch first, _ := events.Peek(); first {
	case '{': // the answer came at once, although it should be streamed
		return r.readWhole(events.Rest())
	case '<':
		return r.client.Malformed("the provider answers with a page: its base URL is wrong, or something stands before it")
	}
	for {
		e, err := events.Next()
		if err != nil {
			return r.ended(err)
		}
		data := bytes.TrimSpace(e.Data)
		if string(data) == "[DONE]" {
			r.response.Done()
			return r.conclude(true)
		}
		if o := r.takeEvent(e.Type, data); o != nil {
			return *o
		}
		if r.settled {
			r.response.Done()
			return r.conclude(false)
		}
		if r.finish != "" {
			r.response.Hurry(r.model.provider.patience)
		}
	}
}

// takeEvent takes an event; an outcome means that the answer ends here.
func (r *reading) takeEvent(kind string, data []byte) *llm.Outcome {
	if len(data) == 0 || data[0] != '{' {
		return nil // nothing of this protocol: a ping, most likely
	}
	c, err := parseChunk(data)
	var o llm.Outcome
	switch d, failed := c.failure(data); {
	case err != nil && r.finish != "":
		return nil // all that counts has come
	case err != nil:
		o = r.client.Malformed("a part of the answer can't be read: %v", err)
	case failed:
		o = r.client.Refused(0, d)
	case kind == "error":
		o = r.client.Refused(0, transport.ParseDetail(data))
	default:
		if r.take(c) == nil {
			return nil
		}
		// The emitter knows what went wrong, and says so in the end.
	}
	return &o
}

// ended is the outcome once nothing more can be read. What breaks after the finish reason breaks
// nothing.
func (r *reading) ended(err error) llm.Outcome {
	if errors.Is(err, io.EOF) || r.finish != "" && r.ctx.Err() == nil {
		return r.conclude(false)
	}
	return r.client.Outcome(r.ctx, err)
}

// readWhole reads an answer that is one JSON object.
func (r *reading) readWhole(in io.Reader) llm.Outcome {
	data, err := io.ReadAll(io.LimitReader(in, sse.MaxEvent+1))
	if err == nil && len(data) > sse.MaxEvent {
		err = fmt.Errorf("%w: the limit is %d bytes", sse.ErrTooLong, sse.MaxEvent)
	}
	if err != nil {
		return r.client.Outcome(r.ctx, err)
	}
	data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("\uFEFF"))
	if o := r.takeEvent("", bytes.TrimSpace(data)); o != nil {
		return *o
	}
	return r.conclude(true)
}

// conclude judges the answer and, if it is whole, emits what was held of it.
func (r *reading) conclude(marked bool) llm.Outcome {
	if r.ctx.Err() != nil {
		return llm.Interrupted(r.ctx)
	}
	if o := r.judge(marked); o != nil {
		return *o
	}
	_ = r.complete() // the emitter knows what went wrong, and says so in the end
	return llm.Completed(nil)
}
