package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"braid/schemas"
)

// The exit codes of every command.
const (
	// ExitOK: done, or ended as asked.
	ExitOK = 0
	// ExitFailed: it could not do what it should; standard error says why.
	ExitFailed = 1
	// ExitUsage: the command line is not valid; nothing was done.
	ExitUsage = 2
)

// UsageError says what is wrong with a command line.
type UsageError struct{ err error }

// Usage makes a [UsageError].
func Usage(format string, args ...any) *UsageError {
	return &UsageError{fmt.Errorf(format, args...)}
}

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// Execute runs a command and returns the process's exit code. An error is one line on stderr; a
// usage error is followed by where to find help. The command's own output goes to stdout.
// environ, as [os.Environ] has it, and a file say what the command line does not, if the command wants
// them to (see [Configure]). Execute uses the command's PersistentPreRunE; no command may have another.
func Execute(ctx context.Context, cmd *cobra.Command, args, environ []string, stdout, stderr io.Writer) int {
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	// What fails before a command's own code has begun was never more than a command line.
	began := false
	cmd.PersistentPreRunE = func(ran *cobra.Command, _ []string) error {
		if err := Resolve(ran, environ); err != nil {
			return err
		}
		began = true
		return nil
	}
	ran, err := cmd.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	var usage *UsageError
	if began && !errors.As(err, &usage) {
		fmt.Fprintf(stderr, "%s: %v\n", ran.CommandPath(), err)
		return ExitFailed
	}
	fmt.Fprintf(stderr, "%s: %v%s\n", ran.CommandPath(), err, origins(ran.Flags(), err.Error()))
	fmt.Fprintf(stderr, "Run \"%s --help\" for usage.\n", ran.CommandPath())
	return ExitUsage
}

// atField puts the member that an error is about before its message.
func atField(err error) error {
	if refused, ok := errors.AsType[*schemas.Error](err); ok && refused.Field != "" {
		return fmt.Errorf("%s: %w", refused.Field, err)
	}
	return err
}

// OnSignal returns a context that ends with the first SIGINT or SIGTERM, which asks a process to
// finish what it is at. A second one finds no handler any more and ends the process at once, however
// soon after the context it comes. stop gives up listening; call it when the process is done.
func OnSignal(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithValue(parent, withoutSignals{}, parent))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var listening sync.WaitGroup
	listening.Go(func() {
		defer cancel() // last: who sees it may rely on the default being back
		defer signal.Stop(signals)
		select {
		case <-signals:
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); listening.Wait() }
}

// UnlessStopped is err, which kept a process from beginning; nil if it was told to stop meanwhile, since an
// end that was asked for is no failure.
func UnlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// withoutSignals is the key of the context that [OnSignal] was given.
type withoutSignals struct{}

// WithoutSignals returns the context that [OnSignal] was given, which no signal ends: for who takes
// signals himself. It is ctx if that did not come from there.
func WithoutSignals(ctx context.Context) context.Context {
	if parent, ok := ctx.Value(withoutSignals{}).(context.Context); ok {
		return parent
	}
	return ctx
}
