package client

import (
	"context"
	"io"
	"iter"

	"braid/bus"
	"braid/schemas"
)

// historyPage is a page of what is recorded. The last one also has what is not recorded yet, and the
// cursor at which all of this holds.
type historyPage struct {
	Messages []historyMessage `json:"messages"`
	More     bool             `json:"more"`
	Next     string           `json:"next"` // the "after" of the next page, if there is one

	Partials []schemas.Message     `json:"partials"`
	Cursor   string                `json:"cursor"`
	State    bus.SessionState      `json:"state"`
	Pending  []bus.PendingApproval `json:"pending"`
}

type historyMessage struct {
	ID      string          `json:"id"`
	Message schemas.Message `json:"message"`
}

// History is what is recorded of the session after a cursor (empty: from its beginning on), prompts
// included, up to now. Watching after the last one's cursor goes on from there.
func (s *Session) History(ctx context.Context, after string) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for page, err := range s.pages(ctx, after) {
			if err != nil {
				yield(Message{}, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(Message{Cursor: m.ID, Message: m.Message}, nil) {
					return
				}
			}
		}
	}
}

func (s *Session) pages(ctx context.Context, after string) iter.Seq2[historyPage, error] {
	return func(yield func(historyPage, error) bool) {
		if err := schemas.ValidateName("session", s.id); err != nil {
			yield(historyPage{}, err)
			return
		}
		for {
			page, err := retry(ctx, s.client.pauses, func() (historyPage, error) {
				return s.client.transport.history(ctx, s.id, after)
			})
			if !yield(page, err) || err != nil || !page.More {
				return
			}
			after = page.Next
		}
	}
}

// Export writes the session's trace, JSON Lines. If it fails, part of it may be written.
func (s *Session) Export(ctx context.Context, w io.Writer) error {
	if err := schemas.ValidateName("session", s.id); err != nil {
		return err
	}
	if err := s.client.transport.export(ctx, s.id, w); err != nil {
		return failure(ctx, err)
	}
	return nil
}
