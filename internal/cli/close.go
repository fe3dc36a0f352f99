package cli

import (
	"errors"

	"braid/trace"
)

// Close calls f when a function ends and adds its error to the one the function returns.
func Close(err *error, f func() error) { *err = errors.Join(*err, f()) }

// CloseTrace closes the trace of an engine. A disk that failed it is no failure of the process: that
// was said when it happened, sessions went on without the trace, and it is made anew from the log.
func CloseTrace(store *trace.Store) error {
	if err := store.Close(); !errors.Is(err, trace.ErrDegraded) {
		return err
	}
	return nil
}
