// Command braid is all of Braid in one process, and its command line.
package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"braid/internal/cli"
)

func main() {
	ctx, stop := cli.OnSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit code: 0 done, 1 not, 2 usage.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetIn(stdin)
	root.SetOut(stdout) // where scripts for shells are to go is asked only once
	refuseUnknown(root)
	return cli.Execute(ctx, root, args, os.Environ(), stdout, stderr)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "braid",
		Short: "Run LLM agents that survive crashes",
		Long: "Braid runs LLM agents on a message broker: each session is one ordered stream, tools run on any\n" +
			"machine, and nothing is lost when a process dies.\n\n" +
			"Commands use the server given by --server or BRAID_SERVER. Without one, they run what they need in\n" +
			"this process, on a data directory that is kept (--data). --json prints one JSON object per line.",
		Example: "  braid run --model shell/demo --approve allow-all '$ date'\n" +
			"  braid chat --model shell/demo\n" +
			"  braid dev                               # start a server, and print its URL",
	}
	addCommands(root)
	return root
}
