package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"braid/internal/cli"
	"braid/schemas"
)

// This file is "braid trace show".

func traceShowCommand() *cobra.Command {
	source := traceSource{at("trace show")}
	var task string
	var json bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show what happened in a session",
		Long: "Shows the recorded messages of a session with their times, for people to read: texts, tool calls with\n" +
			"their complete output and duration, decisions, model requests with what they used, and how tasks ended.",
		Example: "  braid trace show 3f0c9a1e | less\n  braid trace show 3f0c9a1e --task 2",
		Args:    oneSession(),
		RunE: func(cmd *cobra.Command, args []string) error {
			shown := newTranscript(cmd.OutOrStdout())
			shown.times = true
			return source.read(cmd, args[0], func(trace io.Reader) error {
				return showTrace(trace, task, func(m schemas.Message) error {
					if json {
						return printObject(cmd.OutOrStdout(), m)
					}
					shown.message(m)
					return nil
				})
			})
		},
	}
	source.register(cmd)
	cmd.Flags().StringVar(&task, "task", "", "show only this `TASK`: its id, or its number, counted from 1")
	cmd.Flags().BoolVar(&json, "json", false, "print the messages as JSON, one object per line")
	cli.OnlyTyped(cmd.Flags(), "task")
	return cmd
}

// read passes a session's trace to take as it comes.
func (s *traceSource) read(cmd *cobra.Command, id string, take func(io.Reader) error) error {
	trace, in := io.Pipe()
	var export sync.WaitGroup
	export.Go(func() { in.CloseWithError(s.export(cmd, id, in)) })
	err := take(trace)
	_ = trace.Close() // which ends an export that is not wanted any more, and can't fail
	export.Wait()
	return err
}

// showTrace shows the messages of a trace, or of one of its tasks.
func showTrace(trace io.Reader, task string, show func(schemas.Message) error) error {
	in := schemas.NewLineReader(trace)
	tasks := taskPicker{wanted: task}
	for {
		_, m, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return tasks.finish(show)
		case err != nil:
			if line, ok := errors.AsType[*schemas.LineError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
				return errors.Unwrap(line) // it is the server's trouble mostly, not a line's
			}
			return err
		}
		if err := tasks.take(m, show); err != nil {
			return err
		}
	}
}

// taskPicker passes on the messages of one task, or all. Which task messages are of is told by its end.
type taskPicker struct {
	wanted string
	number int
	held   []schemas.Message
	found  bool
}

func (p *taskPicker) take(m schemas.Message, show func(schemas.Message) error) error {
	if p.wanted == "" {
		return show(m)
	}
	p.held = append(p.held, m)
	end, ok := m.Payload.(*schemas.TaskEnd)
	if !ok {
		return nil
	}
	return p.flush(end.TaskID, show)
}

// flush passes on what is held, if it is the task that is wanted.
func (p *taskPicker) flush(id string, show func(schemas.Message) error) error {
	p.number++
	held := p.held
	p.held = nil
	if p.wanted != id && p.wanted != strconv.Itoa(p.number) {
		return nil
	}
	p.found = true
	for _, m := range held {
		if err := show(m); err != nil {
			return err
		}
	}
	return nil
}

// finish passes on a task that has not ended yet. That there is none is an error.
func (p *taskPicker) finish(show func(schemas.Message) error) error {
	id := ""
	for _, m := range p.held {
		if o, ok := m.Payload.(*schemas.CommandOutcome); ok && o.Command == schemas.CommandTask {
			id = o.CommandID
		}
	}
	if id != "" {
		if err := p.flush(id, show); err != nil {
			return err
		}
	}
	if p.wanted != "" && !p.found {
		return fmt.Errorf("the session has no task %s; there are %d", p.wanted, p.number)
	}
	return nil
}
