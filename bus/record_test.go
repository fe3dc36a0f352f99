package bus_test

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var recordTests = []workTest{
	{"records form a chain", testRecordChain},
	{"of many who start a call one does", testRecordRace},
	{"a lost acknowledgement is recognised", testRecordRepeat},
	{"a lost acknowledgement is recognised under later records", testRecordRepeatBelow},
	{"the same toolrunner started anew is another one", testRecordNonce},
	{"a withdrawn call can't be started", testRecordWithdrawn},
	{"a call whose records are lost can't be started", testRecordLost},
	{"a chain whose end is lost can't go on", testRecordTailLost},
	{"two owners settle a call that was never queued", testRecordOwners},
	{"TestCase_D17_a_lost_toolrunner_is_settled_once", testCaseD17Settled},
	{"a large result is kept whole", testRecordLarge},
	{"the body of a large record is kept as long as the record", testRecordBodyKept},
	{"a record hints", testRecordHint},
	{"records that say too little are refused", testRecordInvalid},
}

func queued(attempt int) schemas.ToolRecord {
	return schemas.ToolRecord{State: schemas.RecordQueued, Attempt: attempt}
}

func started(runner, nonce string) schemas.ToolRecord {
	return schemas.ToolRecord{State: schemas.RecordStarted, Attempt: 1, Toolrunner: runner, Nonce: nonce}
}

func done(output string) schemas.ToolRecord {
	return schemas.ToolRecord{State: schemas.RecordDone, Attempt: 1,
		Result: &schemas.ToolResult{Output: output, StopReason: schemas.StopCompleted}}
}

func withdrawn() schemas.ToolRecord { return schemas.ToolRecord{State: schemas.RecordWithdrawn} }

func write(t *testing.T, c *bus.Conn, ref schemas.SessionRef, call string, after uint64, rec schemas.ToolRecord) uint64 {
	t.Helper()
	seq, err := c.WriteRecord(testContext(t), ref, call, after, rec)
	if err != nil {
		t.Fatalf("write %s after %d: %v", rec.State, after, err)
	}
	return seq
}

// loses expects the write to be refused, and returns who won.
func loses(t *testing.T, c *bus.Conn, ref schemas.SessionRef, call string, after uint64, rec schemas.ToolRecord) *bus.RecordConflict {
	t.Helper()
	seq, err := c.WriteRecord(testContext(t), ref, call, after, rec)
	var conflict *bus.RecordConflict
	if !errors.As(err, &conflict) {
		t.Fatalf("write %s after %d: got %d, %v, want a conflict", rec.State, after, seq, err)
	}
	return conflict
}

func testRecordChain(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	var after uint64
	for _, rec := range []schemas.ToolRecord{queued(1), started("r", "n"), queued(2), started("r2", "n2"), done("ok")} {
		after = write(t, c, ref, "call", after, rec)
		eventually(t, "the record is read", func() bool {
			got, found, err := c.LastRecord(testContext(t), ref, "call")
			if err != nil {
				t.Fatal(err)
			}
			rec.Sequence = after
			return found && sameRecord(got, rec)
		})
	}
	if _, found, err := c.LastRecord(testContext(t), ref, "another"); found || err != nil {
		t.Errorf("got %v, %v for a call without records", found, err)
	}
}

// sameRecord compares all but when the broker stored the record, which it must have said.
func sameRecord(got, want schemas.ToolRecord) bool {
	stored := !got.Stored.IsZero()
	got.Stored = want.Stored
	return stored && cmp.Equal(got, want)
}

func testRecordRace(t *testing.T, b *bustest.Broker, project string) {
	ref := schemas.SessionRef{Project: project, ID: "s"}
	c := b.Conn(t)
	for range 5 {
		call := "call-" + freshName()
		after := write(t, c, ref, call, 0, queued(1))
		var mu sync.Mutex
		wins := map[string]uint64{}
		var conflicts []*bus.RecordConflict
		var wg sync.WaitGroup
		for range 8 {
			name := freshName()
			wg.Go(func() {
				seq, err := c.WriteRecord(testContext(t), ref, call, after, started(name, name))
				mu.Lock()
				defer mu.Unlock()
				var conflict *bus.RecordConflict
				switch {
				case err == nil:
					wins[name] = seq
				case errors.As(err, &conflict):
					conflicts = append(conflicts, conflict)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(wins) != 1 || len(conflicts) != 7 {
			t.Fatalf("%d started and %d were refused, want 1 and 7", len(wins), len(conflicts))
		}
		for _, conflict := range conflicts {
			if conflict.Record == nil || wins[conflict.Record.Nonce] != conflict.Last {
				t.Errorf("got %v, want the winner", conflict)
			}
		}
	}
}

func testRecordRepeat(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := write(t, c, ref, "call", 0, queued(1))
	first := write(t, c, ref, "call", q, started("r", "n"))
	if again := write(t, c, ref, "call", q, started("r", "n")); again != first {
		t.Errorf("got %d, want %d", again, first)
	}
}

// The toolrunner's `started` was stored, its acknowledgement lost, and the owner has settled the
// call meanwhile: the toolrunner did start it, and must not take itself for another one.
func testRecordRepeatBelow(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := write(t, c, ref, "call", 0, queued(1))
	s := write(t, c, ref, "call", q, started("r", "n"))
	write(t, c, ref, "call", s, done("the worker was lost"))
	if again := write(t, c, ref, "call", q, started("r", "n")); again != s {
		t.Errorf("got %d, want %d", again, s)
	}
	conflict := loses(t, c, ref, "call", s, done("late"))
	if conflict.Record == nil || conflict.Record.Result.Output != "the worker was lost" {
		t.Errorf("got %v", conflict)
	}
}

func testRecordNonce(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := write(t, c, ref, "call", 0, queued(1))
	s := write(t, c, ref, "call", q, started("r", "before the restart"))
	conflict := loses(t, c, ref, "call", q, started("r", "after the restart"))
	if conflict.Last != s || conflict.Record.Nonce != "before the restart" {
		t.Errorf("got %+v", conflict)
	}
}

func testRecordWithdrawn(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := write(t, c, ref, "call", 0, queued(1))
	w := write(t, c, ref, "call", q, withdrawn())
	if conflict := loses(t, c, ref, "call", q, started("r", "n")); conflict.Last != w || conflict.Record.State != schemas.RecordWithdrawn {
		t.Errorf("got %+v", conflict)
	}
	// And the other way round: what has started can't be withdrawn.
	q = write(t, c, ref, "call2", 0, queued(1))
	s := write(t, c, ref, "call2", q, started("r", "n"))
	if conflict := loses(t, c, ref, "call2", q, withdrawn()); conflict.Last != s || conflict.Record.Toolrunner != "r" {
		t.Errorf("got %+v", conflict)
	}
}

// With a start that expects nothing, an expired withdrawal lets the call start after all.
func testRecordLost(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := write(t, c, ref, "call", 0, queued(1))
	write(t, c, ref, "call", q, withdrawn())
	purgeRecords(t, c, ref, "call")
	if conflict := loses(t, c, ref, "call", q, started("r", "n")); conflict.Last != 0 || conflict.Record != nil {
		t.Errorf("got %+v, want a lost chain", conflict)
	}
}

func purgeRecords(t *testing.T, c *bus.Conn, ref schemas.SessionRef, call string) {
	t.Helper()
	for _, s := range outputStreams(t, c) {
		if err := s.Purge(testContext(t), purgeSubject("braid."+ref.Project+".output.*."+ref.ID+"."+call)); err != nil {
			t.Fatal(err)
		}
	}
}

// A power cut took the `started` of a chain: its writer can't go on, and learns it soon.
func testRecordTailLost(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := write(t, c, ref, "call", 0, queued(1))
	s := write(t, c, ref, "call", q, started("r", "n"))
	subject := regexp.MustCompile(`^braid\.` + project + `\.output\.\d+\.` + ref.ID + `\.call$`)
	eventually(t, "a replica that is asked has the record", func() bool {
		for _, stream := range outputStreams(t, c) {
			if m, err := stream.GetMsg(testContext(t), s); err == nil && subject.MatchString(m.Subject) {
				if err := stream.DeleteMsg(testContext(t), s); err != nil {
					t.Fatal(err)
				}
				return true
			}
		}
		return false
	})
	if conflict := loses(t, c, ref, "call", s, done("x")); conflict.Last != 0 {
		t.Errorf("got %+v, want a lost chain", conflict)
	}
}

// A call was allowed but not yet queued when its owner was stopped. The new owner settles it;
// the old one goes on and tries to queue it.
func testRecordOwners(t *testing.T, b *bustest.Broker, project string) {
	old, new := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	w := write(t, new, ref, "call", 0, withdrawn())
	if conflict := loses(t, old, ref, "call", 0, queued(1)); conflict.Last != w || conflict.Record.State != schemas.RecordWithdrawn {
		t.Errorf("got %+v", conflict)
	}
	// Both queue it: one record, and both know its sequence.
	if a, b := write(t, new, ref, "call2", 0, queued(1)), write(t, old, ref, "call2", 0, queued(1)); a != b {
		t.Errorf("got %d and %d, want one record", a, b)
	}
}

func testCaseD17Settled(t *testing.T, b *bustest.Broker, project string) {
	owner, runner := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := write(t, owner, ref, "never", 0, queued(1))
	s := write(t, runner, ref, "never", q, started("r", "n"))
	write(t, owner, ref, "never", s, done("outcome unknown: the worker was lost"))
	if conflict := loses(t, runner, ref, "never", s, done("all went well")); conflict.Record.Result.Output != "outcome unknown: the worker was lost" {
		t.Errorf("got %+v", conflict)
	}
	// A safe call runs again under a new link; the first run's result comes too late.
	q = write(t, owner, ref, "safe", 0, queued(1))
	s = write(t, runner, ref, "safe", q, started("r", "n"))
	q2 := write(t, owner, ref, "safe", s, queued(2))
	if conflict := loses(t, runner, ref, "safe", s, done("late")); conflict.Last != q2 || conflict.Record.Attempt != 2 {
		t.Errorf("got %+v", conflict)
	}
}

func testRecordLarge(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	want := done(strings.Repeat("0123456789abcdef", 1<<17)) // 2 MiB
	want.Result.Images = []string{"data:image/png;base64,AAAA"}
	q := write(t, c, ref, "call", 0, queued(1))
	s := write(t, c, ref, "call", q, started("r", "n"))
	want.Sequence = write(t, c, ref, "call", s, want)
	eventually(t, "the record is read", func() bool {
		got, found, err := c.LastRecord(testContext(t), ref, "call")
		if err != nil {
			t.Fatal(err)
		}
		return found && sameRecord(got, want)
	})
	// A repeat after a lost acknowledgement has another blob, and is the same record.
	if again := write(t, c, ref, "call", s, want); again != want.Sequence {
		t.Errorf("got %d, want %d", again, want.Sequence)
	}
}

func testRecordBodyKept(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	kept := func() (n int) {
		names, err := c.BlobNames(testContext(t), ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			keep, err := c.BlobInUse(testContext(t), name)
			if err != nil {
				t.Fatal(err)
			}
			if keep {
				n++
			}
		}
		return n
	}
	q := write(t, c, ref, "call", 0, queued(1))
	request := toolRequest(ref, "call", q)
	request.Arguments = strings.Repeat("x", 2<<20)
	queueTool(t, c, "p", request)
	eventually(t, "the body of a call that waits is kept", func() bool { return kept() == 1 })
	s := write(t, c, ref, "call", q, started("r", "n"))
	write(t, c, ref, "call", s, done(strings.Repeat("y", 2<<20)))
	eventually(t, "the body of the record alone is kept", func() bool {
		names, err := c.BlobNames(testContext(t), ref)
		if err != nil {
			t.Fatal(err)
		}
		return len(names) == 2 && kept() == 1
	})
	purgeRecords(t, c, ref, "call")
	eventually(t, "no body is kept without records", func() bool { return kept() == 0 })
	if keep, err := c.BlobInUse(testContext(t), project+"/s/output.x"); !keep || err != nil {
		t.Errorf("got %v, %v for a blob of another kind", keep, err)
	}
}

func testRecordHint(t *testing.T, b *bustest.Broker, project string) {
	c, watcher := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	calls := make(chan string, 16)
	records := make(chan *schemas.ToolRecord, 16)
	stop, err := watcher.WatchRecords(ref, func(call string, rec *schemas.ToolRecord) { calls <- call; records <- rec })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	write(t, c, schemas.SessionRef{Project: project, ID: "other"}, "call-x", 0, queued(1))
	seq := write(t, c, ref, "call-a", 0, queued(1))
	if call := receive(t, calls); call != "call-a" {
		t.Errorf("got %s", call)
	}
	if rec := receive(t, records); rec == nil || rec.State != schemas.RecordQueued || rec.Sequence != seq || rec.Stored.IsZero() {
		t.Errorf("the hint carries %+v, want the record at %d", rec, seq)
	}
}

func testRecordInvalid(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	for why, rec := range map[string]schemas.ToolRecord{
		"no state":                  {},
		"started by nobody":         {State: schemas.RecordStarted, Nonce: "n"},
		"started without a nonce":   {State: schemas.RecordStarted, Toolrunner: "r"},
		"done without a result":     {State: schemas.RecordDone},
		"a state there will not be": {State: "paused"},
	} {
		if _, err := c.WriteRecord(testContext(t), ref, "call", 0, rec); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
			t.Errorf("%s: got %v, want invalid", why, err)
		}
	}
}
