package toolrunner

// recentBytes and recentCalls bound the output that is kept of calls that have ended.
const (
	recentBytes = 16 << 20
	recentCalls = 1024
)

// recent keeps the executions that ended last, so that their owners may still ask for output.
// Nothing depends on it: the call's record holds the whole text. The zero value is ready.
type recent struct {
	ended map[CallKey]*Execution
	order []CallKey // oldest first
	bytes int
}

// add keeps an execution in the place of those that are too many for it.
func (r *recent) add(key CallKey, e *Execution) {
	if r.ended == nil {
		r.ended = make(map[CallKey]*Execution)
	}
	r.forget(key)
	r.ended[key] = e
	r.order = append(r.order, key)
	r.bytes += e.out.size()
	for len(r.order) > recentCalls || (r.bytes > recentBytes && len(r.order) > 1) {
		r.forget(r.order[0])
	}
}

func (r *recent) forget(key CallKey) {
	e, ok := r.ended[key]
	if !ok {
		return
	}
	delete(r.ended, key)
	r.bytes -= e.out.size()
	for i, k := range r.order {
		if k == key {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}
