package schematest

import (
	"slices"
	"testing"

	"braid/schemas"
)

// around is how many messages before and after a breach a failure shows.
const around = 6

// Verify fails the test for each rule that the entries break, seen through the view, and shows
// the messages around the breach. The stream may end anywhere.
func Verify(t testing.TB, view schemas.View, entries []schemas.Entry, opts ...schemas.Option) {
	t.Helper()
	verify(t, schemas.NewChecker(view, opts...), view, entries)
}

// VerifyFinished is [Verify] for a stream that is over: nothing may be left open.
func VerifyFinished(t testing.TB, view schemas.View, entries []schemas.Entry, opts ...schemas.Option) {
	t.Helper()
	c := schemas.NewChecker(view, opts...)
	verify(t, c, view, entries)
	for _, v := range c.Finish() {
		t.Errorf("view %s, at the end: %s\n%s", view, v, near(entries, v.Position))
	}
}

func verify(t testing.TB, c *schemas.Checker, view schemas.View, entries []schemas.Entry) {
	t.Helper()
	for i, e := range entries {
		for _, v := range c.Add(e) {
			t.Errorf("view %s: %s\n%s", view, v, excerpt(entries, i))
		}
	}
}

// near is the excerpt around the entry at the position.
func near(entries []schemas.Entry, p schemas.Position) string {
	i := slices.IndexFunc(entries, func(e schemas.Entry) bool { return e.Position == p })
	return excerpt(entries, max(i, 0))
}

// excerpt is the timeline around entry i, which is marked.
func excerpt(entries []schemas.Entry, i int) string {
	from, to := max(0, i-around), min(len(entries), i+around+1)
	if from >= to {
		return ""
	}
	return Format(entries[from:i]) + "# here:\n" + Format(entries[i:to])
}
