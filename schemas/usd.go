package schemas

import (
	"strconv"
	"strings"
)

// USD is an amount of money: a whole number of billionths of a US dollar, so that sums are exact. In
// JSON, on command lines and for people it is a plain decimal number of dollars, such as 0.25.
type USD int64

const (
	// Dollar is one US dollar.
	Dollar USD = 1_000_000_000
	// MaxUSD bounds what can be written: a billion dollars.
	MaxUSD = Dollar * 1_000_000_000

	usdDecimals = 9
)

// ParseUSD reads a plain decimal number of dollars with at most nine decimals: no exponent, no
// currency. The error is an *[Error].
func ParseUSD(s string) (USD, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if !number(whole) || point && !number(fraction) {
		return 0, Errorf(CodeInvalid, "%.40q is not a plain decimal number of US dollars such as 0.25", s)
	}
	if fraction = strings.TrimRight(fraction, "0"); len(fraction) > usdDecimals {
		return 0, Errorf(CodeInvalid, "%.40q has more than %d decimals: that is less than a billionth of a dollar", s, usdDecimals)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", usdDecimals-len(fraction)), 10, 64)
	if err != nil || USD(n) > MaxUSD {
		return 0, Errorf(CodeInvalid, "%.40q is over a billion US dollars", s)
	}
	if negative {
		n = -n
	}
	return USD(n), nil
}

// number reports whether s is one or more digits.
func number(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// String is the amount as [ParseUSD] reads it, without needless zeros.
func (u USD) String() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", -n
	}
	digits := strconv.FormatUint(n, 10)
	if missing := usdDecimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, fraction := digits[:len(digits)-usdDecimals], strings.TrimRight(digits[len(digits)-usdDecimals:], "0")
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction
}

// Float is the nearest number of dollars, for where a number of any unit stands. Never add these up.
func (u USD) Float() float64 { return float64(u) / float64(Dollar) }

// MarshalJSON writes the decimal number.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalJSON reads the digits as they stand there, so that nothing is rounded.
func (u *USD) UnmarshalJSON(b []byte) (err error) {
	*u, err = ParseUSD(string(b))
	return err
}
