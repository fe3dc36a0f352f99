package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Call records say what became of a tool call. They form a chain: each is stored only if the
// record its writer names is still the last one of its call. So of two writers one wins, and a
// record that was lost or has expired closes the door instead of opening it: the next link names
// a predecessor that is not there.

// RecordConflict says that another record follows the one its writer named.
type RecordConflict struct {
	// Last is the sequence of the call's last record; 0 says that the chain is lost and
	// nothing can follow it any more.
	Last uint64
	// Record is that record; nil if Last is 0 or it could not be read.
	Record *schemas.ToolRecord
}

func (e *RecordConflict) Error() string {
	switch {
	case e.Last == 0:
		return "the call's records are lost"
	case e.Record == nil:
		return fmt.Sprintf("the call has another record, at %d", e.Last)
	}
	return fmt.Sprintf("the call has another record, %s at %d", e.Record.State, e.Last)
}

// WriteRecord adds a record to a call's chain, after the record at sequence after (0: it is the
// first), and returns its sequence. A record with the same content that follows after already is
// this one: an acknowledgement may have been lost, so whoever writes `started` must name its
// toolrunner and a nonce of this start. Lost against another record: *[RecordConflict]. Any
// other error leaves the outcome unknown; the same call again finds out.
//
// A result over the broker's max payload is kept as a blob that the record names.
func (c *Conn) WriteRecord(ctx context.Context, ref schemas.SessionRef, call string, after uint64, rec schemas.ToolRecord) (uint64, error) {
	if err := validateCall(ref, call); err != nil {
		return 0, err
	}
	if err := validateRecord(rec); err != nil {
		return 0, err
	}
	body, err := schemas.EncodeJSON(rec)
	if err != nil {
		return 0, fmt.Errorf("write record of %s: %w", call, err)
	}
	shard := c.Shard(ref)
	m := nats.NewMsg(outputSubject(ref, shard, call))
	m.Header.Set(headerExpectSubject, strconv.FormatUint(after, 10))
	if err := c.sealBody(ctx, m, ref, call, body); err != nil {
		return 0, fmt.Errorf("write record of %s: %w", call, err)
	}
	w := recordWrite{stream: outputsStream(shard), subject: m.Subject, after: after, body: body}
	seq, err := c.writeRecord(ctx, m, w)
	var conflict *RecordConflict
	if err != nil && !errors.As(err, &conflict) {
		return 0, fmt.Errorf("write record of %s: %w", call, err)
	}
	return seq, err
}

// validateRecord reports what a record lacks to mean anything.
func validateRecord(rec schemas.ToolRecord) error {
	switch rec.State {
	case schemas.RecordQueued, schemas.RecordWithdrawn:
		return nil
	case schemas.RecordStarted:
		if rec.Toolrunner == "" || rec.Nonce == "" {
			return schemas.Errorf(schemas.CodeInvalid, "a started record names its toolrunner and a nonce")
		}
		return nil
	case schemas.RecordDone:
		if rec.Result == nil {
			return schemas.Errorf(schemas.CodeInvalid, "a done record holds the result")
		}
		return nil
	}
	return schemas.Errorf(schemas.CodeInvalid, "no record state is called %.40q", string(rec.State))
}

// recordWrite is one record on its way.
type recordWrite struct {
	stream, subject string
	after           uint64
	body            []byte
}

// staleVerdict is how long a refusal that reports an earlier record than the expected one is
// taken for a leader that does not know yet. After that the records behind are lost.
const staleVerdict = 2 * time.Second

// writeRecord stores a record, or finds out what stands in its place.
func (c *Conn) writeRecord(ctx context.Context, m *nats.Msg, w recordWrite) (uint64, error) {
	since := time.Now()
	ack, err := c.publishRetry(ctx, m, func(err error) bool {
		var refused *apiError
		if !errors.As(err, &refused) {
			return false
		}
		last, ok := refused.lastSequence()
		return ok && (last == 0 || last > w.after || time.Since(since) > staleVerdict)
	})
	if err == nil {
		return ack.Sequence, nil
	}
	var refused *apiError
	if !errors.As(err, &refused) {
		return 0, err
	}
	last, ok := refused.lastSequence()
	if !ok {
		return 0, err
	}
	return c.judgeRefusal(ctx, w, last)
}

// judgeRefusal finds out who won: an earlier try of this very write, or somebody else. Only one
// record can follow the expected one, so that one decides, whatever was written after it.
func (c *Conn) judgeRefusal(ctx context.Context, w recordWrite, last uint64) (uint64, error) {
	if last <= w.after { // 0, or the chain ends before the record we were to follow
		return 0, &RecordConflict{}
	}
	next, err := c.readRecord(ctx, w, directRequest{Seq: w.after + 1, NextFor: w.subject})
	if err != nil {
		return 0, err
	}
	body, err := c.openBody(ctx, next.Header, next.Data)
	if err == nil && bytes.Equal(body, w.body) {
		return next.Sequence, nil
	}
	end := next
	if next.Sequence != last {
		if end, err = c.readRecord(ctx, w, directRequest{Seq: last}); err != nil {
			return 0, err
		}
	}
	conflict := &RecordConflict{Last: last}
	if rec, err := c.toolRecord(ctx, end); err == nil {
		conflict.Record = &rec
	}
	return 0, conflict
}

// readRecord reads what the broker has just said exists; the leader that said it may be another
// one by now, which shows it a moment later. That no answer comes says nothing, and is no reason to
// leave the writer without one as long as ctx allows.
func (c *Conn) readRecord(ctx context.Context, w recordWrite, request directRequest) (stored, error) {
	since := time.Now()
	for try := 0; ; try++ {
		s, err := c.leaderRead(ctx, w.stream, request)
		if !errors.Is(err, errNotFound) || time.Since(since) > staleVerdict {
			return s, err
		}
		if waitErr := sleep(ctx, jitter(try)); waitErr != nil {
			return stored{}, err
		}
	}
}

func (c *Conn) toolRecord(ctx context.Context, s stored) (schemas.ToolRecord, error) {
	body, err := c.openBody(ctx, s.Header, s.Data)
	if err != nil {
		return schemas.ToolRecord{}, err
	}
	return decodeRecord(s, body)
}

func decodeRecord(s stored, body []byte) (schemas.ToolRecord, error) {
	var rec schemas.ToolRecord
	if err := schemas.DecodeJSON(body, &rec); err != nil {
		return schemas.ToolRecord{}, err
	}
	rec.Sequence, rec.Stored = s.Sequence, s.Time
	return rec, nil
}

// LastRecord returns the newest record of a call that a replica shows. A record that is found is
// proof of itself; there may be a newer one, and that none is found proves nothing. Decisions
// are made by [Conn.WriteRecord].
func (c *Conn) LastRecord(ctx context.Context, ref schemas.SessionRef, call string) (rec schemas.ToolRecord, found bool, err error) {
	if err := validateCall(ref, call); err != nil {
		return rec, false, err
	}
	shard := c.Shard(ref)
	messages, err := c.directRead(ctx, outputsStream(shard), directRequest{LastFor: outputSubject(ref, shard, call)})
	if err != nil {
		return rec, false, fmt.Errorf("read record of %s: %w", call, err)
	}
	if len(messages) == 0 {
		return rec, false, nil
	}
	rec, err = c.toolRecord(ctx, messages[0])
	if err != nil {
		return rec, false, fmt.Errorf("read record of %s: %w", call, err)
	}
	return rec, true, nil
}

// WatchRecords calls hint, on a goroutine of its own, whenever a record of the session's calls
// was stored, as far as the broker's republishing gets through: it is a hint, not a way to learn
// everything. The record itself comes along, unless its body is kept outside: the broker
// republishes what it has stored, so it is as good as one that was read. hint must not block for
// long. stop ends it and waits.
func (c *Conn) WatchRecords(ref schemas.SessionRef, hint func(call string, rec *schemas.ToolRecord)) (stop func(), err error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	prefix := recordSubject(ref, "")
	return c.serve(recordSubject(ref, "*"), "", 1, func(_ context.Context, m *nats.Msg) {
		hint(m.Subject[len(prefix):], republishedRecord(m))
	})
}

// republishedRecord is the record that a hint carries; nil if it has to be read.
func republishedRecord(m *nats.Msg) *schemas.ToolRecord {
	s, empty, err := storedFromDirect(m) // a republished message has the headers of a direct get
	if err != nil || empty || s.Header.Get(headerBody) != "" {
		return nil
	}
	rec, err := decodeRecord(s, s.Data)
	if err != nil {
		return nil
	}
	return &rec
}
