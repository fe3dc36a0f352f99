package trace

import (
	"bytes"
	"cmp"
	"math"
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
)

func FuzzMessageKey(f *testing.F) {
	f.Add("p", "bob", uint64(7), uint32(3))
	f.Add("a", "-", uint64(math.MaxUint64), uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, project, id string, sequence uint64, line uint32) {
		ref := schemas.SessionRef{Project: project, ID: id}
		if ref.Validate() != nil {
			t.Skip()
		}
		p := schemas.Position{Sequence: sequence, Line: int(line)}
		k := messageKey(ref, p)
		gotRef, gotP, err := parseMessageKey(k)
		if err != nil || gotRef != ref || gotP != p {
			t.Fatalf("%s %s came back as %s %s, %v", ref, p, gotRef, gotP, err)
		}
		if !between(k, stateKey(ref), sessionKey(ref, kindEnd)) {
			t.Fatalf("%q is outside of its session's range", k)
		}
	})
}

// FuzzParseKeys: whatever bytes stand in a store, parsing them ends in a value or an error.
func FuzzParseKeys(f *testing.F) {
	f.Add(messageKey(bob, schemas.Position{Sequence: 1}))
	f.Add(failureKey(bob, 5, schemas.Position{Sequence: 1}))
	f.Add(activityKey(bob, 5))
	f.Add(usageKey("p", 3, "m"))
	f.Add(sessionUsageKey(bob, 3, "m"))
	f.Add(memberKey(2, bob))
	f.Fuzz(func(t *testing.T, k []byte) {
		if ref, p, err := parseMessageKey(k); err == nil && !bytes.Equal(messageKey(ref, p), k) {
			t.Errorf("message key %q", k)
		}
		if ref, ms, p, err := parseFailureKey(k); err == nil && !bytes.Equal(failureKey(ref, ms, p), k) {
			t.Errorf("failure key %q", k)
		}
		if ref, ms, err := parseActivityKey(k); err == nil && !bytes.Equal(activityKey(ref, ms), k) {
			t.Errorf("activity key %q", k)
		}
		if project, day, model, err := parseUsageKey(k); err == nil && !bytes.Equal(usageKey(project, day, model), k) {
			t.Errorf("usage key %q", k)
		}
		if ref, day, model, err := parseSessionUsageKey(k); err == nil && !bytes.Equal(sessionUsageKey(ref, day, model), k) {
			t.Errorf("session usage key %q", k)
		}
		if ref, err := parseMemberKey(k); err == nil && !bytes.HasSuffix(k, []byte(ref.ID)) {
			t.Errorf("member key %q", k)
		}
	})
}

// Keys sort as what they are made of does; that is what every listing rests on.
func TestKeysSortAsTheirValues(t *testing.T) {
	name := rapid.StringMatching(`[-_a-zA-Z0-9]{1,4}`)
	// Small and extreme numbers, so that fields are often equal and often a byte apart.
	number := rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64Range(math.MaxUint64-3, math.MaxUint64))
	type row struct {
		ref    schemas.SessionRef
		at     schemas.Position
		millis int64
		day    Day
	}
	draw := rapid.Custom(func(t *rapid.T) row {
		return row{
			ref:    schemas.SessionRef{Project: name.Draw(t, "project"), ID: name.Draw(t, "id")},
			at:     schemas.Position{Sequence: number.Draw(t, "sequence"), Line: rapid.IntRange(0, 300).Draw(t, "line")},
			millis: rapid.Int64Range(0, 300).Draw(t, "millis"),
			day:    Day(rapid.Uint32Range(0, 300).Draw(t, "day")),
		}
	})
	byRef := func(a, b schemas.SessionRef) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.ID, b.ID))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		if rapid.Bool().Draw(t, "same session") {
			b.ref = a.ref
		}
		for _, c := range []struct {
			what string
			keys int
			want int
		}{
			{"messages", bytes.Compare(messageKey(a.ref, a.at), messageKey(b.ref, b.at)),
				cmp.Or(byRef(a.ref, b.ref), a.at.Compare(b.at))},
			{"activity", bytes.Compare(activityKey(a.ref, a.millis), activityKey(b.ref, b.millis)),
				cmp.Or(cmp.Compare(a.ref.Project, b.ref.Project), cmp.Compare(b.millis, a.millis), cmp.Compare(a.ref.ID, b.ref.ID))},
			{"failures", bytes.Compare(failureKey(a.ref, a.millis, a.at), failureKey(b.ref, b.millis, b.at)),
				cmp.Or(cmp.Compare(a.ref.Project, b.ref.Project), cmp.Compare(b.millis, a.millis), cmp.Compare(a.ref.ID, b.ref.ID), a.at.Compare(b.at))},
			{"usage", bytes.Compare(usageKey(a.ref.Project, a.day, a.ref.ID), usageKey(b.ref.Project, b.day, b.ref.ID)),
				cmp.Or(cmp.Compare(a.ref.Project, b.ref.Project), cmp.Compare(a.day, b.day), cmp.Compare(a.ref.ID, b.ref.ID))},
		} {
			if c.keys != c.want {
				t.Errorf("%s: keys compare as %d, values as %d: %+v, %+v", c.what, c.keys, c.want, a, b)
			}
		}
	})
}

func TestSessionRangesAreDisjoint(t *testing.T) {
	// Names of which one begins with the other, in both fields.
	refs := []schemas.SessionRef{{Project: "p", ID: "b"}, {Project: "p", ID: "bb"}, {Project: "p", ID: "b-"}, {Project: "pb", ID: "b"}, {Project: "p-", ID: "b"}}
	for _, a := range refs {
		for _, b := range refs {
			inside := between(messageKey(b, schemas.Position{Sequence: 1}), stateKey(a), sessionKey(a, kindEnd))
			if inside != (a == b) {
				t.Errorf("a message of %s lies in the range of %s: %v", b, a, inside)
			}
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a", "b"},
		{"a\xff", "b"},
		{"a\x00", "a\x01"},
		{"\xff\xff", ""},
	} {
		if got := prefixEnd([]byte(test.in)); string(got) != test.want {
			t.Errorf("prefixEnd(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func between(k, lower, upper []byte) bool {
	return bytes.Compare(k, lower) >= 0 && bytes.Compare(k, upper) < 0
}
