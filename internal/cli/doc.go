// Package cli is what the command lines of all processes have in common: the flags that say how
// to reach the broker and what to log, the way a command ends, and the signals that end it.
//
//	func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
//		var broker cli.BrokerFlags
//		var logs cli.LogFlags
//		cmd := &cobra.Command{Use: "thing", RunE: func(cmd *cobra.Command, _ []string) error {
//			log, err := cli.Logger(logs, cmd.ErrOrStderr())
//			...
//			conn, err := bus.Connect(cmd.Context(), broker.Options("thing", log))
//			...
//		}}
//		broker.Register(cmd.Flags())
//		logs.Register(cmd.Flags())
//		cli.Configure(cmd, cli.SectionGateway)
//		return cli.Execute(ctx, cmd, args, os.Environ(), stdout, stderr)
//	}
//
// [Configure] gives each flag two more places where it can be said, under names that follow from its
// own: an environment variable and a key of a YAML file. The flag wins over the variable, that over
// the file, and the file over the default. An error names the place where a value comes from.
package cli
