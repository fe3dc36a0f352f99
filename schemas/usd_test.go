package schemas_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
)

func TestParseUSD(t *testing.T) {
	for _, c := range []struct {
		why, in string
		want    schemas.USD
		refused string // part of the message; empty: fine
	}{
		{"nothing", "0", 0, ""},
		{"whole dollars", "3", 3 * schemas.Dollar, ""},
		{"a quarter", "0.25", schemas.Dollar / 4, ""},
		{"the smallest", "0.000000001", 1, ""},
		{"zeros behind say nothing", "1.50000000000000", schemas.Dollar * 3 / 2, ""},
		{"a debt, for others to refuse", "-0.5", -schemas.Dollar / 2, ""},
		{"the most", "1000000000", schemas.MaxUSD, ""},
		{"what binary fractions add up to", "0.30000000000000004", 0, "more than 9 decimals"},
		{"finer than anything costs", "0.0000000001", 0, "more than 9 decimals"},
		{"more than there is", "1000000000.000000001", 0, "over a billion"},
		{"more than fits", "99999999999999999999", 0, "over a billion"},
		{"an exponent", "1e-3", 0, "plain decimal"},
		{"no digit before the point", ".5", 0, "plain decimal"},
		{"no digit behind it", "5.", 0, "plain decimal"},
		{"two points", "1.2.3", 0, "plain decimal"},
		{"a sign too many", "--1", 0, "plain decimal"},
		{"a plus", "+1", 0, "plain decimal"},
		{"a currency", "$1", 0, "plain decimal"},
		{"in JSON, a text", `"1"`, 0, "plain decimal"},
		{"in JSON, null", "null", 0, "plain decimal"},
		{"empty", "", 0, "plain decimal"},
	} {
		got, err := schemas.ParseUSD(c.in)
		var e *schemas.Error
		switch {
		case c.refused == "" && (err != nil || got != c.want):
			t.Errorf("%s: %d, %v", c.why, got, err)
		case c.refused != "" && (!errors.As(err, &e) || e.Code != schemas.CodeInvalid || !strings.Contains(e.Message, c.refused)):
			t.Errorf("%s: %d, %v", c.why, got, err)
		}
	}
}

func TestUSDString(t *testing.T) {
	for in, want := range map[schemas.USD]string{
		0: "0", 1: "0.000000001", -1: "-0.000000001", schemas.Dollar: "1", schemas.Dollar + 500: "1.0000005",
		-schemas.Dollar * 12: "-12", math.MinInt64: "-9223372036.854775808",
	} {
		if got := in.String(); got != want {
			t.Errorf("%d: %s, want %s", int64(in), got, want)
		}
	}
}

// What is written is read again, in text as in JSON, and the nearest number has the same digits.
func TestUSDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := schemas.USD(rapid.Int64Range(-int64(schemas.MaxUSD), int64(schemas.MaxUSD)).Draw(t, "amount"))
		if again, err := schemas.ParseUSD(u.String()); err != nil || again != u {
			t.Fatalf("%s: %v, %v", u, again, err)
		}
		b, err := schemas.EncodeJSON(u)
		if err != nil || string(b) != u.String() {
			t.Fatalf("%s, %v", b, err)
		}
		var again schemas.USD
		if err := schemas.DecodeJSON(b, &again); err != nil || again != u {
			t.Fatalf("%s: %v, %v", b, again, err)
		}
	})
}

func FuzzParseUSD(f *testing.F) {
	for _, s := range []string{"0", "0.25", "-1.5", "1e9", "00.10", "1000000000.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := schemas.ParseUSD(s)
		if err != nil {
			return
		}
		if again, err := schemas.ParseUSD(u.String()); err != nil || again != u {
			t.Errorf("%q: %s: %v", s, u, err)
		}
	})
}
