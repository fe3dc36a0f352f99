package schemas_test

import (
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
)

// A cursor of the turn view comes back from its text, and has what lies before it and no more.
func TestTurnCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := schemas.TurnCursor{
			Cursor: schemas.Cursor{Epoch: "e", Position: schemas.Position{
				Sequence: rapid.Uint64().Draw(t, "sequence"), Line: rapid.IntRange(0, 1<<31-1).Draw(t, "line"),
			}},
			Part: rapid.OneOf(rapid.IntRange(1, 5), rapid.Just(schemas.WholeMessage)).Draw(t, "part"),
		}
		back, err := schemas.ParseTurnCursor(c.String())
		if err != nil || back != c {
			t.Fatalf("%s became %+v, %v", c, back, err)
		}
		if !c.Has(c.Position, c.Part) || c.Part != schemas.WholeMessage && c.Has(c.Position, c.Part+1) {
			t.Fatalf("%s has another part", c)
		}
		later := c.Position
		if later.Line++; c.Has(later, 1) {
			t.Fatalf("%s has what comes later", c)
		}
	})
	for text, why := range map[string]string{
		"":         "empty",
		"e-1":      "no line",
		"e-1.2.0":  "no part",
		"e-1.2.01": "a leading zero",
		"e-1.2.x":  "no number",
	} {
		if c, err := schemas.ParseTurnCursor(text); err == nil {
			t.Errorf("%s: %q is %+v", why, text, c)
		}
	}
}
