package cli

import (
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"braid/bus"
)

// DefaultNATS is where the broker is looked for if nobody says otherwise.
const DefaultNATS = "nats://127.0.0.1:4222"

// BrokerFlags say how to reach the broker.
type BrokerFlags struct {
	URL         string
	Token       string
	CredsFile   string
	ConnectWait time.Duration
	LiveTTL     LiveTTL
}

// Register adds the flags to a command.
func (f *BrokerFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.URL, "nats", DefaultNATS, "`URL` of the broker; several are separated by commas")
	flags.StringVar(&f.Token, "nats-token", "", "token for the broker; better set "+EnvName("nats-token")+", since command lines are visible to others")
	flags.StringVar(&f.CredsFile, "nats-creds", "", "credentials `FILE` for the broker")
	f.LiveTTL.Register(flags)
	flags.DurationVar(&f.ConnectWait, "connect-wait", 30*time.Second, "how long to wait at the start for a broker that can't be reached")
}

// Options are the flags as a connection takes them. name shows who connects to people who look at
// the broker.
func (f *BrokerFlags) Options(name string, log zerolog.Logger) bus.Options {
	return bus.Options{
		URL:         f.URL,
		Token:       f.Token,
		CredsFile:   f.CredsFile,
		ConnectWait: f.ConnectWait,
		Name:        name,
		Topology:    bus.Topology{LiveTTL: f.LiveTTL.Value()},
		Log:         log,
	}
}
