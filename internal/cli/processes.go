package cli

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
)

// EngineFlags are the flags of an engine.
type EngineFlags struct {
	Broker  BrokerFlags
	Logs    LogFlags
	Metrics MetricsFlags
	Spans   SpansFlags
	Models  ModelFlags
	Policy  PolicyFlag
	// Data is the directory of the trace, MaxSessions how many sessions may be in motion (0: the
	// engine's own default), Drain how long the end may take.
	Data        string
	MaxSessions int
	Drain       time.Duration
}

// Register adds the flags to a command.
func (f *EngineFlags) Register(flags *pflag.FlagSet) {
	f.Broker.Register(flags)
	f.Logs.Register(flags)
	f.Metrics.Register(flags)
	f.Spans.Register(flags)
	f.Models.Register(flags)
	f.Policy.Register(flags)
	flags.StringVar(&f.Data, "data", "", "directory of this engine's trace; no other process may use it (required)")
	flags.IntVar(&f.MaxSessions, "max-sessions", 0, "sessions in motion here at once (default 1024)")
	flags.DurationVar(&f.Drain, "drain", 10*time.Second, "how long to hand sessions over when told to stop")
}

// ToolrunnerFlags are the flags of a toolrunner.
type ToolrunnerFlags struct {
	Broker  BrokerFlags
	Logs    LogFlags
	Metrics MetricsFlags
	Spans   SpansFlags
	Tools   ToolFlag
	// Dir is where commands run.
	Dir string
	// Volume names the shared volume that Dir is on; empty if it is on none.
	Volume   string
	Pool     string
	Projects []string
	Slots    int
	Drain    time.Duration
	// PassEnv are further environment variables of commands.
	PassEnv []string
}

// Register adds the flags to a command.
func (f *ToolrunnerFlags) Register(flags *pflag.FlagSet) {
	f.Broker.Register(flags)
	f.Logs.Register(flags)
	f.Metrics.Register(flags)
	f.Spans.Register(flags)
	f.Tools.Register(flags)
	flags.StringVar(&f.Dir, "dir", ".", "where tools work, and what a relative workspace is relative to")
	flags.StringVar(&f.Volume, "shared-volume", "", "name of the volume that --dir is on, for all toolrunners that have it, now or later; without, files are lost to sessions with this process")
	flags.StringVar(&f.Pool, "pool", "default", "the pool to serve; all toolrunners of a pool offer the same tools")
	flags.StringSliceVar(&f.Projects, "project", []string{"default"}, "whose calls to run; may be repeated")
	flags.IntVar(&f.Slots, "slots", 8, "how many calls run at once")
	flags.DurationVar(&f.Drain, "drain", 20*time.Second, "how long running calls may go on when told to stop")
	flags.StringSliceVar(&f.PassEnv, "pass-env", nil, "further environment variables that commands get; those of Braid and NATS never pass")
}

// Check finds what the flags say and can't be, before anything is begun.
func (f *ToolrunnerFlags) Check() error {
	if err := f.Tools.Check(); err != nil {
		return err
	}
	if info, err := os.Stat(f.Dir); err != nil || !info.IsDir() {
		return Usage("--dir %q is no directory", f.Dir)
	}
	if f.Slots < 1 {
		return Usage("--slots must be 1 or more, not %d", f.Slots)
	}
	if f.Drain < 0 {
		return Usage("--drain must not be negative")
	}
	return nil
}

// GatewayFlags are the flags of a gateway.
type GatewayFlags struct {
	Broker  BrokerFlags
	Logs    LogFlags
	Metrics MetricsFlags
	Listen  string
	Token   string
	Project string
	Hosts   []string
	Agents  AgentFlag
}

// Register adds the flags to a command.
func (f *GatewayFlags) Register(flags *pflag.FlagSet) {
	f.Broker.Register(flags)
	f.Logs.Register(flags)
	f.Metrics.Register(flags)
	registerListen(flags, &f.Listen)
	flags.StringVar(&f.Token, "token", "", "bearer token clients must send (required); better given as env "+EnvName("token")+", since others see command lines")
	flags.StringVar(&f.Project, "project", "default", "project whose sessions are served")
	f.Agents.Register(flags)
	flags.StringSliceVar(&f.Hosts, "host", nil, "host names, besides loopback, that requests may name")
}

func registerListen(flags *pflag.FlagSet, listen *string) {
	flags.StringVar(listen, "listen", "127.0.0.1:7300", "address to serve on")
}

// StackFlags are the flags of everything in one process.
type StackFlags struct {
	// Data is where everything is kept, see [StackFlags.DataDir].
	Data    string
	Sync    string
	Models  ModelFlags
	Policy  PolicyFlag
	Tools   ToolFlag
	Agents  AgentFlag
	LiveTTL LiveTTL
}

// Register adds the flags to a command, with its default of --sync.
func (f *StackFlags) Register(flags *pflag.FlagSet, sync string) {
	f.RegisterStore(flags, sync)
	f.Models.Register(flags)
	f.Policy.Register(flags)
	f.Tools.Register(flags)
	f.Agents.Register(flags)
}

// RegisterStore adds the flags that say what is kept where, and how, alone.
func (f *StackFlags) RegisterStore(flags *pflag.FlagSet, sync string) {
	flags.StringVar(&f.Data, "data", "", "directory for streams and traces, one process at a time (default ~/.braid)")
	flags.StringVar(&f.Sync, "sync", sync, "when writes reach the disk: always, or a duration; at a power loss that much is gone")
	f.LiveTTL.Register(flags)
}

// DataDir is where streams and traces are kept.
func (f *StackFlags) DataDir() (string, error) {
	if f.Data != "" {
		return f.Data, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.Join(Usage("no --data given"), err)
	}
	return filepath.Join(home, ".braid"), nil
}

// DevFlags are the flags of braid dev.
type DevFlags struct {
	Stack   StackFlags
	Logs    LogFlags
	Metrics MetricsFlags
	Spans   SpansFlags
	Listen  string
	// NATSListen is the address of the broker; empty: it is for this process alone.
	NATSListen string
	Token      string
}

// Register adds the flags to a command.
func (f *DevFlags) Register(flags *pflag.FlagSet) {
	f.Stack.Register(flags, "always")
	f.Logs.Register(flags)
	f.Metrics.Register(flags)
	f.Spans.Register(flags)
	registerListen(flags, &f.Listen)
	flags.StringVar(&f.NATSListen, "nats-listen", "", "address to serve the broker on, for toolrunners and engines of your own, such as 127.0.0.1:4222; its URL is printed as well (default: not served)")
	flags.StringVar(&f.Token, "token", "", "bearer token clients must send (default random); better given as env "+EnvName("token")+", since others see command lines")
}

// Sections of a configuration file. Each is read by the command of its name.
const (
	SectionEngine     = "engine"
	SectionToolrunner = "toolrunner"
	SectionGateway    = "gateway"
	SectionDev        = "dev"
	// SectionRun is for the commands of braid that are somebody's, not a service.
	SectionRun = "run"
)

// services are the flags of all services, by section: what any of them knows may stand at the top of
// a configuration file, which all of them read.
func services() map[string]*pflag.FlagSet {
	sections := map[string]*pflag.FlagSet{}
	for section, register := range map[string]func(*pflag.FlagSet){
		SectionEngine: new(EngineFlags).Register, SectionToolrunner: new(ToolrunnerFlags).Register,
		SectionGateway: new(GatewayFlags).Register, SectionDev: new(DevFlags).Register,
	} {
		sections[section] = pflag.NewFlagSet(section, pflag.ContinueOnError)
		register(sections[section])
	}
	return sections
}
