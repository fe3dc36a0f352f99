package cli

import (
	"cmp"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"braid/bus"
)

// DefaultNATS is where the broker is looked for if nobody says otherwise.
const DefaultNATS = "nats://127.0.0.1:4222"

// The environment variables of [BrokerFlags].
const (
	EnvNATS      = "BRAID_NATS"
	EnvNATSToken = "BRAID_NATS_TOKEN"
	EnvNATSCreds = "BRAID_NATS_CREDS"
)

// BrokerFlags say how to reach the broker. An empty field was not given on the command line.
type BrokerFlags struct {
	URL         string
	Token       string
	CredsFile   string
	ConnectWait time.Duration
	LiveTTL     LiveTTL
}

// Register adds the flags to a command. Their help names the environment variables and shows no
// value of one, since a token may be among them.
func (f *BrokerFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.URL, "nats", "", "the broker, or several separated by commas (env "+EnvNATS+", default "+DefaultNATS+")")
	flags.StringVar(&f.Token, "nats-token", "", "token for the broker; better given as env "+EnvNATSToken+", since others see command lines")
	flags.StringVar(&f.CredsFile, "nats-creds", "", "credentials file for the broker (env "+EnvNATSCreds+")")
	f.LiveTTL.Register(flags)
	flags.DurationVar(&f.ConnectWait, "connect-wait", 30*time.Second, "how long to wait for a broker that can't be reached at the start")
}

// Options are the flags, completed from the environment, as a connection takes them. name shows
// who connects to people who look at the broker.
func (f *BrokerFlags) Options(name string, getenv func(string) string, log zerolog.Logger) bus.Options {
	return bus.Options{
		URL:         cmp.Or(f.URL, getenv(EnvNATS), DefaultNATS),
		Token:       cmp.Or(f.Token, getenv(EnvNATSToken)),
		CredsFile:   cmp.Or(f.CredsFile, getenv(EnvNATSCreds)),
		ConnectWait: f.ConnectWait,
		Name:        name,
		Topology:    bus.Topology{LiveTTL: f.LiveTTL.Value()},
		Log:         log,
	}
}
