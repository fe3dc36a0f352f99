package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/schemas"
)

// WakeUp tells an engine that a session has a command. It carries no command: the session's
// owner reads them from the stream, in order, so they apply once however wake-ups arrive.
type WakeUp struct {
	Session schemas.SessionRef `json:"session"`
	Lane    Lane               `json:"lane"`
	// Type is the command's type as its header says; it is for decisions about room, not for
	// what the command does.
	Type schemas.CommandType `json:"type,omitzero"`
	// Sequence is the command's: the owner reads up to it.
	Sequence uint64 `json:"sequence"`
	// AckSubject is where the wake-up is acknowledged; it travels with a wake-up that is handed
	// to another engine, since only the session's owner acknowledges.
	AckSubject string `json:"ack_subject"`
	// Deliveries counts how often the broker handed it out, from 1.
	Deliveries int `json:"deliveries"`
}

// ackWait is how long the broker waits for an engine before it hands a wake-up to another.
const ackWait = 3 * time.Second

// wakeUps is the consumer of one lane. Nothing bounds how many wake-ups may be out: a thousand
// delayed ones would keep an abort from being delivered. Engines bound themselves by how many
// they pull. Only headers are sent, since a wake-up needs the subject alone.
func (c *Conn) wakeUps(lane Lane) *puller {
	return &puller{c: c, stream: streamCommands, config: jetstream.ConsumerConfig{
		Durable:       string(lane),
		Description:   "wake-ups for engines",
		FilterSubject: "braid.*.command." + string(lane) + ".*",
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		HeadersOnly:   true,
	}}
}

// PullWakeUps returns 1 to most wake-ups of a lane, or none after about [Options.PullWait]. Engines
// share each lane: a wake-up goes to one of them, and to another after 3 s without an answer. When
// ctx ends it returns within that time and holds nothing back: what was on its way goes to
// another engine at once.
func (c *Conn) PullWakeUps(ctx context.Context, lane Lane, most int) ([]WakeUp, error) {
	if lane != LaneRun && lane != LaneControl {
		return nil, fmt.Errorf("pull wake-ups: no lane %q", lane)
	}
	messages, err := c.wakeUps(lane).pull(ctx, most)
	if err != nil {
		return nil, fmt.Errorf("pull wake-ups: %w", err)
	}
	wakeUps := make([]WakeUp, 0, len(messages))
	for _, m := range messages {
		w, err := wakeUpFrom(m)
		if err != nil {
			// Stored past this package, under a name no session has: nobody could ever answer.
			c.log.Warn().Err(err).Msg("a command that belongs to no session is dropped")
			c.settle(m, streamCommands, ackTerm)
			continue
		}
		wakeUps = append(wakeUps, w)
	}
	return wakeUps, nil
}

// wakeUpFrom reads a delivered message; it fails for one that names no session.
func wakeUpFrom(m *nats.Msg) (WakeUp, error) {
	ref, lane, err := refFromCommandSubject(m.Subject)
	if err != nil {
		return WakeUp{}, err
	}
	if err := ref.Validate(); err != nil {
		return WakeUp{}, err
	}
	meta, err := m.Metadata()
	if err != nil {
		return WakeUp{}, err
	}
	return WakeUp{
		Session: ref, Lane: lane, Type: schemas.CommandType(m.Header.Get(headerCommandType)), Sequence: meta.Sequence.Stream,
		AckSubject: m.Reply, Deliveries: int(meta.NumDelivered),
	}, nil
}

// Ack ends a wake-up, waiting until the broker has noted it. Only the session's owner may: the
// broker goes by the sequence alone, so an acknowledgement of an old delivery also ends a newer
// one that another engine holds.
func (c *Conn) Ack(ctx context.Context, w WakeUp) error {
	return c.ackSure(ctx, w.AckSubject, streamCommands)
}

// Nak returns a wake-up, to be delivered to some engine after the delay.
func (c *Conn) Nak(w WakeUp, delay time.Duration) error {
	return c.nak(w.AckSubject, streamCommands, delay)
}

// DeliverAnswer is what an engine says to a wake-up that another one hands to it.
type DeliverAnswer string

// The answers.
const (
	// DeliverMine: it owns the session, or is loading it, and acknowledges the wake-up itself.
	DeliverMine DeliverAnswer = "mine"
	// DeliverNotMine: it does not run the session, whatever the claim says.
	DeliverNotMine DeliverAnswer = "not_mine"
	// DeliverDraining: it is shutting down and about to release the session.
	DeliverDraining DeliverAnswer = "draining"
)

// Errors of a request to one instance.
var (
	// ErrNoInstance: nobody listens under that name. It proves nothing by itself: a connection
	// that is being renewed, or a cut route, looks the same.
	ErrNoInstance = errors.New("no such instance answers")
	// ErrNoAnswer: no answer came in time; the request may have been received.
	ErrNoAnswer = errors.New("the instance did not answer in time")
)

// deliverWorkers bounds how many answers are worked out at once. Handlers answer at once.
const deliverWorkers = 2

// ServeDeliver answers other engines' wake-ups for sessions this instance is thought to own.
// handle must not block: a slow answer counts as none. stop ends it and waits for handlers.
func (c *Conn) ServeDeliver(instance string, handle func(WakeUp) DeliverAnswer) (stop func(), err error) {
	if err := schemas.ValidateName("instance", instance); err != nil {
		return nil, err
	}
	return c.serve(deliverSubject(instance), "", deliverWorkers, func(_ context.Context, m *nats.Msg) {
		var w WakeUp
		err := schemas.DecodeJSON(m.Data, &w)
		if err == nil {
			err = w.Session.Validate()
		}
		if err == nil {
			err = checkAckSubject(w.AckSubject, streamCommands)
		}
		if err != nil {
			c.log.Warn().Err(err).Msg("a wake-up from another engine can't be read")
			return
		}
		if err := m.Respond([]byte(handle(w))); err != nil {
			c.log.Debug().Err(err).Msg("answer a wake-up")
		}
	})
}

// instanceTimeout bounds a request to another instance, which answers at once or not at all.
const instanceTimeout = time.Second

// Deliver hands a wake-up to the instance that is thought to own its session. The error wraps
// [ErrNoInstance] or [ErrNoAnswer].
func (c *Conn) Deliver(ctx context.Context, instance string, w WakeUp) (DeliverAnswer, error) {
	if err := schemas.ValidateName("instance", instance); err != nil {
		return "", err
	}
	body, err := schemas.EncodeJSON(w)
	if err != nil {
		return "", fmt.Errorf("hand over a wake-up: %w", err)
	}
	m, err := c.askInstance(ctx, deliverSubject(instance), body)
	if err != nil {
		return "", fmt.Errorf("hand a wake-up to engine %s: %w", instance, err)
	}
	switch a := DeliverAnswer(m.Data); a {
	case DeliverMine, DeliverNotMine, DeliverDraining:
		return a, nil
	}
	return "", fmt.Errorf("hand a wake-up to engine %s: unexpected answer %.40q", instance, m.Data)
}

// askInstance is one request to one process, bounded by instanceTimeout.
func (c *Conn) askInstance(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNoInstance
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return m, err
}
