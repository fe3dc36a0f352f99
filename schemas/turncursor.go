package schemas

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// TurnCursor is a place in the view of turns: how much of it a reader has. One message may complete
// several events, so a message's cursor alone would not do: the reader has Part of those that the
// message at the cursor completed, and all that came before.
type TurnCursor struct {
	Cursor
	Part int
}

// WholeMessage is the part of a reader who has all events of a message.
const WholeMessage = math.MaxInt

// ParseTurnCursor reads what [TurnCursor.String] renders. Anything else is an *[Error] of code
// [CodeInvalid].
func ParseTurnCursor(s string) (TurnCursor, error) {
	c := TurnCursor{Part: WholeMessage}
	if i := strings.LastIndexByte(s, '.'); i > strings.IndexByte(s, '.') {
		n, err := strconv.ParseUint(s[i+1:], 10, 31)
		if err == nil && n > 0 && s[i+1:] == strconv.FormatUint(n, 10) {
			c.Part, s = int(n), s[:i]
		}
	}
	var err error
	c.Cursor, err = ParseCursor(s)
	return c, err
}

// String renders the place as a cursor, with ".part" if it is amid the events of a message.
func (c TurnCursor) String() string {
	if c.Part == WholeMessage {
		return c.Cursor.String()
	}
	return c.Cursor.String() + "." + strconv.Itoa(c.Part)
}

// Has reports that the reader has so many events of the message at a position, or all with
// [WholeMessage].
func (c TurnCursor) Has(at Position, part int) bool {
	return cmp.Or(at.Compare(c.Position), cmp.Compare(part, c.Part)) <= 0
}
