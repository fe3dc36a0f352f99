package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"braid/internal/cli"
	"braid/schemas"
	"braid/trace"
)

// This file is "braid trace export"; the import is in traceimport.go.

func traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace", Short: "Export and import traces",
		Long:    "A trace is all that a session recorded, in its order: messages, decisions, requests, usage.",
		Example: "  braid trace export 3f0c9a1e > saved.jsonl\n  braid trace import saved.jsonl",
	}
	cmd.AddCommand(traceExportCommand(), traceImportCommand())
	return cmd
}

func traceExportCommand() *cobra.Command {
	var o stackOptions
	var server serverFlags
	var project string
	cmd := &cobra.Command{
		Use:     "export ID",
		Short:   "Print a session's trace as JSON Lines",
		Long:    "Prints a session's recorded messages, one envelope a line: from a server, or from a data\ndirectory that no process uses.",
		Example: "  braid trace export 3f0c9a1e | braid check --view recorded",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := schemas.ValidateName("session", args[0]); err != nil {
				return cli.Usage("%v", err)
			}
			if c := server.client(); c != nil {
				defer c.Close()
				return c.Session(args[0]).Export(cmd.Context(), cmd.OutOrStdout())
			}
			dir, err := o.DataDir()
			if err != nil {
				return err
			}
			store, err := trace.Open(filepath.Join(dir, "trace"), trace.Options{Logger: zerolog.Nop()})
			if err != nil {
				return err
			}
			defer cli.Close(&err, store.Close)
			return exportFrom(cmd, store, schemas.SessionRef{Project: project, ID: args[0]}, cmd.OutOrStdout())
		},
	}
	server.register(cmd.Flags())
	o.RegisterData(cmd.Flags())
	cli.Configure(cmd, cli.SectionRun)
	cmd.ValidArgsFunction = firstArgument(sessionIDs)
	cmd.Flags().StringVar(&project, "project", "default", "project of the session, with --data")
	return cmd
}

func exportFrom(cmd *cobra.Command, store *trace.Store, ref schemas.SessionRef, w io.Writer) error {
	if _, found, err := store.Session(ref); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("there is no session %s", ref)
	}
	return store.Export(cmd.Context(), ref, w)
}
