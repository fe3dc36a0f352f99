package trace

import (
	"slices"
	"strings"
	"testing"

	"braid/schemas"
)

// summarize folds payloads at positions 1.0, 1.1, ...
func summarize(payloads ...schemas.Payload) *summary {
	s := new(summary)
	for i, p := range payloads {
		s.fold(schemas.Position{Sequence: 1, Line: i}, schemas.New(noon, p), false)
	}
	return s
}

func TestSummaryState(t *testing.T) {
	begin, completed := &schemas.RequestBegin{}, requestEnd(schemas.StopCompleted)
	compaction := &schemas.CompactionBegin{Reason: "manual", Mode: "summarize"}
	for _, test := range []struct {
		name    string
		history []schemas.Payload
		state   State
		pending int
	}{
		{"nothing yet", nil, StateIdle, 0},
		{"created only", []schemas.Payload{meta("m")}, StateIdle, 0},
		{"a prompt opens a task", []schemas.Payload{meta("m"), prompt("x")}, StateRunning, 0},
		{"words of the harness open none", []schemas.Payload{schemas.HarnessText("x")}, StateIdle, 0},
		{"words of the model open none", []schemas.Payload{schemas.AssistantText("x")}, StateIdle, 0},
		{"the parent's words open one", []schemas.Payload{&schemas.Text{Role: schemas.RoleUser, Sender: schemas.SenderParentAgent, Text: "x"}}, StateRunning, 0},
		{"a request opens one too", []schemas.Payload{begin}, StateRunning, 0},
		{"task_end closes it", []schemas.Payload{prompt("x"), begin, completed, taskEnd(schemas.StopCompleted)}, StateIdle, 0},
		{"abort alone does not", []schemas.Payload{prompt("x"), &schemas.Abort{}}, StateRunning, 0},
		{"an approval waits", []schemas.Payload{prompt("x"), begin, ask("a"), completed}, StateWaiting, 1},
		{"until it is decided", []schemas.Payload{prompt("x"), begin, ask("a"), completed, decide("a")}, StateRunning, 0},
		{"others go on waiting", []schemas.Payload{prompt("x"), begin, ask("a"), ask("b"), decide("a")}, StateWaiting, 1},
		{"a failed request withdraws its calls", []schemas.Payload{prompt("x"), begin, ask("a"), requestEnd(schemas.StopTimeout)}, StateRunning, 0},
		{"an abort withdraws them", []schemas.Payload{prompt("x"), begin, ask("a"), completed, &schemas.Abort{}}, StateRunning, 0},
		{"the end of the task as well", []schemas.Payload{prompt("x"), begin, ask("a"), taskEnd(schemas.StopFailed)}, StateIdle, 0},
		{"a compaction runs without a task", []schemas.Payload{compaction, begin}, StateRunning, 0},
		{"and leaves none open", []schemas.Payload{compaction, begin, completed, &schemas.CompactionEnd{Status: schemas.StopCompleted}}, StateIdle, 0},
		{"nor do its words", []schemas.Payload{compaction, prompt("summarize"), &schemas.CompactionEnd{}}, StateIdle, 0},
		{"a compaction within a task", []schemas.Payload{prompt("x"), compaction, begin, &schemas.CompactionEnd{}}, StateRunning, 0},
		{"unknown messages change nothing", []schemas.Payload{prompt("x"), &schemas.Unknown{Of: "new", Raw: []byte(`{}`)}}, StateRunning, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := summarize(test.history...)
			if s.state() != test.state || len(s.Pending) != test.pending {
				t.Errorf("state %s with %d pending, want %s with %d", s.state(), len(s.Pending), test.state, test.pending)
			}
			if s.Messages != int64(len(test.history)) {
				t.Errorf("counts %d messages of %d", s.Messages, len(test.history))
			}
		})
	}
}

func TestSummaryFields(t *testing.T) {
	s := summarize(
		meta("m1"), prompt("First prompt"), &schemas.RequestBegin{}, tokens(10, 10), requestEnd(schemas.StopFailed),
		&schemas.RequestBegin{Attempt: 2}, tokens(5, 15), requestEnd(schemas.StopCompleted), taskEnd(schemas.StopCompleted),
		prompt("Second"), &schemas.CompactionBegin{}, tokens(1, 16), requestEnd(schemas.StopCompleted), &schemas.CompactionEnd{},
		meta("m2"), taskEnd(schemas.StopAborted),
	)
	want := summary{
		Model: "shell/m2", Agent: "helper", Title: "First prompt",
		TaskStatus: schemas.StopAborted, TaskCause: "done",
		Usage: schemas.TokenCounts{Output: 1, Total: 16}, Tasks: 2, Turns: 1, Messages: 16,
	}
	got, err := schemas.EncodeJSON(s)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := schemas.EncodeJSON(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(wanted) {
		t.Errorf("summary is\n%s, want\n%s", got, wanted)
	}
}

func TestTitleIsCutBetweenCharacters(t *testing.T) {
	s := summarize(prompt(strings.Repeat("ä", 300)))
	if want := strings.Repeat("ä", titleLength); s.Title != want {
		t.Errorf("title has %d bytes", len(s.Title))
	}
}

// The stored summary stays small however long the session gets: that bounds the cost of a frame.
func TestSummaryDoesNotGrow(t *testing.T) {
	turn := []schemas.Payload{
		prompt("x"), &schemas.RequestBegin{}, schemas.NewToolCall("c", "sh", "{}"), ask("c"), decide("c"),
		tokens(1, 1), requestEnd(schemas.StopCompleted), taskEnd(schemas.StopCompleted),
	}
	size := func(turns int) int {
		b, err := schemas.EncodeJSON(summarize(slices.Repeat(turn, turns)...))
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	// Three counters may have three digits more.
	if short, long := size(1), size(1000); long > short+9 {
		t.Errorf("the summary has %d bytes after 1 turn, %d after 1000", short, long)
	}
}
