package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"braid/bus"
	"braid/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTime bounds every wait of a test, and of a gateway that is tested, unless the test is about that
// bound: only what never comes is waited for so long.
const testTime = 3 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// double stands in for an engine: it owns the sessions, gives commands their outcomes and
// answers questions, all over the real bus. What the sessions say is up to the test.
type double struct {
	t        testing.TB
	conn     *bus.Conn
	instance string
	cancel   context.CancelFunc
	work     sync.WaitGroup
	stops    []func()

	mu       sync.Mutex
	sessions map[schemas.SessionRef]*owned
	applied  int                  // commands that took effect
	refused  func(bus.Query) bool // questions that fail
	wanted   bus.SessionsArgs     // what the last question for sessions wanted
}

// refuse makes questions fail, once which returns; it is called by several goroutines.
func (d *double) refuse(which func(bus.Query) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = which
}

// owned is a session as the double knows it.
type owned struct {
	d     *double
	ref   schemas.SessionRef
	owner *bus.Owner

	mu       sync.Mutex
	entries  []schemas.Entry
	outcomes map[string]schemas.Outcome
	cursor   uint64
	last     uint64 // of the last recorded frame
	end      uint64 // of the last one of any kind
	open     bool
	aborted  bool
	pending  []bus.PendingApproval
}

func startDouble(t testing.TB, conn *bus.Conn) *double {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := &double{t: t, conn: conn, instance: "double", cancel: cancel, sessions: map[schemas.SessionRef]*owned{}}
	for _, lane := range []bus.Lane{bus.LaneRun, bus.LaneControl} {
		d.work.Go(func() { d.pull(ctx, lane) })
	}
	stop, err := conn.ServeQueries(d.answer)
	if err != nil {
		t.Fatal(err)
	}
	d.stops = append(d.stops, stop)
	t.Cleanup(d.stop)
	return d
}

func (d *double) stop() {
	for _, stop := range d.stops {
		stop()
	}
	d.stops = nil
	d.cancel()
	d.work.Wait()
}

func (d *double) pull(ctx context.Context, lane bus.Lane) {
	for ctx.Err() == nil {
		wakes, err := d.conn.PullWakeUps(ctx, lane, 16)
		if err != nil && ctx.Err() == nil {
			select { // the broker is away
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		for _, w := range wakes {
			d.wake(ctx, w)
		}
	}
}

func (d *double) wake(ctx context.Context, w bus.WakeUp) {
	d.mu.Lock()
	s := d.sessions[w.Session]
	d.mu.Unlock()
	var after uint64
	if s != nil {
		s.mu.Lock()
		after = s.cursor
		s.mu.Unlock()
	}
	commands, err := d.conn.ReadCommands(ctx, w.Session, after, w.Sequence)
	if err != nil {
		return
	}
	for _, c := range commands {
		if err := d.apply(ctx, c); err != nil && ctx.Err() == nil {
			d.t.Errorf("command %s: %v", c.ID, err)
		}
	}
	_ = d.conn.Ack(ctx, w)
}

func (d *double) apply(ctx context.Context, c bus.StoredCommand) error {
	d.mu.Lock()
	s := d.sessions[c.Session]
	d.mu.Unlock()
	if s == nil {
		if !c.Type.Creates() {
			return d.conn.Reply(c, schemas.Outcome{CommandID: c.ID, Sequence: c.Sequence, Code: schemas.CodeUnknownSession})
		}
		s = d.own(c.Session)
	}
	o, err := s.apply(ctx, c)
	if err != nil {
		return err
	}
	if o.Code == schemas.CodeApplied {
		d.mu.Lock()
		d.applied++
		d.mu.Unlock()
	}
	return d.conn.Reply(c, o)
}

// own claims a session.
func (d *double) own(ref schemas.SessionRef) *owned {
	d.t.Helper()
	owner, err := d.conn.Claim(testContext(d.t), ref, bus.ClaimRequest{Instance: d.instance})
	if err != nil {
		d.t.Errorf("claim: %v", err)
	}
	s := &owned{d: d, ref: ref, owner: owner, outcomes: map[string]schemas.Outcome{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[ref] = s
	return s
}

func (d *double) session(id string) *owned {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[schemas.SessionRef{Project: "default", ID: id}]
	if s == nil {
		d.t.Fatalf("the double has no session %s", id)
	}
	return s
}

// open makes a session without going through a gateway.
func (d *double) open(id string) *owned {
	d.t.Helper()
	s := d.own(schemas.SessionRef{Project: "default", ID: id})
	s.append(schemas.NewTraceOnly(time.Now(), &schemas.SessionMeta{SessionID: id, Provider: "shell", ModelID: "demo"}))
	return s
}

func (s *owned) apply(ctx context.Context, c bus.StoredCommand) (schemas.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.outcomes[c.ID]; ok {
		return o, nil
	}
	o := schemas.Outcome{CommandID: c.ID, Sequence: c.Sequence, Code: s.judge(c)}
	now := time.Now()
	frame := []schemas.Message{schemas.NewTraceOnly(now, &schemas.CommandOutcome{
		CommandID: c.ID, Command: c.Type, Sequence: c.Sequence, Code: o.Code,
	})}
	if o.Code == schemas.CodeApplied {
		switch c.Type {
		case schemas.CommandCreate:
			provider, model, _ := schemas.SplitModel(c.Create.Model)
			frame = append(frame, schemas.NewTraceOnly(now, &schemas.SessionMeta{SessionID: s.ref.ID, Provider: provider, ModelID: model}))
		case schemas.CommandImport:
			frame = append(frame, schemas.NewTraceOnly(now, &schemas.SessionMeta{SessionID: s.ref.ID, Provider: "shell", ModelID: "demo"}))
		case schemas.CommandTask:
			s.aborted = false
			frame = append(frame, schemas.NewTraceOnly(now, schemas.UserText(c.Task.Prompt)), schemas.New(now, &schemas.RequestBegin{}))
		case schemas.CommandApprove:
			frame = append(frame, schemas.New(now, &schemas.ApprovalDecision{Decision: c.Approve.Decision, ToolCallID: c.Approve.ToolCallID}))
		case schemas.CommandSet:
			frame = append(frame, schemas.New(now, &schemas.SessionChanged{ApprovalMode: c.Set.ApprovalMode}))
		case schemas.CommandAbort:
			s.aborted = true
			frame = append(frame, schemas.New(now, &schemas.RequestEnd{Status: schemas.StopAborted}),
				schemas.New(now, &schemas.Abort{Reason: c.Abort.Reason}),
				schemas.New(now, &schemas.TaskEnd{Status: schemas.StopAborted, Cause: "user"}))
		}
	}
	s.cursor = max(s.cursor, c.Sequence)
	ack, err := s.appendLocked(ctx, frame)
	o.Log = ack.Sequence
	s.outcomes[c.ID] = o
	return o, err
}

func (s *owned) judge(c bus.StoredCommand) schemas.Code {
	switch c.Type {
	case schemas.CommandCreate, schemas.CommandImport:
		if len(s.entries) > 0 {
			return schemas.CodeSessionExists
		}
	case schemas.CommandTask:
		if s.open {
			return schemas.CodeTaskInProgress
		}
	case schemas.CommandAbort, schemas.CommandRetryNow:
		if !s.open {
			return schemas.CodeNotRunning
		}
	case schemas.CommandApprove:
		i := slices.IndexFunc(s.pending, func(p bus.PendingApproval) bool { return p.ToolCallID == c.Approve.ToolCallID })
		if i < 0 {
			return schemas.CodeNotPending
		}
		if c.Approve.Hash != "" && c.Approve.Hash != s.pending[i].Hash {
			return schemas.CodeHashMismatch
		}
	}
	return schemas.CodeApplied
}

// append stores one frame.
func (s *owned) append(messages ...schemas.Message) uint64 {
	s.d.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ack, err := s.appendLocked(testContext(s.d.t), messages)
	if err != nil {
		s.d.t.Fatalf("append: %v", err)
	}
	return ack.Sequence
}

// lastFrame is the sequence of the last frame, 0 if there is none.
func (s *owned) lastFrame() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// say stores one frame of payloads.
func (s *owned) say(payloads ...schemas.Payload) uint64 {
	s.d.t.Helper()
	messages := make([]schemas.Message, len(payloads))
	for i, p := range payloads {
		messages[i] = schemas.New(time.Now(), p)
	}
	return s.append(messages...)
}

func (s *owned) appendLocked(ctx context.Context, messages []schemas.Message) (bus.Ack, error) {
	ack, err := s.owner.Append(ctx, messages, s.cursor)
	if err != nil {
		return ack, err
	}
	s.end = ack.Sequence
	for i, m := range messages {
		s.entries = append(s.entries, schemas.Entry{Position: schemas.Position{Sequence: ack.Sequence, Line: i}, Message: m})
		if m.Recorded() {
			s.last = ack.Sequence
		}
		if len(m.Origin) > 0 {
			continue // a child's: this session goes on
		}
		switch p := m.Payload.(type) {
		case *schemas.Text:
			s.open = s.open || p.Role == schemas.RoleUser
		case *schemas.RequestBegin:
			s.open = true
		case *schemas.TaskEnd:
			s.open, s.pending = false, nil
		case *schemas.ApprovalRequest:
			s.pending = append(s.pending, bus.PendingFor(p))
		case *schemas.ApprovalDecision:
			s.pending = slices.DeleteFunc(slices.Clone(s.pending), func(w bus.PendingApproval) bool { return w.ToolCallID == p.ToolCallID })
		}
	}
	return ack, nil
}

// seen returns what a watcher of the whole stream sees, as "id data" lines.
func (s *owned) seen(prompts bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.entries {
		if e.Message.Visible() || prompts && e.Message.TaskInput() {
			line, err := schemas.Encode(e.Message)
			if err != nil {
				s.d.t.Fatal(err)
			}
			id := schemas.Cursor{Epoch: s.d.conn.Epoch(s.ref), Position: e.Position}.String()
			out = append(out, id+" "+string(line))
		}
	}
	return out
}

// answer answers questions from what the sessions hold.
func (d *double) answer(_ context.Context, q bus.Query) (any, error) {
	d.mu.Lock()
	refused := d.refused
	d.mu.Unlock()
	if refused != nil && refused(q) {
		return nil, errors.New("refused by the test")
	}
	if q.Op == bus.QuerySessions {
		var args bus.SessionsArgs
		if err := q.DecodeArgs(&args); err != nil {
			return nil, err
		}
		page := bus.SessionsPage{Sessions: []bus.SessionInfo{}}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wanted = args
		for _, s := range d.sessions {
			page.Sessions = append(page.Sessions, s.info())
		}
		slices.SortFunc(page.Sessions, func(a, b bus.SessionInfo) int { return strings.Compare(a.Session.ID, b.Session.ID) })
		return page, nil
	}
	switch q.Op {
	case bus.QueryModels:
		return bus.ModelList{Models: []bus.ModelInfo{{Name: "shell/demo", Price: &bus.ModelPrice{Input: 1}}}, Providers: []string{"shell"}}, nil
	case bus.QueryUsage:
		return d.usage(q)
	case bus.QueryFailures:
		return d.failures(q)
	}
	d.mu.Lock()
	s := d.sessions[q.Ref()]
	d.mu.Unlock()
	if s == nil {
		return nil, schemas.Errorf(schemas.CodeUnknownSession, "there is no session %s", q.Session)
	}
	switch q.Op {
	case bus.QuerySession:
		return s.info(), nil
	case bus.QueryOutcome:
		return s.outcome(q)
	case bus.QueryMessages:
		return s.messages(q)
	case bus.QueryExport:
		return s.export(q)
	}
	return nil, errors.New("unknown question")
}

// failures tells of one, whose message is what was asked.
func (d *double) failures(q bus.Query) (any, error) {
	return bus.FailuresPage{Next: "c2", Failures: []bus.Failure{{
		Session: "s", ID: "e-7.0", Time: "2026-01-02T00:00:00Z", Kind: bus.FailedTool, Status: schemas.StopFailed,
		Message: string(q.Args), Model: "shell/demo", ToolCallID: "c1", Tool: "exec_command",
	}}}, nil
}

// usage tells of two models, by the days and the session that were asked about.
func (d *double) usage(q bus.Query) (any, error) {
	var args bus.UsageArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	tokens := schemas.TokenCounts{Output: 1, Total: 3, CostUSD: schemas.Dollar}
	return bus.UsageTable{Rows: []bus.UsageRow{
		{Day: args.To, Model: "shell/demo", Requests: 1, Tokens: tokens},
		{Day: args.To, Model: "shell/of-" + q.Session, Requests: 2, Tokens: tokens},
	}}, nil
}

func (s *owned) info() bus.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := bus.SessionInfo{Session: s.ref, Model: "shell/demo", State: "idle", Pending: s.pending,
		Epoch: s.d.conn.Epoch(s.ref), LastSequence: s.last}
	if s.open {
		info.State = "running"
	}
	return info
}

func (s *owned) outcome(q bus.Query) (any, error) {
	var args bus.OutcomeArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.outcomes[args.CommandID]
	if !ok {
		return nil, schemas.Errorf(schemas.CodeNotFound, "no outcome")
	}
	return o, nil
}

func (s *owned) recorded(after schemas.Position, limit int) (page []bus.PositionedMessage, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if !e.Message.Recorded() || e.Position.Compare(after) <= 0 && after != (schemas.Position{}) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, bus.PositionedMessage{Position: e.Position, Message: e.Message})
	}
	return page, false
}

func (s *owned) messages(q bus.Query) (any, error) {
	args := bus.MessagesArgs{}
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	page, more := s.recorded(args.After, args.Limit)
	return bus.MessagesPage{Messages: page, More: more, Epoch: s.d.conn.Epoch(s.ref)}, nil
}

func (s *owned) export(q bus.Query) (any, error) {
	args := bus.ExportArgs{}
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	rows, more := s.recorded(args.After, 3)
	page := bus.ExportPage{More: more}
	for _, m := range rows {
		line, err := schemas.Encode(m.Message)
		if err != nil {
			return nil, err
		}
		page.Lines += string(line) + "\n"
		page.Next = m.Position
	}
	return page, nil
}
