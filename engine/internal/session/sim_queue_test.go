package session

import (
	"slices"

	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// promptMoves lists what people can say now: to a session at rest, or to one that is busy.
func (w *world) promptMoves(m map[string]func(), faults bool) {
	say := func(t schemas.CommandType, busy schemas.WhenBusy) {
		w.command(t, func(k *schemas.Command) {
			k.Task = &schemas.TaskBody{Prompt: k.ID, WhenBusy: busy} // the prompt names its command
			if rapid.IntRange(0, 3).Draw(w.t, "with more than words") == 0 {
				turns := schematest.Input().Draw(w.t, "input")
				prompt := &turns[len(turns)-1]
				prompt.Content = append(prompt.Content, schemas.InputPart{Type: schemas.KindText, Text: k.ID})
				k.Task.Prompt, k.Task.Input = "", turns
			}
		})
	}
	if faults || w.state.Task == nil {
		m["task"] = func() { say(schemas.CommandTask, "") }
	}
	if faults {
		busy := []schemas.WhenBusy{schemas.BusyQueue, schemas.BusySteer, schemas.BusyReject}
		m["follow-up"] = func() { say(schemas.CommandTask, rapid.SampledFrom(busy).Draw(w.t, "when busy")) }
		m["steer"] = func() { say(schemas.CommandSteer, "") }
	}
	seldom := func(what string) bool { return faults && rapid.IntRange(0, 9).Draw(w.t, what) == 0 }
	if w.state.Task != nil && seldom("may be flooded") {
		m["flood"] = func() {
			for range rapid.IntRange(2, schemas.MaxQueue+1).Draw(w.t, "prompts") {
				say(schemas.CommandTask, rapid.SampledFrom([]schemas.WhenBusy{schemas.BusyQueue, schemas.BusySteer}).Draw(w.t, "when busy"))
			}
		}
	}
	if seldom("may be deleted") {
		m["delete"] = func() {
			force := rapid.Bool().Draw(w.t, "force")
			w.command(schemas.CommandDelete, func(k *schemas.Command) { k.Delete = &schemas.DeleteBody{Force: force} })
		}
	}
	if queue := w.state.Queue; faults && len(queue) > 0 {
		m["withdraw"] = func() {
			id := queue[rapid.IntRange(0, len(queue)-1).Draw(w.t, "withdrawn")].ID
			w.command(schemas.CommandWithdraw, func(k *schemas.Command) { k.Withdraw = &schemas.WithdrawBody{TaskID: id} })
		}
	}
}

// checkPrompts asserts that what people said was taken as they were told: each prompt that was
// applied is in the log once, unless it was withdrawn; those that began tasks did so in the order in
// which they were taken; each task has one end, which names it.
func (w *world) checkPrompts() {
	said, dropped, ends := map[string]int{}, map[string]bool{}, map[string]int{}
	var taken, began []string // of tasks
	var opener, open string
	for _, m := range w.native() {
		switch p := m.Payload.(type) {
		case *schemas.CommandOutcome:
			if p.Taken != "" {
				taken = append(taken, p.CommandID)
			}
			opener = p.CommandID
		case *schemas.TaskDequeued:
			dropped[p.TaskID] = p.Cause == schemas.DequeuedWithdrawn
			opener = p.TaskID
		case *schemas.Text:
			if p.Role != schemas.RoleUser || !w.isCommand(p.Text) {
				continue
			}
			said[p.Text]++
			if p.Text != opener {
				w.t.Fatalf("prompt %s follows command %s\n%s", p.Text, opener, w.dump())
			}
			if open == "" {
				open = p.Text
				began = append(began, p.Text)
			}
		case *schemas.TaskEnd:
			ends[p.TaskID]++
			if p.TaskID != open {
				w.t.Fatalf("task %s ends as %s\n%s", open, p.TaskID, w.dump())
			}
			open = ""
		}
	}
	for _, id := range taken {
		if n := said[id]; n != 1 && !(n == 0 && dropped[id]) {
			w.t.Fatalf("prompt %s was said %d times\n%s", id, n, w.dump())
		}
	}
	inOrder := slices.DeleteFunc(taken, func(id string) bool { return !slices.Contains(began, id) })
	if !slices.Equal(inOrder, began) {
		w.t.Fatalf("tasks began in the order %v, and were asked for in %v\n%s", began, inOrder, w.dump())
	}
	for _, id := range began {
		if ends[id] != 1 {
			w.t.Fatalf("task %s has %d ends\n%s", id, ends[id], w.dump())
		}
	}
}

// isCommand reports that there was a command of that id.
func (w *world) isCommand(id string) bool {
	return slices.ContainsFunc(w.commands, func(c CommandReceived) bool { return c.Command.ID == id })
}
