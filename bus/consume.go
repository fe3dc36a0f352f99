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

// LogRecord is one thing the trace keeps or acts on: a recorded frame, or the end of a session.
type LogRecord struct {
	// Sequence is the record's place in the shard's stream.
	Sequence uint64
	// Frame is set unless Deleted or Passed is.
	Frame Frame
	// Deleted names a session that was deleted.
	Deleted *schemas.SessionRef
	// Passed says that there is nothing to keep here: only how far the stream was read.
	Passed bool
}

// ConsumeLog hands the recorded frames of a shard's sessions, and the deletions of sessions, to
// batch: those with sequences from the given one on, in order, each once, as many at a time as
// are there; and once none, when all has been handed over that was stored when ConsumeLog began. It
// goes on over restarts of the broker. It returns when ctx ends, when batch returns
// an error, or with [ErrTailLost] when the stream no longer holds what was handed over: then
// what was made of it has to be thrown away.
//
// A frame that was stored twice comes twice, under two sequences; see [Chain.Log].
func (c *Conn) ConsumeLog(ctx context.Context, shard int, from uint64, batch func([]LogRecord) error) error {
	if shard < 0 || shard >= c.Shards() {
		return fmt.Errorf("consume log: there is no shard %d", shard)
	}
	l := &logConsumer{
		c: c, shard: shard, stream: sessionsStream(shard), epoch: c.ShardEpoch(shard),
		next: max(from, 1), batch: batch,
	}
	l.lastAt = l.next - 1
	for try := 0; ; try++ {
		at := l.next
		err := l.run(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case l.final != nil:
			return fmt.Errorf("consume log of shard %d: %w", shard, l.final)
		case permanent(err):
			return fmt.Errorf("consume log of shard %d: %w", shard, err)
		}
		c.log.Debug().Err(err).Int("shard", shard).Msg("the log is consumed from a new place")
		if l.next > at {
			try = 0
		}
		if err := sleep(ctx, jitter(try+3)); err != nil {
			return err
		}
	}
}

// LogEnd is the sequence up to which [Conn.ConsumeLog] hands over what a shard holds now.
func (c *Conn) LogEnd(ctx context.Context, shard int) (uint64, error) {
	var end uint64
	for _, subject := range logSubjects(shard) {
		m, err := c.leaderRead(ctx, sessionsStream(shard), directRequest{LastFor: subject})
		if err != nil && !errors.Is(err, errNotFound) {
			return 0, fmt.Errorf("read the end of shard %d: %w", shard, err)
		}
		end = max(end, m.Sequence)
	}
	return end, nil
}

// logConsumer reads a shard's stream through one consumer after another. A consumer is a thing of
// the broker's memory: any restart may take it away, so the place in the stream is kept here.
type logConsumer struct {
	c      *Conn
	shard  int
	stream string
	epoch  string
	next   uint64 // the first sequence not handed over
	batch  func([]LogRecord) error
	lastAt uint64 // sequence of the last record handed over, or of what the caller had before
	lastID string // its message id; empty if unknown
	told   bool   // that what was stored at the beginning has been handed over
	final  error  // why to stop for good
}

const (
	// logPull bounds one wait for frames; it is also how long a consumer that has vanished goes
	// unnoticed.
	logPull = 2 * time.Second
	// logPullSlack is how much later the broker's answer may come.
	logPullSlack = time.Second
	// logBatch and logBatchBytes bound one batch.
	logBatch      = 512
	logBatchBytes = 8 << 20
)

// run makes a consumer and hands over what it delivers, until something is wrong with it.
func (l *logConsumer) run(ctx context.Context) error {
	if err := l.verify(ctx); err != nil {
		return err
	}
	name, stored, err := l.create(ctx)
	if err != nil {
		return err
	}
	defer l.remove(ctx, name)
	sub, err := l.c.nc.SubscribeSync(l.c.nc.NewInbox())
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	for delivered := uint64(0); ; {
		if err := l.tell(delivered >= stored); err != nil {
			return err
		}
		got, err := l.pull(ctx, name, sub, delivered)
		delivered += uint64(len(got))
		if handErr := l.handOver(ctx, got); handErr != nil {
			return handErr
		}
		if err != nil {
			return err
		}
		if len(got) == 0 { // a deletion took what was still to come
			stored = delivered
		}
	}
}

// tell calls batch without records once all of the beginning has been handed over.
func (l *logConsumer) tell(all bool) error {
	if l.told || !all {
		return nil
	}
	l.told = true
	if err := l.batch(nil); err != nil {
		l.final = err
		return err
	}
	return nil
}

// verify checks that the stream is the one it was, and still holds what was handed over. It takes several
// answers that say no to believe it: a leader that was cut off answers from the past.
func (l *logConsumer) verify(ctx context.Context) error {
	epoch, err := l.c.readEpoch(ctx, l.shard)
	if err != nil {
		return err
	}
	if epoch != l.epoch {
		l.final = fmt.Errorf("%w: %s was made anew", ErrTailLost, l.stream)
		return l.final
	}
	if l.lastAt == 0 {
		return nil
	}
	for try := 0; ; try++ {
		holds := false
		err := retryRead(ctx, func(ctx context.Context) (err error) {
			holds, err = l.c.ShardHolds(ctx, l.shard, l.lastAt, l.lastID)
			return err
		})
		if err != nil || holds {
			return err
		}
		if try == maxStale {
			l.final = fmt.Errorf("%w: what was at %d of %s", ErrTailLost, l.lastAt, l.stream)
			return l.final
		}
		if err := sleep(ctx, jitter(try+3)); err != nil {
			return err
		}
	}
}

// create makes a consumer that delivers from l.next on, and returns its name and how many messages are
// stored now that it has yet to deliver.
func (l *logConsumer) create(ctx context.Context) (name string, stored uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*tryTimeout)
	defer cancel()
	consumer, err := l.c.js.CreateConsumer(ctx, l.stream, jetstream.ConsumerConfig{
		Description:       "recorded frames for a trace",
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       l.next,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubjects:    logSubjects(l.shard),
		InactiveThreshold: 30 * time.Second,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return "", 0, fmt.Errorf("create consumer on %s: %w", l.stream, err)
	}
	info := consumer.CachedInfo()
	return info.Name, info.NumPending, nil
}

// remove drops the consumer; one that can't be reached ends by itself.
func (l *logConsumer) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
	defer cancel()
	if err := l.c.js.DeleteConsumer(ctx, l.stream, name); err != nil {
		l.c.log.Debug().Err(err).Str("consumer", name).Msg("a consumer is left to end by itself")
	}
}

// errConsumerBroken says that a consumer is gone or has skipped something.
var errConsumerBroken = errors.New("the consumer is gone or out of step")

// pull asks for one batch. What it returns is in order and without a gap, also beside an error.
func (l *logConsumer) pull(ctx context.Context, name string, sub *nats.Subscription, delivered uint64) ([]stored, error) {
	body, err := schemas.EncodeJSON(pullRequest{
		Batch: logBatch, MaxBytes: max(logBatchBytes, 2*l.c.MaxFrame()), Expires: int64(logPull), NoWait: true,
	})
	if err != nil {
		return nil, err
	}
	if err := l.c.nc.PublishRequest(nextMessages(l.stream, name), sub.Subject, body); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, logPull+logPullSlack)
	defer cancel()
	var got []stored
	for len(got) < logBatch {
		m, err := sub.NextMsgWithContext(bounded)
		if err != nil {
			return got, fmt.Errorf("%w: %w", errConsumerBroken, err)
		}
		if m.Reply == "" {
			switch status := m.Header.Get("Status"); {
			case status == "100":
				continue
			case status == statusNoResponders, status == statusConflict && len(got) == 0:
				return got, fmt.Errorf("%w: %s %s", errConsumerBroken, status, m.Header.Get("Description"))
			}
			return got, nil
		}
		meta, err := m.Metadata()
		if err != nil {
			return got, fmt.Errorf("%w: %w", errConsumerBroken, err)
		}
		if want := delivered + uint64(len(got)) + 1; meta.Sequence.Consumer != want {
			return got, fmt.Errorf("%w: delivery %d follows %d", errConsumerBroken, meta.Sequence.Consumer, want-1)
		}
		got = append(got, stored{Subject: m.Subject, Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Header: m.Header, Data: m.Data})
	}
	return got, nil
}

// handOver decodes what was delivered and calls batch.
func (l *logConsumer) handOver(ctx context.Context, got []stored) error {
	if len(got) == 0 {
		return nil
	}
	var records []LogRecord
	next, lastID, lastAt := l.next, l.lastID, l.lastAt
	for _, m := range got {
		record, ok, err := l.decode(ctx, m)
		if err != nil {
			if ctx.Err() == nil {
				l.final = err
			}
			return err
		}
		next = m.Sequence + 1
		if ok {
			records = append(records, record)
		}
		lastAt, lastID = m.Sequence, m.Header.Get(headerMsgID)
	}
	if len(records) == 0 || records[len(records)-1].Sequence < lastAt {
		records = append(records, LogRecord{Sequence: lastAt, Passed: true})
	}
	if err := l.batch(records); err != nil {
		l.final = err
		return err
	}
	l.next, l.lastID, l.lastAt = next, lastID, lastAt
	return nil
}

// decode makes a record of a stored message; false for one that says nothing to a trace.
func (l *logConsumer) decode(ctx context.Context, m stored) (LogRecord, bool, error) {
	if ref, err := refFromOwnerSubject(m.Subject); err == nil {
		claim, err := decodeClaim(m)
		if err != nil || claim.State != ClaimDeleted {
			return LogRecord{}, false, nil //nolint:nilerr // whoever claims next finds it; a trace has no use for it
		}
		return LogRecord{Sequence: m.Sequence, Deleted: &ref}, true, nil
	}
	f, err := l.c.decodeFrame(ctx, m)
	if errors.Is(err, errNotFrame) {
		l.c.log.Error().Err(err).Msg("a stored message is skipped")
		return LogRecord{}, false, nil
	}
	return LogRecord{Sequence: m.Sequence, Frame: f}, err == nil, err
}
