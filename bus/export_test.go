package bus

import (
	"context"
	"errors"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/schemas"
)

// NATS and JetStream let tests do to the broker what this package never does.
func (c *Conn) NATS() *nats.Conn               { return c.nc }
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Session, Instance and Last say what an owner owns, by which engine, and the sequence of the last frame
// that it has read or appended.
func (o *Owner) Session() schemas.SessionRef { return o.ref }
func (o *Owner) Instance() string            { return o.claim.Instance }
func (o *Owner) Last() uint64                { return o.prev.sequence }

// Puts returns the last of the beat's acknowledged puts, and the first of those that a silence is judged
// by; ok is false until there are as many as that takes.
func (b *Beat) Puts() (first, last uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.mu.puts)
	return b.mu.puts[0], b.mu.puts[n-1], n == beatsGone
}

// Point is a reader's place once it has taken the frame.
func (f Frame) Point() Point {
	return Point{Sequence: f.Sequence, Fence: f.Header.Fence, N: f.Header.N}
}

// Divert has a share of the requests on a subject, in percent, of clients of this node go to
// another subject, until the returned function is called.
func (s *Server) Divert(subject, to string, percent uint8) (restore func(), err error) {
	account := s.ns.GlobalAccount()
	if err := account.AddWeightedMappings(subject, natsserver.NewMapDest(to, percent), natsserver.NewMapDest(subject, 100-percent)); err != nil {
		return nil, err
	}
	return func() { account.RemoveMapping(subject) }, nil
}

// LeaderGet returns the headers of a message, by its sequence or as the last of a subject, as the
// stream's leader knows it.
func (c *Conn) LeaderGet(ctx context.Context, stream string, seq uint64, lastFor string) (header nats.Header, found bool, err error) {
	s, err := c.leaderRead(ctx, stream, directRequest{Seq: seq, LastFor: lastFor})
	if errors.Is(err, errNotFound) {
		return nil, false, nil
	}
	return s.Header, err == nil, err
}

// Subscriptions returns the subjects that clients of this node are subscribed to.
func (s *Server) Subscriptions() ([]string, error) {
	connections, err := s.ns.Connz(&natsserver.ConnzOptions{Subscriptions: true, Limit: 1 << 16})
	if err != nil {
		return nil, err
	}
	var subjects []string
	for _, c := range connections.Conns {
		subjects = append(subjects, c.Subs...)
	}
	return subjects, nil
}

// DecodeStoredCommand is how ReadCommands reads what a stream holds.
func DecodeStoredCommand(ref schemas.SessionRef, sequence uint64, data []byte) StoredCommand {
	return storedCommand(ref, stored{Subject: commandSubject(ref, LaneRun), Sequence: sequence, Data: data}, data, nil)
}

// BlobInUse reports whether a sweep would keep a blob of that name.
func (c *Conn) BlobInUse(ctx context.Context, name string) (bool, error) {
	return c.SweepOf(ctx)(name)
}

// SweepOf returns what does the same in one pass of a sweep.
func (c *Conn) SweepOf(ctx context.Context) func(name string) (inUse bool, err error) {
	refs := newReferences(c)
	return func(name string) (bool, error) { return refs.name(ctx, name) }
}
