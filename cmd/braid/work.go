package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"

	"braid/bus"
	"braid/client"
	"braid/schemas"
)

// This file is what a chat does while a task runs: it shows what happens, asks about tool calls, and
// takes what is typed. One goroutine, the caller's, does all of it; others wait for the server and tell
// it what came.

// work is a talk while tasks are followed.
type work struct {
	*talk
	// tasks are those of this talk that have not ended, by id; waiting those that have not begun.
	tasks   map[string]*client.Task
	waiting map[string]bool
	// stranger is set while a task is followed that is somebody else's.
	stranger  bool
	questions []bus.PendingApproval
	decided   map[string]bool // the calls that were answered here
	asked     bool            // the first question is on the screen
	stopping  bool
	used      schemas.TokenCounts

	group    sync.WaitGroup
	happened chan happening
	answers  chan answer
}

// happening is an event of the session, or why there are no more.
type happening struct {
	event client.Event
	err   error
}

// answer is what became of something that the server was told. then goes on with it.
type answer struct {
	said string
	err  error
	then func(error)
}

func newWork(t *talk) *work {
	return &work{
		talk: t, tasks: map[string]*client.Task{}, waiting: map[string]bool{}, decided: map[string]bool{},
		happened: make(chan happening), answers: make(chan answer),
	}
}

// add follows one more task, which is nil as long as the server has not taken it.
func (w *work) add(id string, task *client.Task) {
	w.tasks[id] = task
	if task == nil || task.Taken != schemas.TakenStarted {
		w.waiting[id] = true
	}
}

func (w *work) drop(id string) {
	delete(w.tasks, id)
	delete(w.waiting, id)
}

func (w *work) over() bool { return len(w.tasks) == 0 && !w.stranger }

// follow shows what happens behind a cursor until the tasks have ended. The error is errLeave if the
// person leaves before.
func (w *work) follow(ctx context.Context, cursor string) error {
	// An end that is asked for is an end of the task first.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer w.group.Wait()
	defer cancel()
	w.group.Go(func() { w.watch(watching, cursor) })
	ended, typed := ctx.Done(), w.keyboard.typed()
	for !w.over() {
		var err error
		select {
		case h := <-w.happened:
			if err = h.err; err == nil {
				err = w.take(watching, h.event)
			}
		case chunk, open := <-typed:
			if !open {
				return errLeave
			}
			err = w.typed(watching, chunk)
		case s := <-w.keyboard.signals:
			err = w.interrupt(watching, signalled(s))
		case <-ended:
			ended = nil
			err = w.interrupt(watching, errInterrupted)
		case a := <-w.answers:
			if a.then != nil {
				a.then(a.err)
			}
			err = w.say(a.said, a.err)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// watch passes on what happens.
func (w *work) watch(ctx context.Context, cursor string) {
	for event, err := range w.session.Stream(ctx, client.WatchOptions{After: cursor}) {
		select {
		case w.happened <- happening{event, err}:
		case <-ctx.Done():
			return
		}
	}
}

// do has the server told something, while everything goes on.
func (w *work) do(ctx context.Context, tell func(context.Context) (string, error), then func(error)) {
	w.group.Go(func() {
		said, err := tell(ctx)
		select {
		case w.answers <- answer{said, err, then}:
		case <-ctx.Done():
		}
	})
}

// interrupt aborts what runs; the second time it leaves.
func (w *work) interrupt(ctx context.Context, why error) error {
	if w.stopping || errors.Is(why, errTerminated) {
		return errLeave
	}
	w.stopping = true
	if w.keyboard.interactive() {
		w.note("aborting; Ctrl-C again leaves")
	} else {
		w.note("aborting")
	}
	var waiting []*client.Task
	running := w.stranger
	for id, task := range w.tasks {
		if !w.waiting[id] {
			running = true
		} else if task != nil {
			waiting = append(waiting, task)
		}
	}
	w.do(ctx, func(ctx context.Context) (string, error) {
		var errs []error
		for _, task := range waiting {
			errs = append(errs, unless(task.Withdraw(ctx), schemas.CodeNotPending))
		}
		if running {
			errs = append(errs, unless(w.session.Abort(ctx, "interrupted", false), schemas.CodeNotRunning))
		}
		return "", errors.Join(errs...)
	}, nil)
	return nil
}

// unless is an error that is not of that code: what was to be done is done.
func unless(err error, code schemas.Code) error {
	if client.IsCode(err, code) {
		return nil
	}
	return err
}

// typed takes what was typed.
func (w *work) typed(ctx context.Context, chunk []byte) error {
	w.keyboard.left = append(w.keyboard.left, chunk...)
	for {
		line, ok := w.keyboard.take()
		if !ok {
			return nil
		}
		w.show.fresh = true // the terminal shows what is typed, and went to a new line
		if err := w.heard(ctx, strings.TrimSpace(line)); err != nil {
			return err
		}
	}
}

// heard does what a line says while a task runs: it is a command, the answer to a question, or joins the
// task.
func (w *work) heard(ctx context.Context, text string) error {
	switch {
	case isCommand(text) && isLocal(text):
		return w.say(w.command(ctx, text))
	case isCommand(text):
		w.do(ctx, func(ctx context.Context) (string, error) { return w.command(ctx, text) }, nil)
	case len(w.questions) > 0:
		w.reply(ctx, strings.ToLower(text))
	case text != "":
		w.steer(ctx, strings.TrimPrefix(text, "/"))
	}
	return nil
}

// say tells what became of something; a question that stands is put again below it.
func (w *work) say(said string, err error) error {
	if said != "" || err != nil {
		w.asked = false
	}
	err = w.answer(said, err)
	w.ask()
	return err
}

// steer adds a prompt to the task that runs.
func (w *work) steer(ctx context.Context, text string) {
	id := "chat-" + rand.Text()
	var task *client.Task
	w.prompts++
	w.add(id, nil) // what becomes of it may be seen before the answer
	w.do(ctx, func(ctx context.Context) (_ string, err error) {
		task, err = w.session.Steer(ctx, client.Prompt(text), client.Key(id))
		if client.IsCode(err, schemas.CodeNotRunning) { // it has just ended
			task, err = w.session.Start(ctx, schemas.TaskBody{Prompt: text, WhenBusy: schemas.BusyQueue})
		}
		return "", err
	}, func(err error) {
		_, known := w.tasks[id]
		if err != nil || task.ID != id {
			w.drop(id)
		}
		if err == nil && (known || task.ID != id) {
			w.add(task.ID, task)
		}
	})
}

// question puts a call that waits for a person to who sits here, or denies it if nobody does.
func (w *work) question(ctx context.Context, p bus.PendingApproval) {
	same := func(q bus.PendingApproval) bool { return q.ToolCallID == p.ToolCallID }
	if w.decided[p.ToolCallID] || slices.ContainsFunc(w.questions, same) {
		return
	}
	if !w.keyboard.interactive() {
		w.note("denied, because nobody can be asked: %s %s (see --approve)", p.Name, escapeControls(p.Arguments, ""))
		w.decide(ctx, p, false)
		return
	}
	w.questions = append(w.questions, p)
	w.ask()
}

// ask shows the first question, unless it is there.
func (w *work) ask() {
	if w.asked || len(w.questions) == 0 {
		return
	}
	p := w.questions[0]
	if p.Rule != "" {
		w.note("the policy can't tell whether its rule %s forbids this", p.Rule)
	}
	w.show.newline()
	w.notes.ask(p.Name, p.Arguments)
	w.show.fresh, w.asked = false, true
}

// reply takes the answer to the first question.
func (w *work) reply(ctx context.Context, text string) {
	p := w.questions[0]
	switch text {
	case "y", "yes", "n", "no":
		w.settle(p.ToolCallID)
		w.decide(ctx, p, text[0] == 'y')
	default:
		w.note("y lets it run, n does not")
		w.asked = false
	}
	w.ask()
}

// settle takes a question away.
func (w *work) settle(call string) {
	i := slices.IndexFunc(w.questions, func(p bus.PendingApproval) bool { return p.ToolCallID == call })
	if i < 0 {
		return
	}
	w.questions = slices.Delete(w.questions, i, i+1)
	if i == 0 {
		w.asked = false
	}
}

func (w *work) decide(ctx context.Context, p bus.PendingApproval, allow bool) {
	w.decided[p.ToolCallID] = true
	w.do(ctx, func(ctx context.Context) (string, error) {
		decision := w.session.Deny
		if allow {
			decision = w.session.Approve
		}
		return "", unless(decision(ctx, p.ToolCallID, p.Hash), schemas.CodeNotPending) // somebody else was faster
	}, nil)
}
