package client

import (
	"context"
	"iter"
)

// ProjectEvent is what watching all sessions gives: a [Changed], [Deleted], [Watching] or [Missed].
type ProjectEvent interface{ projectEvent() }

// Changed says how a session stands now: that it began, runs, waits for a person, rests, or has other
// settings. What changes faster than it can be told is told once: states, not history.
type Changed struct {
	// Cursor is where to go on after it.
	Cursor string
	Info
}

// Deleted says that a session is no more.
type Deleted struct {
	// Cursor is where to go on after it.
	Cursor string `json:"-"`
	ID     string `json:"id"`
}

// Watching says that changes are told from here on: who keeps a list makes it now, with
// [Client.Sessions].
type Watching struct {
	Cursor string `json:"cursor"`
}

// Missed says that something may not have been told. A [Watching] follows.
type Missed struct {
	// Reason is for people.
	Reason string `json:"reason"`
}

func (Changed) projectEvent()  {}
func (Deleted) projectEvent()  {}
func (Watching) projectEvent() {}
func (Missed) projectEvent()   {}

// placeOf is where to go on after an event; empty if it has no place of its own.
func placeOf(e ProjectEvent) string {
	switch e := e.(type) {
	case Changed:
		return e.Cursor
	case Deleted:
		return e.Cursor
	case Watching:
		return e.Cursor
	}
	return ""
}

// Events tells of all sessions of the project as they change. after is the cursor of the last event that
// is known; empty: from now on. A cursor is kept for about half a minute by the gateway that gave it, and
// over the broker not at all: what can't be resumed begins with a [Missed].
//
// The range goes on until the caller leaves it, ctx ends, or it can't go on: then its last element is
// an error. A connection that breaks is made again. Who is slow holds up nobody, and is told by a
// [Missed] what it costs.
func (c *Client) Events(ctx context.Context, after string) iter.Seq2[ProjectEvent, error] {
	return func(yield func(ProjectEvent, error) bool) {
		err := reconnect(ctx, c.pauses, func() (came, left bool, _ error) {
			for event, err := range c.transport.events(ctx, after) {
				if err != nil {
					return came, false, err
				}
				came = true
				if place := placeOf(event); place != "" {
					after = place
				}
				if !yield(event, nil) {
					return true, true, nil
				}
			}
			return came, false, errEnded
		})
		if err != nil {
			yield(nil, err)
		}
	}
}
