package bus

import (
	"context"
	"errors"
	"fmt"
)

// ShardHolds reports whether a shard's stream is the one a reader has read before: it has
// reached the sequence, and what it holds there, if it still does, has the message id. A stream
// that lost its tail, as after a power loss with lazy sync, gives sequences out again.
func (c *Conn) ShardHolds(ctx context.Context, shard int, sequence uint64, id string) (bool, error) {
	stream := sessionsStream(shard)
	m, err := c.leaderRead(ctx, stream, directRequest{Seq: sequence})
	if err == nil {
		return id == "" || m.Header.Get(headerMsgID) == id, nil
	}
	if !errors.Is(err, errNotFound) {
		return false, fmt.Errorf("look for %d in %s: %w", sequence, stream, err)
	}
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", stream, err)
	}
	return s.CachedInfo().State.LastSeq >= sequence, nil
}
