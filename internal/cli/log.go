package cli

import (
	"io"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// LogFlags say what is logged and how.
type LogFlags struct {
	Level  string
	Format string
}

// Register adds the flags to a command.
func (f *LogFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Level, "log-level", "info", "the lowest `LEVEL` to log: debug, info, warn or error")
	flags.StringVar(&f.Format, "log-format", "", "`FORMAT` of the log: json or console (default: console on a terminal, else json)")
}

// Logger makes the logger that the flags ask for, writing to w. A value it does not know is a
// usage error (see [Usage]).
func Logger(f LogFlags, w io.Writer) (zerolog.Logger, error) {
	levels := map[string]zerolog.Level{
		"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel,
		"warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel,
	}
	level, ok := levels[f.Level]
	if !ok {
		return zerolog.Nop(), Usage("--log-level must be debug, info, warn or error, not %q", f.Level)
	}
	terminal := isTerminal(w)
	switch f.Format {
	case "console":
		w = zerolog.ConsoleWriter{Out: w, NoColor: !terminal}
	case "json":
	case "":
		if terminal {
			w = zerolog.ConsoleWriter{Out: w}
		}
	default:
		return zerolog.Nop(), Usage("--log-format must be json or console, not %q", f.Format)
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
