package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/schemas"
)

// QueueTool queues a call for the toolrunners of a pool and returns the sequence of its message.
// The call's queued record must be stored and named in the request: the call can be started only
// after that very record, so queueing it twice does no harm.
func (c *Conn) QueueTool(ctx context.Context, pool string, req schemas.ToolRequest) (uint64, error) {
	if err := validateToolRequest(pool, req); err != nil {
		return 0, err
	}
	body, err := schemas.EncodeJSON(req)
	if err != nil {
		return 0, fmt.Errorf("queue call %s: %w", req.ToolCallID, err)
	}
	m := nats.NewMsg(toolSubject(req.Session.Project, pool, req.Name))
	// The queued record's sequence makes the id another one for each attempt: the broker
	// remembers an id also after its message was taken, and would swallow the second attempt.
	m.Header.Set(headerMsgID, fmt.Sprintf("%s.%s.%s.%d", req.Session.Project, req.Session.ID, req.ToolCallID, req.Queued))
	setTraceContext(m.Header, req.TraceContext)
	if err := c.sealBody(ctx, m, req.Session, req.ToolCallID, body); err != nil {
		return 0, fmt.Errorf("queue call %s: %w", req.ToolCallID, err)
	}
	ack, err := c.publishRetry(ctx, m, nil)
	if err != nil {
		return 0, fmt.Errorf("queue call %s: %w", req.ToolCallID, err)
	}
	return ack.Sequence, nil
}

// validateToolRequest checks the names of which a call's subjects are made, and that it has a record.
func validateToolRequest(pool string, req schemas.ToolRequest) error {
	if err := validateCall(req.Session, req.ToolCallID); err != nil {
		return err
	}
	if err := schemas.ValidateName("pool", pool); err != nil {
		return err
	}
	if err := schemas.ValidateName("name", req.Name); err != nil {
		return err
	}
	if req.Queued == 0 {
		return schemas.Errorf(schemas.CodeInvalid, "call %s names no queued record", req.ToolCallID)
	}
	return nil
}

// UnqueueTool removes the message of a call that was withdrawn. It is a courtesy to
// toolrunners, not a decision: they can't start a withdrawn call.
func (c *Conn) UnqueueTool(ctx context.Context, seq uint64) error {
	stream, err := c.js.Stream(ctx, streamTools)
	if err == nil {
		err = stream.DeleteMsg(ctx, seq)
	}
	// A message that was taken meanwhile is as gone as a deleted one.
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return fmt.Errorf("remove a queued call: %w", err)
	}
	return nil
}

// ToolQueueOptions says how a pool's calls are handed out. All toolrunners of a pool must use
// the same.
type ToolQueueOptions struct {
	// AckWait is how long a toolrunner may take to acknowledge a call before it is handed to
	// another one; default 3 s. A call is acknowledged when its start is recorded, so this is
	// no bound on how long a tool may run.
	AckWait time.Duration
	// Private marks the pool of one toolrunner: its queue is removed after an hour in which
	// nobody pulled, and when the broker stops. A toolrunner that outlives that makes it again;
	// its calls are kept by the stream.
	Private bool
}

// ToolQueue hands out the calls of one project and pool. All toolrunners of the pool share it,
// and each must have all of the pool's tools.
type ToolQueue struct {
	c      *Conn
	puller *puller
}

// ToolQueue opens a pool's queue, and creates it on the broker if need be. There is nothing to close.
func (c *Conn) ToolQueue(ctx context.Context, project, pool string, o ToolQueueOptions) (*ToolQueue, error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return nil, err
	}
	if err := schemas.ValidateName("pool", pool); err != nil {
		return nil, err
	}
	if o.AckWait <= 0 {
		o.AckWait = 3 * time.Second
	}
	config := jetstream.ConsumerConfig{
		// No name holds a "=", so no two pools share a consumer.
		Durable:       project + "=" + pool,
		Description:   "calls for the toolrunners of one pool",
		FilterSubject: toolSubject(project, pool, "*"),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       o.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
	}
	if o.Private {
		config.InactiveThreshold, config.MemoryStorage = time.Hour, true
	}
	q := &ToolQueue{c: c, puller: &puller{c: c, stream: streamTools, config: config}}
	if err := retryRead(ctx, q.puller.ensure); err != nil {
		return nil, err
	}
	return q, nil
}

// QueuedTool is a call that was handed out.
type QueuedTool struct {
	Request schemas.ToolRequest
	// Deliveries counts how often the call was handed out, from 1.
	Deliveries int
	// Sequence is the message's.
	Sequence uint64

	ackSubject string
}

// Pull returns 1 to most calls, or none after about half a second. Ask for no more than can be
// started at once. When ctx ends it returns within half a second and holds nothing back.
func (q *ToolQueue) Pull(ctx context.Context, most int) ([]QueuedTool, error) {
	messages, err := q.puller.pull(ctx, most)
	if err != nil {
		return nil, fmt.Errorf("pull calls: %w", err)
	}
	calls := make([]QueuedTool, 0, len(messages))
	for _, m := range messages {
		call, err := q.open(ctx, m)
		switch {
		case err == nil:
			calls = append(calls, call)
		case errors.Is(err, errMalformed):
			// Nobody could run it; its owner settles it when its time in the queue is over.
			q.c.log.Warn().Err(err).Str("subject", m.Subject).Msg("a queued call is dropped")
			q.c.settle(m, streamTools, ackTerm)
		default:
			q.c.log.Warn().Err(err).Str("subject", m.Subject).Msg("a queued call can't be read now")
			q.c.settle(m, streamTools, nakAfter(time.Second))
		}
	}
	return calls, nil
}

// errMalformed says that a message is none that this package would have sent.
var errMalformed = errors.New("malformed message")

// open reads a call that was handed out. It fails with errMalformed for what no toolrunner can ever run.
func (q *ToolQueue) open(ctx context.Context, m *nats.Msg) (QueuedTool, error) {
	meta, err := m.Metadata()
	if err != nil {
		return QueuedTool{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	body, err := q.c.openBody(ctx, m.Header, m.Data)
	if err != nil {
		return QueuedTool{}, err
	}
	call := QueuedTool{Deliveries: int(meta.NumDelivered), Sequence: meta.Sequence.Stream, ackSubject: m.Reply}
	if err := schemas.DecodeJSON(body, &call.Request); err != nil {
		return QueuedTool{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	call.Request.TraceContext = traceContextOf(m.Header)
	if err := validateToolRequest(schemas.DefaultPool, call.Request); err != nil {
		return QueuedTool{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return call, nil
}

// Ack takes a call off the queue, waiting until the broker has noted it.
func (q *ToolQueue) Ack(ctx context.Context, t QueuedTool) error {
	return q.c.ackSure(ctx, t.ackSubject, streamTools)
}

// Nak returns a call to the queue, for some toolrunner to get it after the delay.
func (q *ToolQueue) Nak(t QueuedTool, delay time.Duration) error {
	return q.c.nak(t.ackSubject, streamTools, delay)
}

// QueueDepth is how many calls wait in a pool's queue or are handed out and not acknowledged; for
// people and for messages that say why a call was not run. 0 also if nobody ever served it.
func (c *Conn) QueueDepth(ctx context.Context, project, pool string) (waiting, out uint64, err error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return 0, 0, err
	}
	if err := schemas.ValidateName("pool", pool); err != nil {
		return 0, 0, err
	}
	consumer, err := c.js.Consumer(ctx, streamTools, project+"="+pool)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look at pool %s: %w", strconv.Quote(pool), err)
	}
	info := consumer.CachedInfo()
	return info.NumPending, uint64(info.NumAckPending), nil
}
