package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"braid/internal/cli"
	"braid/schemas"
)

// importOptions say what becomes of a trace.
type importOptions struct {
	place
	query   url.Values
	lenient bool
}

func traceImportCommand() *cobra.Command {
	o := importOptions{query: url.Values{}}
	settings := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "import [FILE|-]",
		Short: "Make a session of a trace",
		Long: "Makes a session of a trace, JSON Lines, that can go on like any other: on a server, or in a data\n" +
			"directory that no process uses. Prints the session's id. What is left out is as the trace has it;\n" +
			"the approval mode is not taken from the trace.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			for name, value := range settings {
				if *value != "" {
					o.query.Set(name, *value)
				}
			}
			if o.lenient {
				o.query.Set("lenient", "true")
			}
			in, err := openInput(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close()
			return o.run(cmd.Context(), in, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	for _, f := range []struct{ name, parameter, usage string }{
		{"session", "id", "id of the session (default: a new one)"},
		{"model", "model", "provider/model to go on with"},
		{"agent", "agent", "agent to go on with"},
		{"approve", "approval_mode", "who decides on tool calls from now on (default read-only)"},
		{"workspace", "workspace", "where tools that touch files run from now on"},
	} {
		settings[f.parameter] = flags.String(f.name, "", f.usage)
		cli.OnlyTyped(flags, f.name) // what a run is told of its session says nothing about a trace
	}
	flags.BoolVar(&o.lenient, "lenient", false, "leave out a last line that is torn")
	cli.OnlyTyped(flags, "lenient")
	cli.Configure(cmd, cli.SectionRun)
	o.register(flags)
	return cmd
}

func (o *importOptions) run(ctx context.Context, in io.Reader, out, errOut io.Writer) (err error) {
	trace, err := io.ReadAll(in) // it may have to be sent twice
	if err != nil {
		return fmt.Errorf("read the trace: %w", err)
	}
	api, leave, err := o.reach(ctx, errOut)
	if err != nil {
		return err
	}
	defer cli.Close(&err, leave)
	id, err := importTrace(ctx, api, o.query, trace)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, id)
	return nil
}

// importTries is how often a trace is sent whose import takes long.
const importTries = 20

// importTrace sends a trace until its outcome is known, and returns the session's id.
func importTrace(ctx context.Context, api *apiClient, query url.Values, trace []byte) (string, error) {
	var key [16]byte
	rand.Read(key[:])
	header := http.Header{"Idempotency-Key": {hex.EncodeToString(key[:])}, "Content-Type": {"application/x-ndjson"}}
	for try := 1; ; try++ {
		id, err := importOnce(ctx, api, "/v1/sessions/import?"+query.Encode(), header, trace)
		unavailable := &schemas.Error{Code: schemas.CodeUnavailable}
		if err == nil || try == importTries || ctx.Err() != nil || !errors.Is(err, unavailable) {
			return id, err
		}
	}
}

func importOnce(ctx context.Context, api *apiClient, path string, header http.Header, trace []byte) (string, error) {
	response, err := api.send(ctx, http.MethodPost, path, bytes.NewReader(trace), header)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var created struct {
		Session struct {
			ID string `json:"id"`
		} `json:"session"`
	}
	err = schemas.DecodeJSON(text, &created)
	return created.Session.ID, err
}
