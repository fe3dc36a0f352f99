package bus_test

import (
	"testing"

	"braid/bus"
	"braid/schemas"
)

// How a session stands at a sequence is told once, and what is older never.
func TestTold(t *testing.T) {
	t.Parallel()
	var told bus.Told
	for _, row := range []struct {
		why  string
		news bool
		want bool
	}{
		{"the first word", told.Stands("a", 7), true},
		{"the same", told.Stands("a", 7), false},
		{"an older answer", told.Stands("a", 6), false},
		{"another session", told.Stands("b", 6), true},
		{"what is newer", told.Stands("a", 8), true},
		{"nobody knows it", told.Gone("c", 0), true},
		{"nobody knows it still", told.Gone("c", 0), false},
		{"it came to be", told.Stands("c", 9), true},
		{"it is not found any more", told.Gone("c", 8), true},
		{"it is found again", told.Stands("c", 9), true},
		{"it is deleted", told.Deleted("c"), true},
		{"nothing comes after that", told.Stands("c", 10), false},
		{"not even that it is deleted", told.Deleted("c"), false},
	} {
		if row.news != row.want {
			t.Errorf("%s: %t, want %t", row.why, row.news, row.want)
		}
	}
	tail := func(session string, last uint64) bus.TailEvent {
		return bus.TailEvent{Session: schemas.SessionRef{Project: "p", ID: session}, Last: last}
	}
	for _, row := range []struct {
		why  string
		tail bus.TailEvent
		want bool
	}{
		{"all of it was told", tail("a", 8), false},
		{"there is more", tail("a", 9), true},
		{"there is nothing any more", tail("a", 0), true},
		{"it was never told of", tail("d", 1), true},
		{"it was deleted", tail("c", 0), false},
	} {
		if got := told.Behind(row.tail); got != row.want {
			t.Errorf("%s: %t, want %t", row.why, got, row.want)
		}
	}
	if told.Forget(); !told.Stands("a", 8) {
		t.Error("what is forgotten is not told again")
	}
}
