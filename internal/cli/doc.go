// Package cli is what the command lines of all processes have in common: the flags that say how
// to reach the broker and what to log, the way a command ends, and the signals that end it.
//
//	func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
//		var broker cli.BrokerFlags
//		var logs cli.LogFlags
//		cmd := &cobra.Command{Use: "thing", RunE: func(cmd *cobra.Command, _ []string) error {
//			log, err := cli.Logger(logs, cmd.ErrOrStderr())
//			...
//			conn, err := bus.Connect(cmd.Context(), broker.Options("thing", os.Getenv, log))
//			...
//		}}
//		broker.Register(cmd.Flags())
//		logs.Register(cmd.Flags())
//		return cli.Execute(ctx, cmd, args, stdout, stderr)
//	}
//
// A flag wins over its environment variable, and that over the default.
package cli
