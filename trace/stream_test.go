package trace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// contents is what a store can be asked about one shard, in a form that can be compared.
type contents struct {
	Sessions map[string]sessionContents
	Order    []string // by last activity, newest first
	Tokens   int64
	Failures int
}

type sessionContents struct {
	Messages []string // "position text"
	Head     Head
	Info     string
	Commands []string
}

// expected computes what a store must hold after the frames up to a sequence, straight from the
// rules and without any of the store's code.
func expected(stream []Frame, upTo uint64) contents {
	want := contents{Sessions: map[string]sessionContents{}}
	active := map[string]int64{}
	type end struct{ fence, n uint64 }
	ends := map[string]end{}
	tokens, failures := map[string]int64{}, map[string]int{}
	for _, f := range stream {
		id, last := f.Session.ID, ends[f.Session.ID]
		if f.Sequence > upTo || f.Fence < last.fence || f.Fence == last.fence && f.N <= last.n {
			continue
		}
		ends[id] = end{f.Fence, f.N}
		if f.Deleted {
			delete(want.Sessions, id)
			delete(active, id)
			delete(tokens, id)
			delete(failures, id)
			continue
		}
		active[id] = max(active[id], f.Time.UnixMilli())
		c := want.Sessions[id]
		c.Head = Head{Epoch: f.Epoch, Sequence: f.Sequence, Fence: f.Fence, N: f.N, Cursor: f.Cursor, Last: c.Head.Last}
		for _, e := range f.Entries {
			if e.Message.Partial() || len(e.Message.Origin) > 0 {
				continue
			}
			c.Head.Last = e.Position
			c.Messages = append(c.Messages, e.Position.String()+" "+describe(e.Message))
			switch p := e.Message.Payload.(type) {
			case *schemas.TokenUsage:
				tokens[id] += p.Request.Total
			case *schemas.RequestEnd:
				failures[id]++ // those of a random stream fail
			case *schemas.CommandOutcome:
				c.Commands = append(c.Commands, fmt.Sprint(p.CommandID, " ", e.Position.Sequence))
			}
		}
		c.Info = fmt.Sprint(len(c.Messages), " ", c.Head.Last, " ", active[id])
		want.Sessions[id] = c
	}
	for id := range want.Sessions {
		want.Order = append(want.Order, id)
		want.Tokens += tokens[id]
		want.Failures += failures[id]
	}
	slices.SortFunc(want.Order, func(a, b string) int {
		if active[a] != active[b] {
			return int(active[b] - active[a])
		}
		return strings.Compare(a, b)
	})
	return want
}

func describe(m schemas.Message) string {
	switch p := m.Payload.(type) {
	case *schemas.Text:
		return p.Text
	case *schemas.CommandOutcome:
		return "outcome of " + p.CommandID
	}
	return string(m.Kind())
}

// found asks the store for all of it.
func found(s *Store) (contents, error) {
	ctx := context.Background()
	got := contents{Sessions: map[string]sessionContents{}}
	page, err := s.Sessions(ctx, "p", Filter{}, Paging{Limit: 1000})
	if err != nil {
		return got, err
	}
	for _, info := range page.Sessions {
		got.Order = append(got.Order, info.Session.ID)
		c := sessionContents{Info: fmt.Sprint(info.Messages, " ", info.Last, " ", info.LastActivity.UnixMilli())}
		c.Head, err = s.Load(ctx, info.Session, func(e schemas.Entry) error {
			c.Messages = append(c.Messages, e.Position.String()+" "+describe(e.Message))
			p, ok := e.Message.Payload.(*schemas.CommandOutcome)
			if !ok {
				return nil
			}
			o, found, err := s.Outcome(info.Session, p.CommandID)
			if err == nil && !found {
				err = fmt.Errorf("no outcome of %s", p.CommandID)
			}
			c.Commands = append(c.Commands, fmt.Sprint(o.CommandID, " ", o.Log))
			return err
		})
		if err != nil {
			return got, err
		}
		got.Sessions[info.Session.ID] = c
	}
	rows, err := s.Usage(ctx, "p", 0, DayOf(noon)+1000)
	if err != nil {
		return got, err
	}
	for _, row := range rows {
		got.Tokens += row.Tokens.Total
	}
	failures, err := s.Failures(ctx, "p", FailureFilter{}, Paging{Limit: 1000})
	got.Failures = len(failures.Failures)
	return got, err
}

// check compares the store with the stream up to the store's own mark, which it returns: what
// is found must be exactly what some prefix of the stream amounts to.
func check(s *Store, stream []Frame) (Mark, error) {
	mark, _, err := s.Applied(0)
	if err != nil {
		return mark, err
	}
	got, err := found(s)
	if err != nil {
		return mark, err
	}
	if diff := cmp.Diff(expected(stream, mark.Sequence), got); diff != "" {
		return mark, fmt.Errorf("store differs from the stream up to %d (-want +got):\n%s", mark.Sequence, diff)
	}
	return mark, nil
}

// randomFrame appends a random frame, and now and then what a broker under stress stores too.
// pick returns a number from 0 to n-1.
func (b *script) randomFrame(pick func(n int) int) Frame {
	ref := schemas.SessionRef{Project: "p", ID: fmt.Sprint("s", pick(4))}
	last := b.heads[ref]
	switch kind := pick(20); {
	case kind == 0:
		b.claim(ref)
	case kind == 1 && last != nil && last.N > 0: // a frame stored twice
		return b.again(*last)
	case kind == 2 && last != nil && last.N > 0 && last.Fence > 1: // a frame of an owner that was replaced
		old := b.again(*last)
		old.Fence, old.N = uint64(1+pick(int(last.Fence-1))), uint64(1+pick(1000))
		return old
	case kind == 3 && last != nil && pick(3) == 0:
		return b.tombstone(ref)
	}
	var payloads []schemas.Payload
	for i := range pick(4) {
		payloads = append(payloads, b.randomPayload(pick, i))
	}
	return b.frame(ref, payloads...)
}

func (b *script) randomPayload(pick func(n int) int, line int) schemas.Payload {
	name := fmt.Sprint("m", b.sequence+1, ".", line)
	switch pick(8) {
	case 0:
		return schemas.TextFragment(schemas.PhaseDelta, name)
	case 1:
		return tokens(int64(pick(100)), 1)
	case 2:
		return requestEnd(schemas.StopFailed)
	case 3:
		return &schemas.CommandOutcome{CommandID: name, Code: schemas.CodeApplied}
	case 4:
		return meta(fmt.Sprint(pick(3)))
	}
	return prompt(name + strings.Repeat(".", pick(300)))
}

// again stores a frame once more, at the end of the stream.
func (b *script) again(f Frame) Frame {
	b.sequence++
	f.Sequence = b.sequence
	f.Entries = slices.Clone(f.Entries)
	for i := range f.Entries {
		f.Entries[i].Position.Sequence = f.Sequence
	}
	return f
}

// randomStream is a stream of n frames, the same for the same seed.
func randomStream(seed uint64, n int) []Frame {
	rng := rand.New(rand.NewPCG(seed, 0))
	b := newScript()
	var stream []Frame
	for range n {
		stream = append(stream, b.randomFrame(rng.IntN))
	}
	return stream
}

// batches splits a stream into runs of frames, each with its mark.
func batches(stream []Frame, size int) (split [][]Frame) {
	for batch := range slices.Chunk(stream, size) {
		split = append(split, batch)
	}
	return split
}

func applyBatch(s *Store, batch []Frame) error {
	last := batch[len(batch)-1]
	return s.Apply(context.Background(), 0, batch, Mark{Epoch: epoch, Sequence: last.Sequence, FrameID: fmt.Sprintf("x.%d.%d", last.Fence, last.N)})
}
