package bus_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// The broker lets any replica answer a read, and serves it from one that is far behind. These
// tests add such a replica, which knows the stream as it was at some moment, and have the broker
// send a share of its clients' reads there.
var staleTests = []workTest{
	{"commands hidden by a lagging replica", testStaleCommands},
	{"a live instance is not judged by a lagging replica", testStaleGone},
	{"the claimer clears keys a lagging replica does not know", testStaleClearOthers},
	{"commands that only the leader knows", testLeaderOnlyCommands},
}

// replica is a copy of a stream that gets no newer.
type replica struct {
	messages []*jetstream.RawStreamMsg
	// obliging answers what is asked of it up to a sequence it does not have with what it has, as
	// the broker does for streams in memory; else it answers nothing.
	obliging bool
	mu       sync.Mutex
	answered int
}

// addReplica copies the stream as it is now and lets the copy answer that share of the reads, in
// percent, until the test ends.
func addReplica(t *testing.T, b *bustest.Broker, c *bus.Conn, stream string, percent uint8) *replica {
	t.Helper()
	ctx := testContext(t)
	s, err := c.JetStream().Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{}
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		r.messages = append(r.messages, m)
	}
	there := "stale." + stream
	if _, err := c.NATS().Subscribe(there, r.answer); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	restore, err := b.Nodes[0].Divert("$JS.API.DIRECT.GET."+stream, there, percent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
	return r
}

// used reports how many reads the copy answered; a test that it never misled tests nothing.
func (r *replica) used() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}

func (r *replica) answer(m *nats.Msg) {
	var request struct {
		Seq       uint64   `json:"seq"`
		NextFor   string   `json:"next_by_subj"`
		LastFor   string   `json:"last_by_subj"`
		MultiLast []string `json:"multi_last"`
		UpToSeq   uint64   `json:"up_to_seq"`
		Batch     int      `json:"batch"`
	}
	if err := schemas.DecodeJSON(m.Data, &request); err != nil {
		return
	}
	r.mu.Lock()
	r.answered++
	obliging := r.obliging
	r.mu.Unlock()
	var out []*jetstream.RawStreamMsg
	last := uint64(0)
	if n := len(r.messages); n > 0 {
		last = r.messages[n-1].Sequence
	}
	switch {
	case request.NextFor != "":
		for _, s := range r.messages {
			if s.Sequence >= request.Seq && matches(request.NextFor, s.Subject) && len(out) < max(request.Batch, 1) {
				out = append(out, s)
			}
		}
	case request.UpToSeq <= last || obliging:
		for _, s := range r.messages {
			filters := append(slices.Clone(request.MultiLast), request.LastFor)
			if (request.UpToSeq > 0 && s.Sequence > request.UpToSeq) || !slices.ContainsFunc(filters, func(f string) bool { return matches(f, s.Subject) }) {
				continue
			}
			out = slices.DeleteFunc(out, func(o *jetstream.RawStreamMsg) bool { return o.Subject == s.Subject })
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		respondStatus(m, "404", "No Results")
		return
	}
	for _, s := range out {
		reply := nats.NewMsg(m.Reply)
		maps.Copy(reply.Header, s.Header)
		reply.Header.Set("Nats-Subject", s.Subject)
		reply.Header.Set("Nats-Sequence", strconv.FormatUint(s.Sequence, 10))
		reply.Header.Set("Nats-Time-Stamp", s.Time.Format(time.RFC3339Nano))
		reply.Data = s.Data
		m.RespondMsg(reply)
	}
	respondStatus(m, "204", "EOB")
}

func respondStatus(m *nats.Msg, code, description string) {
	reply := nats.NewMsg(m.Reply)
	reply.Header.Set("Status", code)
	reply.Header.Set("Description", description)
	m.RespondMsg(reply)
}

// matches reports whether a subject matches a filter with wildcards.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || (token != "*" && token != s[i]) {
			return false
		}
	}
	return len(f) == len(s)
}

// Wake-up 50 arrives, the replica shows nothing after 48: an engine that believes it acknowledges
// the wake-up, and command 49 or 50 is never applied. Worse, lane by lane: one replica shows 50
// on one lane, another lacks 49 on the other.
func testStaleCommands(t *testing.T, b *bustest.Broker, project string) {
	for _, obliging := range []bool{false, true} {
		t.Run(fmt.Sprintf("obliging %v", obliging), func(t *testing.T) {
			staleCommands(t, b, schemas.SessionRef{Project: project, ID: fmt.Sprintf("s%v", obliging)}, obliging)
		})
	}
}

func staleCommands(t *testing.T, b *bustest.Broker, ref schemas.SessionRef, obliging bool) {
	c := b.Conn(t)
	send(t, c, task(ref, "before", "x"))
	stale := addReplica(t, b, c, "COMMANDS", 50)
	stale.mu.Lock()
	stale.obliging = obliging
	stale.mu.Unlock()
	want := []string{"before"}
	var after uint64
	for i := range 8 {
		cmd := task(ref, fmt.Sprintf("c%d", i), "x")
		if i%3 == 1 {
			cmd = abort(ref, cmd.ID)
		}
		send(t, c, cmd)
		next := abort(ref, fmt.Sprintf("d%d", i))
		reach := send(t, c, next)
		want = append(want, cmd.ID, next.ID)
		got, err := c.ReadCommands(testContext(t), ref, after, reach)
		if err != nil || ids(got) != strings.Join(want, " ") {
			t.Fatalf("round %d: got %q, %v, want %q", i, ids(got), err, want)
		}
		after, want = reach, nil
	}
	if stale.used() == 0 {
		t.Fatal("no read went to the lagging replica")
	}
}

func testStaleGone(t *testing.T, b *bustest.Broker, project string) {
	c, other := b.Conn(t), b.Conn(t)
	living := beat(t, other, bus.KindEngine, "live-"+project)
	judge := beat(t, c, bus.KindEngine, "judge-"+project)
	stale := addReplica(t, b, c, "KV_INSTANCES", 50)
	eventually(t, "the judge may judge", func() bool { return gone(t, judge, bus.KindEngine, "never-"+project) })
	// From here on the copy's last put of the live one is older than three puts of the judge.
	for range 30 {
		notGone(t, judge, living, bus.KindEngine, "live-"+project)
	}
	if stale.used() == 0 {
		t.Fatal("no read went to the lagging replica")
	}
}

func testStaleClearOthers(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	stale := addReplica(t, b, c, "KV_RUNNING", 50)
	for i := range 15 {
		ref := schemas.SessionRef{Project: project, ID: fmt.Sprintf("s%d", i)}
		left := mark(t, c, "old-"+project, ref)
		rev := mark(t, c, "self-"+project, ref)
		if err := c.ClearOthers(testContext(t), ref, "self-"+project, rev); err != nil {
			t.Fatal(err)
		}
		if _, found, err := c.LeaderGet(testContext(t), "KV_RUNNING", left, ""); found || err != nil {
			t.Fatalf("round %d: the old key is still there (%v)", i, err)
		}
	}
	if stale.used() == 0 {
		t.Fatal("no read went to the lagging replica")
	}
}

// Every replica that answers is behind; the leader's reads do not go through that door.
func testLeaderOnlyCommands(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	send(t, c, task(ref, "a", "x"))
	addReplica(t, b, c, "COMMANDS", 100)
	send(t, c, abort(ref, "b"))
	reach := send(t, c, task(ref, "c", "x"))
	got, err := c.ReadCommands(testContext(t), ref, 0, reach)
	if err != nil || ids(got) != "a b c" {
		t.Fatalf("got %q, %v, want a b c", ids(got), err)
	}
}
