package gateway

import "time"

// Events tell whoever counts what a gateway does. Nil fields are left out. Many goroutines call the
// functions, each for its own request, and wait for them.
type Events struct {
	// Answered: a request has got its answer, which for a stream is when it ended. Route is the
	// pattern it fits, with its method; empty if it fits none.
	Answered func(route string, status int, took time.Duration)
	// Watching: a stream of events has begun to be written (1), or ended (-1).
	Watching func(change int)
}

// watching counts a stream until the returned function is called.
func (g *Gateway) watching() (ended func()) {
	if g.o.Events.Watching == nil {
		return func() {}
	}
	g.o.Events.Watching(1)
	return func() { g.o.Events.Watching(-1) }
}
