package main

import (
	"bufio"
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
	var middle bool
	cmd := &cobra.Command{
		Use:   "check [--view stream|feed|recorded] [FILE|-]",
		Short: "Check that a session's messages keep every guarantee",
		Long: "Reads messages, one JSON envelope a line or an event stream as the gateway sends it, and\n" +
			"reports every broken guarantee with its place. Exit code 1 if there is one.\n\n" +
			"Views: stream is what watchers see, feed everything the session stored, recorded a trace.",
		Args: cobra.MaximumNArgs(1),
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
			return check(in, cmd.OutOrStdout(), schemas.NewChecker(v, opts...))
		},
	}
	cmd.Flags().StringVar(&view, "view", "stream", "what the messages are: stream, feed or recorded")
	cmd.Flags().BoolVar(&middle, "from-middle", false, "the messages begin in the middle of a session")
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

// maxLine bounds a line of input, in bytes.
const maxLine = 64 << 20

// check feeds every message to the checker and prints the violations.
func check(in io.Reader, out io.Writer, checker *schemas.Checker) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	messages, violations := 0, 0
	report := func(vs []schemas.Violation) {
		for _, v := range vs {
			violations++
			fmt.Fprintln(out, v)
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
	if violations > 0 {
		return fmt.Errorf("%d violations in %d messages", violations, messages)
	}
	fmt.Fprintf(out, "%d messages, no violation\n", messages)
	return nil
}
