package main

import (
	"context"
	"fmt"
	"io"
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
		Long:    "A trace is all that a session recorded, in its order: messages, decisions, requests, usage.",
		Example: "  braid trace show 3f0c9a1e\n  braid trace export 3f0c9a1e > saved.jsonl\n  braid trace import saved.jsonl",
	}
	cmd.AddCommand(traceShowCommand(), traceExportCommand(), traceImportCommand())
	return cmd
}

func traceExportCommand() *cobra.Command {
	var source traceSource
	cmd := &cobra.Command{
		Use:     "export ID",
		Short:   "Print a session's trace as JSON Lines",
		Long:    "Prints a session's recorded messages, one envelope a line: from a server, or from a data\ndirectory that no process uses.",
		Example: "  braid trace export 3f0c9a1e | braid check --view recorded",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return source.export(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	source.register(cmd)
	return cmd
}

// traceSource is where traces are: on a server, or in a data directory, whose trace is read as it is.
type traceSource struct {
	server  serverFlags
	data    cli.StackFlags
	project string
}

// register adds the flags, and the completion of a session's id, to a command.
func (s *traceSource) register(cmd *cobra.Command) {
	s.server.register(cmd.Flags())
	s.data.RegisterData(cmd.Flags())
	cli.Configure(cmd, cli.SectionRun)
	cmd.Flags().StringVar(&s.project, "project", "default", "project of the session, with --data")
	cmd.ValidArgsFunction = firstArgument(sessionIDs)
}

// export writes a session's trace, JSON Lines.
func (s *traceSource) export(ctx context.Context, id string, w io.Writer) (err error) {
	if err := schemas.ValidateName("session", id); err != nil {
		return cli.Usage("%v", err)
	}
	if c := s.server.client(); c != nil {
		defer c.Close()
		return c.Session(id).Export(ctx, w)
	}
	dir, err := s.data.DataDir()
	if err != nil {
		return err
	}
	store, err := trace.Open(filepath.Join(dir, "trace"), trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	defer cli.Close(&err, store.Close)
	return exportFrom(ctx, store, schemas.SessionRef{Project: s.project, ID: id}, w)
}

func exportFrom(ctx context.Context, store *trace.Store, ref schemas.SessionRef, w io.Writer) error {
	if _, found, err := store.Session(ref); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("there is no session %s", ref)
	}
	return store.Export(ctx, ref, w)
}
