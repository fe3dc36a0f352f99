package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Bounds of [LiveTTL]: watchers need time to come back, and fragments take room as long as they live.
const (
	minLiveTTL = time.Minute
	maxLiveTTL = 7 * 24 * time.Hour
)

// LiveTTL is a flag: how long fragments of a new cluster live. It refuses what is out of bounds.
type LiveTTL struct{ d time.Duration }

var _ pflag.Value = (*LiveTTL)(nil)

// Register adds the flag to a command.
func (l *LiveTTL) Register(flags *pflag.FlagSet) {
	flags.Var(l, "live-ttl", "how long fragments of messages are kept, from 1m to 168h; set once, when the broker's streams are created (default: as they are, or 1h)")
}

// Value is what was given, 0 if nothing was: then what exists holds.
func (l *LiveTTL) Value() time.Duration { return l.d }

// Set implements [pflag.Value].
func (l *LiveTTL) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	if d < minLiveTTL || d > maxLiveTTL || d%time.Second != 0 {
		return fmt.Errorf("must be whole seconds, from %s to %s", minLiveTTL, maxLiveTTL)
	}
	l.d = d
	return nil
}

// String implements [pflag.Value].
func (l *LiveTTL) String() string {
	if l.d == 0 {
		return ""
	}
	return l.d.String()
}

// Type implements [pflag.Value].
func (l *LiveTTL) Type() string { return "duration" }
