package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// This file reads and writes key-value buckets as the streams they are: with revisions that are
// compared, typed refusals and reads that say how fresh they are.

const (
	headerKVOperation  = "KV-Operation"
	headerMarkerReason = "Nats-Marker-Reason"
)

func kvStream(bucket string) string       { return "KV_" + bucket }
func kvSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// kvEntry is a key that exists.
type kvEntry struct {
	Key      string
	Value    []byte
	Revision uint64
}

// kvMessage is a put of a key. A lifetime above 0 removes the key when it was not put again.
func kvMessage(bucket, key string, value []byte, lifetime time.Duration) *nats.Msg {
	m := nats.NewMsg(kvSubject(bucket, key))
	m.Data = value
	if lifetime > 0 {
		m.Header.Set(headerTTL, ttl(lifetime))
	}
	return m
}

// kvPut stores a key and returns its revision, trying until ctx ends.
func (c *Conn) kvPut(ctx context.Context, bucket, key string, value []byte, lifetime time.Duration) (uint64, error) {
	m := kvMessage(bucket, key, value, lifetime)
	// A try whose answer was lost must not become a second revision that its writer never
	// hears of: the writer could then not delete the key.
	m.Header.Set(headerMsgID, rand.Text())
	ack, err := c.publishRetry(ctx, m, nil)
	if err != nil {
		return 0, fmt.Errorf("put %s in %s: %w", key, bucket, err)
	}
	return ack.Sequence, nil
}

// kvPurgeMessage is a delete of a key. It leaves a marker that goes away by itself; the marker of
// a plain delete stays for ever.
func kvPurgeMessage(bucket, key string) *nats.Msg {
	m := nats.NewMsg(kvSubject(bucket, key))
	m.Header.Set(headerKVOperation, "PURGE")
	m.Header.Set(headerRollup, "sub")
	m.Header.Set(headerTTL, ttl(markerTTL))
	return m
}

// RevisionConflict says that a key has another revision than its deleter read, so it was left.
type RevisionConflict struct {
	Key string
	// Last is the key's revision now.
	Last uint64
}

func (e *RevisionConflict) Error() string {
	return fmt.Sprintf("key %s has been put again, as revision %d", e.Key, e.Last)
}

// kvPurge deletes a key at a revision. A key that is gone already is a success; one with another
// revision is a *RevisionConflict.
func (c *Conn) kvPurge(ctx context.Context, bucket, key string, revision uint64) error {
	m := kvPurgeMessage(bucket, key)
	m.Header.Set(headerExpectSubject, strconv.FormatUint(revision, 10))
	_, err := c.publishRetry(ctx, m, func(err error) bool { return !busy(err) })
	var refused *apiError
	if err == nil || !errors.As(err, &refused) {
		if err != nil {
			err = fmt.Errorf("delete %s in %s: %w", key, bucket, err)
		}
		return err
	}
	// Refused: it is gone (also by an earlier try of this one whose answer was lost), or newer.
	last, err := c.leaderRead(ctx, kvStream(bucket), directRequest{LastFor: kvSubject(bucket, key)})
	switch {
	case errors.Is(err, errNotFound), err == nil && kvDeleted(last):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s in %s: %w", key, bucket, err)
	}
	return &RevisionConflict{Key: key, Last: last.Sequence}
}

// kvDeleted reports a message that marks its key as deleted or expired.
func kvDeleted(s stored) bool {
	return s.Header.Get(headerKVOperation) != "" || s.Header.Get(headerMarkerReason) != ""
}

func kvEntryFrom(bucket string, s stored) (kvEntry, bool) {
	if kvDeleted(s) {
		return kvEntry{}, false
	}
	return kvEntry{Key: strings.TrimPrefix(s.Subject, kvSubject(bucket, "")), Value: s.Data, Revision: s.Sequence}, true
}

// kvList returns the keys that match the filter, as any replica knows them. What is missing from
// it proves nothing.
func (c *Conn) kvList(ctx context.Context, bucket, filter string) ([]kvEntry, error) {
	byKey := map[string]kvEntry{}
	var keys []string
	for next := uint64(1); ; {
		page, err := c.directRead(ctx, kvStream(bucket), directRequest{
			Seq: next, NextFor: kvSubject(bucket, filter), Batch: listPage, MaxBytes: pageBytes,
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", bucket, err)
		}
		for _, s := range page {
			next = s.Sequence + 1
			e, ok := kvEntryFrom(bucket, s)
			if !ok {
				delete(byKey, strings.TrimPrefix(s.Subject, kvSubject(bucket, "")))
				continue
			}
			if _, seen := byKey[e.Key]; !seen {
				keys = append(keys, e.Key)
			}
			byKey[e.Key] = e
		}
		if len(page) == 0 {
			break
		}
	}
	out := make([]kvEntry, 0, len(byKey))
	for _, key := range keys {
		if e, ok := byKey[key]; ok {
			out = append(out, e)
			delete(byKey, key) // deleted and put again while listing: once
		}
	}
	return out, nil
}

// listPage is how many keys one read of a list asks for.
const listPage = 256

// kvReadSince returns the entries that match the filters from a replica that has applied at
// least revision since of key. In a list that is so fresh an absent key is absent, unless it was
// put at the very moment of the read: keep one revision of a key, and it has none for an instant.
func (c *Conn) kvReadSince(ctx context.Context, bucket, key string, since uint64, filters ...string) ([]kvEntry, error) {
	subjects := []string{kvSubject(bucket, key)}
	for _, f := range filters {
		subjects = append(subjects, kvSubject(bucket, f))
	}
	for try := 0; ; try++ {
		messages, err := c.tryDirect(ctx, kvStream(bucket), directRequest{MultiLast: subjects})
		if err == nil {
			var out []kvEntry
			fresh := false
			for _, s := range messages {
				fresh = fresh || (s.Subject == subjects[0] && s.Sequence >= since)
				if e, ok := kvEntryFrom(bucket, s); ok {
					out = append(out, e)
				}
			}
			if fresh {
				return out, nil
			}
			err = errBehind
		}
		if waitErr := sleep(ctx, jitter(try)); waitErr != nil {
			return nil, fmt.Errorf("read %s: %w (%w)", bucket, waitErr, err)
		}
	}
}
