package gateway

import (
	"sync"

	"braid/schemas"
)

// crowd counts what is served at once, in all and for each session, and refuses more than a bound: so a
// gateway's memory is bounded, whatever its clients do.
type crowd struct {
	what            string // what is counted, in the plural, for people
	most, mostOfOne int

	mu struct {
		sync.Mutex
		all int
		of  map[schemas.SessionRef]int
	}
}

func newCrowd(what string, most, mostOfOne int) *crowd {
	c := &crowd{what: what, most: most, mostOfOne: mostOfOne}
	c.mu.of = map[schemas.SessionRef]int{}
	return c
}

// enter lets one more in for a session, or, without one, for the project. leave must be called once
// after it. The error is an *[schemas.Error] of code too_many.
func (c *crowd) enter(ref schemas.SessionRef) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.all >= c.most:
		return nil, schemas.Errorf(schemas.CodeTooMany, "this gateway has %d %s already, as many as it may; try again", c.mu.all, c.what)
	case c.mu.of[ref] >= c.mostOfOne:
		return nil, schemas.Errorf(schemas.CodeTooMany, "this gateway has %d %s of session %s already, as many as it may; try again", c.mu.of[ref], c.what, ref.ID)
	}
	c.mu.all++
	c.mu.of[ref]++
	return func() { c.leave(ref) }, nil
}

// leave takes off one that has entered for a session.
func (c *crowd) leave(ref schemas.SessionRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.all--
	if c.mu.of[ref]--; c.mu.of[ref] == 0 {
		delete(c.mu.of, ref)
	}
}
