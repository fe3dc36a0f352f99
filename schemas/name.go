package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// MaxNameLength is the length limit of names and ids, in bytes.
const MaxNameLength = 64

// ValidName reports whether s may name a project, session, agent, tool, pool, command or call:
// 1 to 64 of the characters A-Z a-z 0-9 _ -. Such a name is fit for a broker subject, a key, a
// URL path and a file name alike, so nothing is ever escaped.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxNameLength {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// ValidateName returns nil, or an *[Error] of code [CodeInvalid] naming the field.
func ValidateName(field, s string) error {
	if ValidName(s) {
		return nil
	}
	shown := s
	if len(shown) > 80 {
		shown = shown[:80] + "..."
	}
	return &Error{
		Code:    CodeInvalid,
		Field:   field,
		Message: fmt.Sprintf("%s %q is not a valid name: 1 to %d of the characters A-Z a-z 0-9 _ -", field, shown, MaxNameLength),
	}
}

// Cursor is a position that also names the incarnation of the stream it belongs to. It is what
// server-sent events carry as their id, and what a reader resumes from.
type Cursor struct {
	// Epoch is the stream's incarnation: new at creation and after a restore, so that a cursor
	// from a lost stream is recognised instead of silently pointing elsewhere.
	Epoch    string
	Position Position
}

// String renders the cursor as "epoch-sequence.line".
func (c Cursor) String() string { return c.Epoch + "-" + c.Position.String() }

// IsZero reports whether the cursor is unset.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// ParseCursor reads what [Cursor.String] renders. Anything else is an *[Error] of code
// [CodeInvalid].
func ParseCursor(s string) (Cursor, error) {
	fail := func() (Cursor, error) {
		return Cursor{}, &Error{Code: CodeInvalid, Field: "cursor", Message: fmt.Sprintf("%.80q is not a cursor of the form epoch-sequence.line", s)}
	}
	epoch, rest, ok := strings.Cut(s, "-")
	if !ok || !ValidName(epoch) {
		return fail()
	}
	seq, line, ok := strings.Cut(rest, ".")
	if !ok {
		return fail()
	}
	sequence, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		return fail()
	}
	n, err := strconv.ParseUint(line, 10, 31)
	if err != nil {
		return fail()
	}
	c := Cursor{Epoch: epoch, Position: Position{Sequence: sequence, Line: int(n)}}
	if c.String() != s { // leading zeros or signs: not ours
		return fail()
	}
	return c, nil
}

// DerivedSessionID is the id of the session that a request makes without naming one, under an
// idempotency key: the same for the same key, so that a repeated request means the same session.
func DerivedSessionID(key string) string {
	sum := sha256.Sum256([]byte("session " + key))
	return hex.EncodeToString(sum[:16])
}
