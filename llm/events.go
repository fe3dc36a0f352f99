package llm

import (
	"context"
	"errors"
	"iter"
	"sync"

	"braid/schemas"
)

// Event is one thing that happens in a request. What Data holds depends on Type:
//
//	text, reasoning   string: a delta
//	tool_use          *schemas.ToolUseBlock: a call, once its arguments are complete
//	done              *Response
//	error             *Error
//
// There are no other types at this level.
type Event struct {
	Type schemas.TurnEventType
	Data any
}

// Response is all that a completed request gave.
type Response struct {
	// Model is the model's name without its provider, as it was asked for.
	Model string
	// Content are the complete messages, in the order they were said: each text and piece of
	// reasoning is its deltas joined.
	Content []schemas.Message
	// Usage is what the provider says the request used; nil if it said nothing.
	Usage *schemas.TokenCounts
}

// errLeft ends a request whose events nobody takes any more.
var errLeft = errors.New("its caller has left")

// Events makes one request and tells it event by event, for those who use a model by itself. The
// last event is one done, if the request completed, or one error, whatever went wrong; events
// before an error are no part of any response. Reasoning comes from models that show theirs.
//
// The model is guarded, see [Guard]: one that was not opened from a catalog may go on for a
// while after the loop, if it ignores that ctx has ended. Each loop over the sequence is a request
// of its own. It runs on a goroutine of its own, which waits for the body of the loop, and has
// ended when the loop has. Leaving the loop early ends the request.
func Events(ctx context.Context, m Model, req Request) iter.Seq[Event] {
	model := Guard(m)
	return func(yield func(Event) bool) {
		ctx, cancel := context.WithCancel(ctx)
		events, left := make(chan Event), make(chan struct{})
		var running sync.WaitGroup
		defer running.Wait()
		defer close(left)
		defer cancel()
		running.Go(func() {
			defer close(events)
			tell(ctx, model, req, func(e Event) error {
				select {
				case events <- e:
					return nil
				case <-left:
					return errLeft
				}
			})
		})
		for e := range events {
			if !yield(e) {
				return
			}
		}
	}
}

// tell makes the request and sends its events.
func tell(ctx context.Context, model Model, req Request, send func(Event) error) {
	response := &Response{Model: req.Model}
	outcome := model.Stream(ctx, req, func(m schemas.Message) error {
		if !m.Partial() {
			response.Content = append(response.Content, m)
		}
		if e, ok := eventOf(m.Payload); ok {
			return send(e)
		}
		return nil
	})
	last := Event{Type: schemas.TurnError, Data: outcome.Error}
	if outcome.Status == schemas.StopCompleted {
		response.Usage = outcome.Usage
		last = Event{Type: schemas.TurnDone, Data: response}
	}
	_ = send(last) // or nobody is there to take it
}

// eventOf is the event that a message makes, if it makes one.
func eventOf(p schemas.Payload) (Event, bool) {
	switch p := p.(type) {
	case *schemas.PartialText:
		return Event{schemas.TurnText, p.Text}, p.Text != ""
	case *schemas.PartialThinking:
		return Event{schemas.TurnReasoning, p.Thinking}, p.Thinking != ""
	case *schemas.ToolCall:
		whole := marked(p.StopReason) == ""
		return Event{schemas.TurnToolUse, schemas.NewToolUseBlock(p)}, whole
	}
	return Event{}, false
}
