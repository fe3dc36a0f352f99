package trace

import (
	"context"
	"testing"

	"braid/schemas"
)

// What an imported trace says of commands, failures and tokens was elsewhere, at another time: it
// is in no index. What it says of the session's course is the session's.
func TestImportedMessages(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	ctx := context.Background()
	outcome := func(id string, sequence uint64, command schemas.CommandType) *schemas.CommandOutcome {
		return &schemas.CommandOutcome{CommandID: id, Sequence: sequence, Command: command, Code: schemas.CodeApplied}
	}
	used := &schemas.TokenUsage{Session: schemas.TokenCounts{Total: 50}, Request: schemas.TokenCounts{Total: 50}}
	failed := &schemas.RequestEnd{Status: schemas.StopFailed, ErrorMessage: "long ago"}
	state := func() SessionInfo {
		t.Helper()
		info, found, err := s.Session(bob)
		if err != nil || !found {
			t.Fatalf("%v, %v", found, err)
		}
		return info
	}
	settings := *meta("new")
	settings.ApprovalMode, settings.Limits, settings.ApprovalTimeoutMS = schemas.ApproveAsk, schemas.Limits{MaxTurns: 3}, 70
	apply(t, s, b, b.frame(bob,
		&schemas.SessionImported{Messages: 10, Visible: 10, CommandID: "import", Sequence: 7, Settings: settings},
		outcome("old", 9, schemas.CommandImport), meta("old"), &schemas.SessionChanged{ApprovalMode: schemas.ApproveAll}, &schemas.TaskQueued{TaskID: "q"}, prompt("hello"), &schemas.RequestBegin{},
		schemas.NewToolCall("c1", "sh", "{}")))
	if got := state(); got.State != StateRunning {
		t.Errorf("in the middle of the import it is %s", got.State)
	}
	apply(t, s, b, b.frame(bob, used, failed, &schemas.Unknown{Of: "later", Raw: []byte(`{"type":"later"}`)},
		&schemas.TaskEnd{Status: schemas.StopFailed}, outcome("import", 7, schemas.CommandImport)))
	got := state()
	if got.State != StateIdle || got.Model != meta("new").Provider+"/new" || got.Title != "hello" || got.Usage.Total != 50 {
		t.Errorf("%+v", got)
	}
	if got.Mode != schemas.ApproveAsk || got.Limits.MaxTurns != 3 || got.ApprovalTimeoutMS != 70 {
		t.Errorf("it does not run on what it was imported with: %+v", got)
	}
	if _, found, err := s.Outcome(bob, "old"); found || err != nil {
		t.Errorf("a command of the trace has an outcome: %v, %v", found, err)
	}
	if _, found, err := s.Outcome(bob, "import"); !found || err != nil {
		t.Errorf("the import has none: %v, %v", found, err)
	}
	if rows, err := s.Usage(ctx, bob.Project, 0, DayOf(noon)+1); err != nil || len(rows) != 0 {
		t.Errorf("usage %+v, %v", rows, err)
	}
	page, err := s.Failures(ctx, bob.Project, FailureFilter{}, Paging{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range page.Failures {
		if f.Message == "long ago" {
			t.Errorf("a failure of the trace: %+v", f)
		}
	}
	if _, found, err := s.Call(bob, "c1"); !found || err != nil {
		t.Errorf("a call of the trace is not found: %v, %v", found, err)
	}
}

// An import that failed leaves no state behind: what it brought in counts for nothing.
func TestFailedImportIsForgotten(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob,
		&schemas.SessionImported{Messages: 9, Visible: 9, CommandID: "import", Sequence: 7, Settings: *meta("new")},
		meta("old"), prompt("hello"), &schemas.RequestBegin{}, schemas.NewToolCall("c1", "sh", "{}"),
		&schemas.TokenUsage{Session: schemas.TokenCounts{Total: 50}, Request: schemas.TokenCounts{Total: 50}}))
	apply(t, s, b, b.frame(bob, &schemas.CommandOutcome{
		CommandID: "import", Sequence: 7, Command: schemas.CommandImport, Code: schemas.CodeNotFound,
	}))
	got, found, err := s.Session(bob)
	if err != nil || !found {
		t.Fatalf("%v, %v", found, err)
	}
	if got.State != StateIdle || got.Title != "" || got.Model != "" || got.Usage.Total != 0 || got.Turns != 0 {
		t.Errorf("%+v", got)
	}
}
