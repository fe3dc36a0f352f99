// Package metrics counts what processes do, for Prometheus.
//
//	m := metrics.New()
//	e, err := engine.Start(ctx, engine.Options{..., Events: m.Engine()})
//	m.Sessions(e)
//	m.Broker("engine", conn)
//	server, err := metrics.Listen("127.0.0.1:7301", m, log)
//
// Packages that do the work know nothing of it: they tell what happens by their Events, and are asked
// for what they know when somebody scrapes. A nil [Metrics] counts nothing, so a
// process that is not to be scraped is wired like any other.
//
//	metrics.go     the registry, and labels whose values others choose
//	engine.go      sessions, commands, models
//	toolrunner.go  calls, slots and queues
//	gateway.go     requests and watchers
//	broker.go      connections and what the feed has lost
//	serve.go       the port
//
// Labels have few values: no session, task or call is ever one. What a client may choose, such as the
// name of a model, counts as "other" once there are many. docs/operations.md lists all metrics; a test
// compares.
package metrics
