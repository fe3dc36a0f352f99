package engine

// Motion is how many sessions an engine runs, by what they do.
type Motion struct {
	// Running have a model or a tool at work; Waiting wait for a person; Idle are at rest, and about
	// to be let go.
	Running, Waiting, Idle int
}

// What the session of a runner does, as [Motion] counts it.
const (
	motionRunning int32 = iota // also while it is being claimed
	motionWaiting
	motionIdle
)

// Motion counts the sessions that are in motion here now.
func (e *Engine) Motion() Motion {
	e.mu.Lock()
	defer e.mu.Unlock()
	var m Motion
	for _, r := range e.mu.runners {
		switch r.motion.Load() {
		case motionRunning:
			m.Running++
		case motionWaiting:
			m.Waiting++
		case motionIdle:
			m.Idle++
		}
	}
	return m
}

// MaxSessions is how many sessions may be in motion here at once.
func (e *Engine) MaxSessions() int { return e.room }

// noteMotion notes what the session does now, for [Engine.Motion], which any goroutine may call.
func (r *runner) noteMotion() {
	switch {
	case r.state.AtRest():
		r.motion.Store(motionIdle)
	case r.state.Suspendable():
		r.motion.Store(motionWaiting)
	default:
		r.motion.Store(motionRunning)
	}
}
