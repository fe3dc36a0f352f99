package session

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// Each situation an owner can be lost in, and what the next one does first.
func TestTakeOver(t *testing.T) {
	text := []schemas.Payload{schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "hel")}
	tests := map[string]struct {
		lost func(*testing.T) *play
		want []string
	}{
		"at rest": {func(t *testing.T) *play { return newPlay(t).create("").lost(0) }, nil},
		"before the tools were listed: they are listed now": {
			func(t *testing.T) *play { return newPlay(t).create("").task().lost(0) },
			[]string{"owner e1>e2 lost", "-> list tools"},
		},
		"before the first request: it begins": {
			func(t *testing.T) *play { return begun(t, schemas.ApproveAll).lost(1) },
			[]string{"owner e1>e2 lost", "begin 1", "-> model 1"},
		},
		"request open, nothing said: it ends and is repeated": {
			func(t *testing.T) *play { return begun(t, schemas.ApproveAll).lost(0) },
			[]string{"owner e1>e2 lost", "end timeout 1 2000", "-> wait 2s"},
		},
		"text open: closed with what was streamed": {
			func(t *testing.T) *play { return begun(t, schemas.ApproveAll).say(text...).lost(0) },
			[]string{"owner e1>e2 lost", "stop timeout", `text "hel" timeout`, "end timeout 1 2000", "-> wait 2s"},
		},
		"text stopped, its complete message not stored: the stop is neither": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).say(text...).say(schemas.TextFragment(schemas.PhaseStop, "")).lost(0)
			},
			[]string{"owner e1>e2 lost", "stop timeout", `text "hel" timeout`, "end timeout 1 2000", "-> wait 2s"},
		},
		"thinking open": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).say(schemas.ThinkingFragment(schemas.PhaseStart, ""), schemas.ThinkingFragment(schemas.PhaseDelta, "hm")).lost(0)
			},
			[]string{"owner e1>e2 lost", "stop timeout", `thinking "hm" timeout`, "end timeout 1 2000", "-> wait 2s"},
		},
		"tool call open: closed, and decided by nobody": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).say(schemas.ToolCallFragment(schemas.PhaseStart, "x", "look", ""), schemas.ToolCallFragment(schemas.PhaseDelta, "x", "", "{")).lost(0)
			},
			[]string{"owner e1>e2 lost", "stop timeout", `call "look{" timeout`, "end timeout 1 2000", "-> wait 2s"},
		},
		"fragments expired: closed with a mark": {
			func(t *testing.T) *play {
				p := begun(t, schemas.ApproveAll).say(text...).lost(0)
				p.s.Gap()
				return p
			},
			[]string{
				"owner e1>e2 lost gap", "stop timeout", `text "hel\n[part of this message may be lost]" timeout`,
				"end timeout 1 2000", "-> wait 2s",
			},
		},
		"retry announced: waited for": {
			func(t *testing.T) *play { return begun(t, schemas.ApproveAll).ended(schemas.StopFailed).lost(0) },
			[]string{"owner e1>e2 lost", "-> wait 2s"},
		},
		"retry announced a second ago: what is left": {
			func(t *testing.T) *play { return begun(t, schemas.ApproveAll).ended(schemas.StopFailed).lost(0).at(1) },
			[]string{"owner e1>e2 lost", "-> wait 1s"},
		},
		"retry due: at once": {
			func(t *testing.T) *play { return begun(t, schemas.ApproveAll).ended(schemas.StopFailed).lost(0).at(2) },
			[]string{"owner e1>e2 lost", "begin 2", "-> model 2"},
		},
		"retry announced by a clock that is ahead: no longer than it said": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).at(9).ended(schemas.StopFailed).lost(0).at(0)
			},
			[]string{"owner e1>e2 lost", "-> wait 2s"},
		},
		"call undecided: the queue goes on": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAsk).call("write", "{}").ended(schemas.StopCompleted).lost(0).without(schemas.KindApprovalRequest)
			},
			[]string{"owner e1>e2 lost", "ask c7-1"},
		},
		"a person was asked: nothing but to wait": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAsk).call("write", "{}").ended(schemas.StopCompleted).lost(0)
			},
			[]string{"owner e1>e2 lost"},
		},
		"call allowed: found out about": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).lost(0)
			},
			[]string{"owner e1>e2 lost", "-> tool c7-1 from 1.0"},
		},
		"output streaming: from where it was, with a checkpoint": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).
					do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 1, Text: "abc"}}).lost(0)
			},
			[]string{"owner e1>e2 lost", "checkpoint", "-> tool c7-1 from 1.3"},
		},
		"output streaming and fragments expired: with a mark": {
			func(t *testing.T) *play {
				p := begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).
					do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 1, Text: "abc"}}).lost(0)
				p.s.Gap()
				return p
			},
			[]string{
				"owner e1>e2 lost gap", `delta "\n[part of the output before this may be lost]\n"`, "checkpoint", "-> tool c7-1 from 1.3",
			},
		},
		"call of a request that failed: settled before the retry": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopFailed).lost(0)
			},
			[]string{"owner e1>e2 lost", "-> wait 2s", "-> tool c7-1 from 1.0"},
		},
		"outputs complete: the next request begins": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).output("c7-1", "out").lost(1)
			},
			[]string{"owner e1>e2 lost", "begin 1", "-> model 1"},
		},
		"abort stored, its end not: it ends": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).say(text...).abort().lost(2)
			},
			[]string{
				"owner e1>e2 lost", "stop aborted", `text "hel" aborted`, "end aborted 1 0", "abort enough", "task aborted user",
			},
		},
		"abort stored, the text closed, the request open: it ends": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).say(text...).abort().lost(0)
			},
			[]string{"owner e1>e2 lost", "end aborted 1 0", "abort enough", "task aborted user"},
		},
		"abort stored, a tool runs: canceled again": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).abort().lost(0)
			},
			[]string{"owner e1>e2 lost", "-> tool c7-1 from 1.0", "-> cancel c7-1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { tt.lost(t).takeOver().expect(tt.want...) })
	}
}

// without folds the log again, but for messages of a kind.
func (p *play) without(kind schemas.Kind) *play {
	var kept []schemas.Message
	for _, m := range p.log {
		if m.Kind() != kind {
			kept = append(kept, m)
		}
	}
	p.log = kept
	return p.lost(0)
}

// A takeover of a session that was suspended tells nobody: nothing ran.
func TestTakeOverOfSuspended(t *testing.T) {
	p := begun(t, schemas.ApproveAsk).call("write", "{}").ended(schemas.StopCompleted)
	if p.s.AtRest() || !p.s.Suspendable() || len(p.s.Pending()) != 1 {
		t.Fatalf("at rest %v, suspendable %v, pending %v", p.s.AtRest(), p.s.Suspendable(), p.s.Pending())
	}
	p = p.lost(0).do(TakenOver{To: "e2"})
	p.expect()
	p.approve("c7-1", schemas.DecisionAllow).expect("outcome applied", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0")
	if p.s.Suspendable() {
		t.Error("suspendable while a tool runs")
	}
}

// What a checkpoint holds is what a fold needs: recorded messages alone lead to the same.
func TestCheckpointHoldsWhatIsOpen(t *testing.T) {
	for name, open := range map[string]func(*play){
		"text": func(p *play) {
			p.say(schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "hel"))
		},
		"thinking": func(p *play) {
			p.say(schemas.ThinkingFragment(schemas.PhaseStart, ""), schemas.ThinkingFragment(schemas.PhaseDelta, "h"))
		},
		"call": func(p *play) {
			p.say(schemas.ToolCallFragment(schemas.PhaseStart, "x", "look", ""), schemas.ToolCallFragment(schemas.PhaseDelta, "x", "", `{"a"`))
		},
		"output": func(p *play) {
			p.call("look", "{}").do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 1, Text: "one"}})
			p.do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 2, Text: "two"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := begun(t, schemas.ApproveAll)
			open(p)
			p.do(CheckpointDue{}).expect("checkpoint")
			recorded := New(p.s.Session)
			for _, m := range p.log {
				if m.Recorded() {
					recorded.Apply(m)
				}
			}
			if diff := cmp.Diff(describe(p.s), describe(recorded)); diff != "" {
				t.Errorf("(-live +recorded)\n%s", diff)
			}
		})
	}
}

// An output that an owner began anew, since it could not read its first fragments, is what came from
// there on, also for a later owner that can.
func TestOutputBegunAnew(t *testing.T) {
	p := begun(t, schemas.ApproveAll).call("look", "{}")
	p.do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 1, Text: "one"}})
	p.s.Apply(schemas.New(p.now(), schemas.ToolCallOutputFragment(schemas.PhaseStart, "c7-1", "")))
	want := described{Calls: []describedCall{{ID: "c7-1", Attempt: 1, Open: true}}}
	if diff := cmp.Diff(want, describe(p.s)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNothingOpenNoCheckpoint(t *testing.T) {
	newPlay(t).do(CheckpointDue{}).expect()
	begun(t, schemas.ApproveAll).do(CheckpointDue{}).expect()
}

type described struct {
	Segment string
	Calls   []describedCall
}

type describedCall struct {
	ID, Text string
	Attempt  int
	Offset   int64
	Open     bool
}

// describe is what is open in the state.
func describe(s *State) (d described) {
	r := s.Task.Request
	if r.Segment != nil {
		g := r.Segment
		d.Segment = fmt.Sprintf("%s %s %s %q", g.Of, g.Name, g.ToolCallID, g.Text.String())
	}
	for _, c := range r.Calls {
		d.Calls = append(d.Calls, describedCall{c.ToolCallID, c.Text.String(), c.Attempt, c.Offset, c.Streaming})
	}
	return d
}
