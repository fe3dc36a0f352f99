package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"braid/internal/cli"
	"braid/schemas"
)

// This file is "braid check": messages from a file or a pipe, held to the rules of a stream.

func checkCommand() *cobra.Command {
	var view string
	var middle, json bool
	cmd := &cobra.Command{
		Use:   "check [--view stream|feed|recorded] [--json] [FILE|-]",
		Short: "Check a stream or trace against Braid's guarantees",
		Long: "Reads the messages of a session, as JSON Lines or as the event stream of a gateway, and reports every\n" +
			"broken guarantee and where it is broken. The exit code is 1 if there is any. Without a file, or with -,\n" +
			"it reads standard input.\n\n" +
			"--view says what the messages are: stream (what watchers see), feed (everything that the broker stores\n" +
			"of the session) or recorded (a trace).",
		Example: "  braid check --view recorded saved.jsonl\n  braid run --json '$ date' | braid check",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			v, err := parseView(view)
			if err != nil {
				return err
			}
			in, err := openInput(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close()
			var opts []schemas.Option
			if middle {
				opts = append(opts, schemas.FromMiddle())
			}
			return check(in, checkReport{cmd.OutOrStdout(), json}, schemas.NewChecker(v, opts...))
		},
	}
	cmd.Flags().StringVar(&view, "view", "stream", "what the messages are: stream, feed or recorded")
	cmd.Flags().BoolVar(&middle, "from-middle", false, "accept messages that begin in the middle of a session")
	cmd.Flags().BoolVar(&json, "json", false, "print each broken guarantee, and their number at the end, as JSON, one object per line")
	return cmd
}

func parseView(s string) (schemas.View, error) {
	switch s {
	case "stream":
		return schemas.ViewStream, nil
	case "feed":
		return schemas.ViewFeed, nil
	case "recorded":
		return schemas.ViewRecorded, nil
	}
	return 0, cli.Usage("--view must be stream, feed or recorded, not %q", s)
}

// checkReport is where what a check finds is told.
type checkReport struct {
	out  io.Writer
	json bool
}

// violation is a broken guarantee as programs are told of it.
type violation struct {
	schemas.Position
	Rule   schemas.RuleName `json:"rule"`
	Detail string           `json:"detail"`
}

func (r checkReport) violation(v schemas.Violation) error {
	if r.json {
		return printObject(r.out, violation{v.Position, v.Rule, v.Detail})
	}
	_, err := fmt.Fprintln(r.out, v)
	return err
}

// checked is the last line of a report for programs.
type checked struct {
	Messages   int `json:"messages"`
	Violations int `json:"violations"`
}

// end tells how many messages there were. That guarantees are broken is an error.
func (r checkReport) end(messages, violations int) error {
	switch {
	case r.json:
		if err := printObject(r.out, checked{messages, violations}); err != nil {
			return err
		}
	case violations == 0:
		fmt.Fprintf(r.out, "%s, no violation\n", count(messages, "message"))
	}
	if violations > 0 {
		return fmt.Errorf("%s in %s", count(violations, "violation"), count(messages, "message"))
	}
	return nil
}

// maxLine bounds a line of input, in bytes.
const maxLine = 64 << 20

// check feeds every message to the checker and reports the violations.
func check(in io.Reader, out checkReport, checker *schemas.Checker) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	messages, violations := 0, 0
	var failed error
	report := func(vs []schemas.Violation) {
		for _, v := range vs {
			violations++
			failed = errors.Join(failed, out.violation(v))
		}
	}
	// Without ids of their own all messages count as one frame: what must share a frame can't be
	// told apart then.
	at := schemas.Position{Sequence: 1}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if id, ok := strings.CutPrefix(line, "id:"); ok {
			cursor, err := schemas.ParseCursor(strings.TrimSpace(id))
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			at = cursor.Position
			continue
		}
		if line == "" || strings.HasPrefix(line, ":") || strings.HasPrefix(line, "retry:") {
			continue
		}
		if strings.HasPrefix(line, "event:") { // control, up to the blank line: it holds no message
			for lines.Scan() && strings.TrimSuffix(lines.Text(), "\r") != "" {
				n++
			}
			n++
			continue
		}
		m, err := schemas.Decode([]byte(strings.TrimPrefix(line, "data:")))
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		report(checker.Add(schemas.Entry{Position: at, Message: m}))
		messages++
		at.Line++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	report(checker.Finish())
	return errors.Join(failed, out.end(messages, violations))
}
