package main

import (
	"context"
	"fmt"

	"braid/schemas"
)

// recentTasks is how many of a session's last tasks a chat shows that goes on with it.
const recentTasks = 3

// resume shows what was said last in a session, and follows what is still going on.
func (t *talk) resume(ctx context.Context) error {
	info, err := t.session.Info(ctx)
	if err != nil {
		return err
	}
	recent, earlier, cursor, err := t.recent(ctx)
	if err != nil {
		return err
	}
	t.note("session %s on %s, approval mode %s", info.ID, info.Model, info.ApprovalMode)
	if !t.show.json {
		if earlier > 0 {
			t.note("%s before: braid trace show %s", count(earlier, "task"), info.ID)
		}
		history := newTranscript(t.show.Writer)
		history.most = shownLines
		for _, m := range recent {
			history.message(m)
		}
		t.show.names = history.names
	}
	if info.State == "idle" {
		return nil
	}
	t.note("a task runs")
	w := newWork(t)
	w.stranger = true
	return w.follow(ctx, cursor)
}

// recent is what was said and done in the last tasks, how many tasks there were before, and the cursor
// behind it.
func (t *talk) recent(ctx context.Context) (recent []schemas.Message, earlier int, cursor string, err error) {
	var tasks [][]schemas.Message // the last one may be open
	ended := true
	for m, err := range t.session.History(ctx, "") {
		if err != nil {
			return nil, 0, "", fmt.Errorf("read the history: %w", err)
		}
		cursor = m.Cursor
		if ended {
			if tasks = append(tasks, nil); len(tasks) > recentTasks {
				tasks, earlier = tasks[1:], earlier+1
			}
		}
		last := len(tasks) - 1
		tasks[last] = append(tasks[last], m.Message)
		_, ended = m.Payload.(*schemas.TaskEnd)
	}
	for _, task := range tasks {
		for _, m := range task {
			if told(m) {
				recent = append(recent, m)
			}
		}
	}
	return recent, earlier, cursor, nil
}

// told reports whether a message is a part of what was said and done, and no accounting.
func told(m schemas.Message) bool {
	switch p := m.Payload.(type) {
	case *schemas.TokenUsage, *schemas.ApprovalRequest:
		return false
	case *schemas.RequestEnd:
		return p.Status != schemas.StopCompleted
	case *schemas.TaskEnd:
		return p.Status != schemas.StopCompleted
	}
	return true
}
