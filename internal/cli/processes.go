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
	flags.StringVar(&f.Data, "data", "", "`DIRECTORY` of this engine's trace, for this process alone (required)")
	flags.IntVar(&f.MaxSessions, "max-sessions", 0, "the maximum number of active sessions in this engine (default 1024)")
	flags.DurationVar(&f.Drain, "drain", 10*time.Second, "how long handing over sessions may take when the process is told to stop")
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
	flags.StringVar(&f.Dir, "dir", ".", "the `DIRECTORY` that tools work in; relative workspaces start from it")
	flags.StringVar(&f.Volume, "shared-volume", "", "`NAME` of the volume that --dir is on, if other toolrunners have it too; without it, sessions lose their files with this process")
	flags.StringVar(&f.Pool, "pool", "default", "`NAME` of the pool to serve; all toolrunners of a pool offer the same tools")
	flags.StringSliceVar(&f.Projects, "project", []string{"default"}, "the projects whose calls to run; separated by commas, or repeated")
	flags.IntVar(&f.Slots, "slots", 8, "the maximum number of calls that run at once")
	flags.DurationVar(&f.Drain, "drain", 20*time.Second, "how long running calls may take to end when the process is told to stop")
	flags.StringSliceVar(&f.PassEnv, "pass-env", nil, "more environment variables to pass to commands; those of Braid and NATS are never passed")
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
	flags.StringVar(&f.Token, "token", "", "the bearer token that clients must send (required); better set "+EnvName("token")+", since command lines are visible to others")
	flags.StringVar(&f.Project, "project", "default", "the project whose sessions are served")
	f.Agents.Register(flags)
	flags.StringSliceVar(&f.Hosts, "host", nil, "host names that requests may use besides loopback; separated by commas, or repeated")
}

func registerListen(flags *pflag.FlagSet, listen *string) {
	flags.StringVar(listen, "listen", "127.0.0.1:7300", "`ADDRESS` to serve on")
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
	flags.StringVar(&f.Data, "data", "", "`DIRECTORY` of streams and traces, for one process at a time (default ~/.braid)")
	flags.StringVar(&f.Sync, "sync", sync, "when writes are synced to disk: always, or at an interval, which is how much a power failure can lose")
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
	flags.StringVar(&f.NATSListen, "nats-listen", "", "`ADDRESS` to serve the broker on, for toolrunners and engines of your own, such as 127.0.0.1:4222; its URL is printed as well (default: not served)")
	flags.StringVar(&f.Token, "token", "", "the bearer token that clients must send (default: a random one); better set "+EnvName("token")+", since command lines are visible to others")
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
