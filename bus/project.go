package bus

import (
	"context"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// ProjectEvent is what a [ProjectFeed] delivers: a [Frame], a [TailEvent] or a [LossEvent].
type ProjectEvent interface{ projectEvent() }

// TailEvent says that a session's stream ends at a sequence, as far as its owner knows: who has seen
// less has missed something. 0: there is nothing of it any more; whether it is deleted the engines know.
type TailEvent struct {
	Session schemas.SessionRef
	Last    uint64
}

// LossEvent says that anything may have been missed until now; what is stored from now on is delivered.
type LossEvent struct{}

func (Frame) projectEvent()     {}
func (TailEvent) projectEvent() {}
func (LossEvent) projectEvent() {}

// ProjectFeed listens to the recorded frames of all sessions of a project. It is fast and promises
// nothing: frames may be missing, of which tail marks tell, come twice, or be of an owner that is no
// more. It is for those who take a frame as a hint to look at its session.
//
// Next is for one goroutine. Close ends the feed's own goroutines and waits for them.
type ProjectFeed struct {
	c          *Conn
	log, tails *feed
}

// ListenProject opens the feed of a project. What is stored from then on is delivered.
func (c *Conn) ListenProject(ctx context.Context, project string) (*ProjectFeed, error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return nil, err
	}
	o := FollowOptions{}.withDefaults()
	log, err := c.openFeed(ctx, projectSubject(project, kindLog), o)
	if err != nil {
		return nil, err
	}
	tails, err := c.openFeed(ctx, projectSubject(project, kindTail), o)
	if err != nil {
		log.close()
		return nil, err
	}
	return &ProjectFeed{c: c, log: log, tails: tails}, nil
}

// Close ends the feed. A Next under way returns [ErrFollowerEnded].
func (p *ProjectFeed) Close() {
	p.log.close()
	p.tails.close()
}

// Next returns the next event. It fails when ctx ends or the feed is closed.
func (p *ProjectFeed) Next(ctx context.Context) (ProjectEvent, error) {
	for {
		lost := p.log.disturbed()
		if p.tails.disturbed() || lost {
			p.log.calm()
			p.tails.calm()
			// On a new connection the broker has to hear of the subscriptions first.
			if err := p.c.flush(ctx); err != nil {
				return nil, err
			}
			return LossEvent{}, nil
		}
		var event ProjectEvent
		select {
		case m := <-p.log.messages:
			event = p.frame(ctx, m)
		case m := <-p.tails.messages:
			event = p.tail(m)
		case <-p.log.disturbance:
			p.log.disturb()
		case <-p.tails.disturbance:
			p.tails.disturb()
		case <-p.log.done:
			return nil, ErrFollowerEnded
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if event != nil {
			return event, nil
		}
	}
}

// frame reads a frame; nil if it is none.
func (p *ProjectFeed) frame(ctx context.Context, m *nats.Msg) ProjectEvent {
	s, empty, err := storedFromDirect(m)
	if err != nil || empty {
		return nil // foreign
	}
	f, err := p.c.decodeFrame(ctx, s)
	if err != nil {
		p.c.log.Debug().Err(err).Str("subject", s.Subject).Msg("a frame of the feed is skipped; a tail mark tells of it")
		return nil
	}
	return f
}

// ChangesSession reports that the session may be another after the frame, to those who look at lists.
func (f Frame) ChangesSession() bool {
	for _, m := range f.Messages {
		if len(m.Origin) > 0 {
			continue
		}
		switch p := m.Payload.(type) {
		case *schemas.SessionMeta, *schemas.SessionChanged, *schemas.SessionImported, *schemas.ApprovalRequest, *schemas.ApprovalDecision,
			*schemas.Abort, *schemas.CompactionBegin, *schemas.CompactionEnd, *schemas.TaskQueued, *schemas.TaskDequeued, *schemas.TaskEnd:
			return true
		case *schemas.RequestEnd:
			return p.Status != schemas.StopCompleted // calls that waited are withdrawn
		}
		if m.Prompt() {
			return true
		}
	}
	return false
}

// tail reads a tail mark; nil if it is none.
func (p *ProjectFeed) tail(m *nats.Msg) ProjectEvent {
	ref, err := refFromFeedSubject(m.Subject)
	if err != nil || ref.Validate() != nil {
		return nil
	}
	var mark tailMark
	if err := schemas.DecodeJSON(m.Data, &mark); err != nil {
		return nil
	}
	return TailEvent{Session: ref, Last: mark.Last}
}
