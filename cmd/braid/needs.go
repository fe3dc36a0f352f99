package main

// This file says what commands start in this process when no server does their work.

// need is what a command can't do without, besides its flags and files.
type need int

const (
	// needsNothing: flags, files and standard input say it all.
	needsNothing need = iota + 1
	// needsServer: it works on a server alone.
	needsServer
	// needsTrace: it looks at what is recorded. A broker and a reader of the trace run, no session goes
	// on, no model is asked and nothing is recorded.
	needsTrace
	// needsAll: it changes sessions or runs tasks. A broker, an engine, a toolrunner and a gateway run, and
	// while they do tasks that were interrupted go on.
	needsAll
)

// needs has every command, by its name below braid. What only looks must not start what makes tasks go on,
// which costs money.
func needs() map[string]need {
	return map[string]need{
		"run":             needsAll,
		"chat":            needsAll,
		"dev":             needsAll,
		"sessions abort":  needsAll,
		"sessions delete": needsAll,
		"trace import":    needsAll,

		"sessions":      needsTrace,
		"sessions show": needsTrace,
		"failures":      needsTrace,
		"trace show":    needsTrace,
		"trace export":  needsTrace,
		"agents":        needsTrace,

		"approve": needsServer, // without one nothing waits while nobody asks
		"deny":    needsServer,

		"models": needsNothing,
		"tools":  needsNothing,
		"check":  needsNothing,
		"config": needsNothing, // and the commands below it
	}
}
