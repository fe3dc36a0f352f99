package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/schemas"
)

func TestSessionInfo(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b,
		b.frame(bob, meta("m"), prompt("do it")),
		b.frame(bob, &schemas.RequestBegin{}, schemas.NewToolCall("c1", "sh", `{"a":1}`), ask("c1")),
	)
	apply(t, s, b, b.frame(bob, tokens(3, 3), requestEnd(schemas.StopCompleted)))
	info, found, err := s.Session(bob)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	at := schemas.Position{Sequence: 3, Line: 2}
	want := SessionInfo{
		Session: bob, Created: noon.Add(time.Second), LastActivity: noon.Add(3 * time.Second),
		Model: "shell/m", Agent: "helper", Title: "do it", State: StateWaiting,
		Pending: []PendingApproval{{Position: at, Request: ask("c1")}},
		Usage:   schemas.TokenCounts{Output: 1, Total: 3}, Turns: 1, Messages: 7,
		Last: schemas.Position{Sequence: 4, Line: 1},
		Head: Head{Epoch: epoch, Sequence: 4, Fence: 1, N: 3, Last: schemas.Position{Sequence: 4, Line: 1}},
	}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	if _, err := schemas.EncodeJSON(info); err != nil {
		t.Errorf("a session can't be sent: %v", err)
	}
}

// A session whose end is recorded is in the trace until the tombstone comes, for who has to finish the
// deletion; there is no such session for anybody else.
func TestSessionsThatAreDeleted(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, meta("m"), prompt("x")), b.frame(bob, &schemas.SessionDeleted{CommandID: "d"}))
	if info, found, err := s.Session(bob); err != nil || !found || !info.Deleted || info.Made() {
		t.Errorf("the session: %+v, %v, %v", info, found, err)
	}
	for made, want := range map[bool]int{true: 0, false: 1} {
		if page, err := s.Sessions(context.Background(), bob.Project, Filter{Made: made}, Paging{}); err != nil || len(page.Sessions) != want {
			t.Errorf("made %v: %+v, %v", made, page, err)
		}
	}
}

func TestSessionsByLastActivity(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	ctx := context.Background()
	var refs []schemas.SessionRef
	for i := range 5 {
		refs = append(refs, schemas.SessionRef{Project: "p", ID: fmt.Sprint("s", i)})
		apply(t, s, b, b.frame(refs[i], prompt("x")))
	}
	apply(t, s, b, b.frame(schemas.SessionRef{Project: "pp", ID: "other"}, prompt("x")))
	apply(t, s, b, b.frame(refs[1], prompt("again"))) // moves to the front, once

	var got []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := s.Sessions(ctx, "p", Filter{}, Paging{Cursor: cursor, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range page.Sessions {
			got = append(got, info.Session.ID)
		}
		cursor = page.Next
	}
	if diff := cmp.Diff([]string{"s1", "s4", "s3", "s2", "s0"}, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

// Filtered pages, one after the other, hold what a filter takes of the whole listing, in its order,
// however many are asked for at a time.
func TestSessionsByFilter(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	ctx := context.Background()
	ends := []schemas.StopReason{"", schemas.StopCompleted, schemas.StopFailed, schemas.StopTimeout}
	for i := range 40 {
		ref := schemas.SessionRef{Project: "p", ID: fmt.Sprint("s", i)}
		var first []schemas.Payload
		if i%7 > 0 { // else its making was refused
			first = append(first, meta([]string{"a", "b"}[i%2]))
		}
		if i%3 > 0 {
			first = append(first, prompt("x"))
		}
		frames := []Frame{b.frame(ref, first...)}
		if i%4 > 0 {
			frames = append(frames, b.frame(ref, &schemas.TaskEnd{Status: ends[i%4]}))
		}
		if i%3 == 2 {
			frames = append(frames, b.frame(ref, &schemas.RequestBegin{}, schemas.NewToolCall("c1", "sh", `{"a":1}`), ask("c1")))
		}
		apply(t, s, b, frames...)
	}
	all, err := s.Sessions(ctx, "p", Filter{}, Paging{Limit: 1000})
	if err != nil || len(all.Sessions) != 40 || all.Next != "" {
		t.Fatal(len(all.Sessions), all.Next, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Time {
			i := rapid.IntRange(-1, 39).Draw(t, name)
			if i < 0 {
				return time.Time{}
			}
			return all.Sessions[i].Created
		}
		filter := Filter{
			State:        rapid.SampledFrom([]State{"", StateIdle, StateRunning, StateWaiting}).Draw(t, "state"),
			Agent:        rapid.SampledFrom([]string{"", "helper", "other"}).Draw(t, "agent"),
			Model:        rapid.SampledFrom([]string{"", "shell/a", "shell/b"}).Draw(t, "model"),
			TaskStatus:   rapid.SliceOfN(rapid.SampledFrom(ends[1:]), 0, 2).Draw(t, "task_status"),
			CreatedSince: at("since"), CreatedUntil: at("until"),
			Made: rapid.Bool().Draw(t, "made"),
		}
		limit := rapid.IntRange(1, 45).Draw(t, "limit")
		var want, got []string
		for _, info := range all.Sessions {
			if (filter.State == "" || filter.State == info.State) && (filter.Agent == "" || filter.Agent == info.Agent) &&
				(filter.Model == "" || filter.Model == info.Model) && (!filter.Made || info.Made()) &&
				(len(filter.TaskStatus) == 0 || slices.Contains(filter.TaskStatus, info.TaskStatus)) && info.Created.Compare(filter.CreatedSince) >= 0 &&
				(filter.CreatedUntil.IsZero() || info.Created.Compare(filter.CreatedUntil) < 0) {
				want = append(want, info.Session.ID)
			}
		}
		for cursor, more := "", true; more; more = cursor != "" {
			page, err := s.Sessions(ctx, "p", filter, Paging{Cursor: cursor, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Sessions) > limit || len(page.Sessions) < limit && page.Next != "" {
				t.Fatalf("a page of %d, %d were asked for, next %q", len(page.Sessions), limit, page.Next)
			}
			for _, info := range page.Sessions {
				got = append(got, info.Session.ID)
			}
			cursor = page.Next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("sessions (-want +got):\n%s", diff)
		}
	})
}

func TestListingRefusesBadInput(t *testing.T) {
	s := open(t, Options{})
	ctx := context.Background()
	invalid := &schemas.Error{Code: schemas.CodeInvalid}
	for _, cursor := range []string{"!", "zz", "____", "AAAAAAAAAAAuLi4", strings.Repeat("A", 1000)} {
		if _, err := s.Sessions(ctx, "p", Filter{}, Paging{Cursor: cursor}); !errors.Is(err, invalid) {
			t.Errorf("cursor %.20q: %v", cursor, err)
		}
		if _, err := s.Failures(ctx, "p", FailureFilter{}, Paging{Cursor: cursor}); !errors.Is(err, invalid) {
			t.Errorf("cursor %.20q of failures: %v", cursor, err)
		}
	}
	if _, err := s.Sessions(ctx, "", Filter{}, Paging{}); !errors.Is(err, invalid) {
		t.Errorf("no project: %v", err)
	}
	if _, err := s.Usage(ctx, "a/b", 0, 1); !errors.Is(err, invalid) {
		t.Errorf("usage of a bad project: %v", err)
	}
}

func TestUsageByDayAndModel(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	ctx := context.Background()
	apply(t, s, b,
		b.frame(bob, meta("a"), tokens(1, 1), tokens(2, 3)),
		b.frame(ann, meta("b"), tokens(4, 4)))
	b.now = noon.Add(12 * time.Hour) // the next day
	apply(t, s, b, b.frame(bob, meta("b"), tokens(8, 11)))

	today, tomorrow := DayOf(noon), DayOf(noon)+1
	row := func(day Day, model string, requests, total int64) UsageRow {
		return UsageRow{Day: day, Model: model, Requests: requests, Tokens: schemas.TokenCounts{Output: requests, Total: total}}
	}
	for _, test := range []struct {
		ref      schemas.SessionRef
		from, to Day
		want     []UsageRow
	}{
		{bob, today, tomorrow, []UsageRow{row(today, "shell/a", 2, 3), row(tomorrow, "shell/b", 1, 8)}},
		{bob, tomorrow, tomorrow, []UsageRow{row(tomorrow, "shell/b", 1, 8)}},
		{ann, 0, tomorrow, []UsageRow{row(today, "shell/b", 1, 4)}},
		{schemas.SessionRef{Project: "p", ID: "bo"}, 0, tomorrow, nil},
		{bob, tomorrow, today, nil}, // the wrong way round
	} {
		rows, err := s.SessionUsage(ctx, test.ref, test.from, test.to)
		if diff := cmp.Diff(test.want, rows); err != nil || diff != "" {
			t.Errorf("%s, %s to %s: %v (-want +got):\n%s", test.ref, test.from, test.to, err, diff)
		}
	}
	for _, test := range []struct {
		from, to Day
		want     []UsageRow
	}{
		{today, tomorrow, []UsageRow{row(today, "shell/a", 2, 3), row(today, "shell/b", 1, 4), row(tomorrow, "shell/b", 1, 8)}},
		{tomorrow, tomorrow, []UsageRow{row(tomorrow, "shell/b", 1, 8)}},
		{today, today, []UsageRow{row(today, "shell/a", 2, 3), row(today, "shell/b", 1, 4)}},
		{tomorrow, today, nil}, // the wrong way round
		{0, today - 1, nil},
	} {
		rows, err := s.Usage(ctx, "p", test.from, test.to)
		if diff := cmp.Diff(test.want, rows); err != nil || diff != "" {
			t.Errorf("%s to %s: %v (-want +got):\n%s", test.from, test.to, err, diff)
		}
	}
}

// What requests cost adds up exactly, and goes with its session. Where no price was known it is nothing.
func TestUsageInMoney(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	cost := func(request, session schemas.USD) *schemas.TokenUsage {
		u := tokens(1, 1)
		u.Request.CostUSD, u.Session.CostUSD = request, session
		return u
	}
	apply(t, s, b,
		b.frame(bob, meta("a"), cost(100_000_001, 100_000_001), cost(200_000_002, 300_000_003)),
		b.frame(ann, meta("a"), cost(7, 7), tokens(1, 2)))
	total := func() (usd schemas.USD) {
		rows, err := s.Usage(context.Background(), "p", 0, DayOf(noon))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			usd += r.Tokens.CostUSD
		}
		return usd
	}
	if got := total(); got != 300_000_010 {
		t.Errorf("all cost %s", got)
	}
	info, _, err := s.Session(bob)
	if err != nil || info.Usage.CostUSD != 300_000_003 {
		t.Errorf("bob's session: %+v, %v", info.Usage, err)
	}
	apply(t, s, b, b.tombstone(bob))
	if got := total(); got != 7 {
		t.Errorf("without bob's session %s", got)
	}
}

func TestDay(t *testing.T) {
	d, err := ParseDay("2026-11-30")
	if err != nil || d != DayOf(noon) || d.String() != "2026-11-30" {
		t.Errorf("day is %s, %v", d, err)
	}
	for _, bad := range []string{"", "2026-13-01", "30.11.2026", "1969-12-31"} {
		if _, err := ParseDay(bad); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if DayOf(time.Time{}) != 0 {
		t.Error("a time before 1970 is not day 0")
	}
}

func TestFailures(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b,
		b.frame(bob, meta("m"), prompt("x"),
			&schemas.RequestEnd{Status: schemas.StopTimeout, ErrorMessage: "no answer"},
			&schemas.RequestEnd{Status: schemas.StopAborted, ErrorMessage: "by a person: not a failure"},
			schemas.NewToolCall("c1", "sh", "{}"), schemas.NewToolCall("c2", "sh", "{}")),
		b.frame(bob,
			schemas.NewToolCallOutput("c1", strings.Repeat("é", 600), schemas.StopFailed),
			schemas.NewToolCallOutput("c2", "denied", schemas.StopAborted)),
		b.frame(ann, &schemas.CompactionEnd{Status: schemas.StopFailed, ErrorMessage: "too long"}),
		b.frame(bob, &schemas.TaskEnd{Status: schemas.StopFailed, Cause: "provider", ErrorInfo: &schemas.ErrorInfo{Message: "out of credit"}}),
	)
	var got []string
	times := map[uint64]time.Time{}
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := s.Failures(context.Background(), "p", FailureFilter{}, Paging{Cursor: cursor, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Failures {
			times[f.Position.Sequence] = f.Time
			got = append(got, fmt.Sprint(f.Session.ID, " ", f.Position, " ", f.Kind, " ", f.Status, " ", f.Model, " ", f.Tool, " ", len(f.Message)))
		}
		cursor = page.Next
	}
	want := []string{
		"bob 6.0 task failed shell/m  13",
		"ann 5.0 compaction failed   8",
		"bob 3.0 tool failed shell/m sh 1000",
		"bob 2.2 request timeout shell/m  9",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	for _, row := range []struct {
		why    string
		filter FailureFilter
		want   []schemas.Position
	}{
		{"of two kinds", FailureFilter{Kinds: []FailureKind{FailedRequest, FailedTask}}, []schemas.Position{{Sequence: 6}, {Sequence: 2, Line: 2}}},
		{"of a time", FailureFilter{Since: times[5]}, []schemas.Position{{Sequence: 6}, {Sequence: 5}}},
		{"of a kind in that time", FailureFilter{Since: times[5], Kinds: []FailureKind{FailedTool}}, nil},
		{"of a time after it", FailureFilter{Since: times[6].Add(time.Millisecond)}, nil},
	} {
		var got []schemas.Position
		page, err := s.Failures(context.Background(), "p", row.filter, Paging{})
		for _, f := range page.Failures {
			got = append(got, f.Position)
		}
		if diff := cmp.Diff(row.want, got); err != nil || page.Next != "" || diff != "" {
			t.Errorf("%s: %v, next %q (-want +got):\n%s", row.why, err, page.Next, diff)
		}
	}
}
