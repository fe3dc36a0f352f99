package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"braid/internal/cli"
	"braid/schemas"
	"braid/trace"
)

// This file is "braid trace export"; traceshow.go and traceimport.go have the others.

func traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace", Short: "Show, export and import traces",
		Long:    "A trace is everything that a session has recorded, in order: messages, decisions, requests, usage.",
		Example: "  braid trace show 3f0c9a1e\n  braid trace export 3f0c9a1e > saved.jsonl\n  braid trace import saved.jsonl",
	}
	cmd.AddCommand(traceShowCommand(), traceExportCommand(), traceImportCommand())
	return cmd
}

func traceExportCommand() *cobra.Command {
	source := traceSource{at("trace export")}
	cmd := &cobra.Command{
		Use:     "export ID",
		Short:   "Print a session's trace as JSON Lines",
		Long:    "Prints everything that a session has recorded, one message per line, from a server or from a data\ndirectory that no other process is using.",
		Example: "  braid trace export 3f0c9a1e | braid check --view recorded",
		Args:    oneSession(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return source.export(cmd, args[0], cmd.OutOrStdout())
		},
	}
	source.register(cmd)
	return cmd
}

// traceSource is where traces are: on a server, or in a data directory.
type traceSource struct{ place }

// register adds the flags, and the completion of a session's id, to a command.
func (s *traceSource) register(cmd *cobra.Command) {
	s.place.register(cmd.Flags())
	cli.Configure(cmd, cli.SectionRun)
	cmd.Flags().StringVar(&s.stack.project, "project", "default", "the session's project, with --data")
	cmd.ValidArgsFunction = firstArgument(sessionIDs)
}

// export writes a session's trace, JSON Lines.
func (s *traceSource) export(cmd *cobra.Command, id string, w io.Writer) (err error) {
	if s.server.url == "" {
		dir, err := s.stack.DataDir()
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, brokerDir)); errors.Is(err, fs.ErrNotExist) {
			return exportAlone(cmd.Context(), dir, schemas.SessionRef{Project: s.stack.project, ID: id}, w)
		}
	}
	c, leave, err := s.reach(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer cli.Close(&err, leave)
	return c.Session(id).Export(cmd.Context(), w)
}

// exportAlone writes a session of a trace that is all there is: without the broker that it was recorded
// from, a trace can't be brought up to date, and is read as it is.
func exportAlone(ctx context.Context, dir string, ref schemas.SessionRef, w io.Writer) (err error) {
	dir = filepath.Join(dir, traceDir)
	if _, err := os.Stat(dir); err != nil { // looking makes none
		return fmt.Errorf("there is no trace: %w", err)
	}
	store, err := trace.Open(dir, trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	defer cli.Close(&err, store.Close)
	if _, found, err := store.Session(ref); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("there is no session %s", ref)
	}
	return store.Export(ctx, ref, w)
}
