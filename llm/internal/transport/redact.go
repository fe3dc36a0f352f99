package transport

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"braid/schemas"
)

// redacted stands for what must not be seen.
const redacted = "[redacted]"

// minSecret is how long a secret must be to be looked for: replacing a word of two letters would
// hide nothing and tell it to everyone.
const minSecret = 6

// maxMessage bounds what a provider says in an error, in bytes.
const maxMessage = 1000

// lookalikes matches what is likely a key, though not one of ours: bearer tokens, and the forms
// that providers give their keys.
var lookalikes = regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{8,}|\b(sk|pk|rk|gsk|xai|key|AIza|ghp|gho|ghu)[-_][A-Za-z0-9_-]{12,}|\bAIza[A-Za-z0-9_-]{20,}`)

// redactor takes secrets out of texts. The zero value knows none.
type redactor struct{ known *strings.Replacer }

func newRedactor(secrets []string) redactor {
	var pairs []string
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		// The longest form first: a replacer takes the first that fits.
		for _, form := range []string{url.QueryEscape(s), url.PathEscape(s), s} {
			pairs = append(pairs, form, redacted)
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

// text is s without secrets, control characters and all beyond maxMessage.
func (r redactor) text(s string) string {
	s = schemas.ValidText(s)
	if r.known != nil {
		s = r.known.Replace(s)
	}
	s = lookalikes.ReplaceAllString(s, redacted)
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f }), " ")
	if len(s) > maxMessage {
		end := maxMessage
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "..."
	}
	return s
}

// hostOf is the scheme and host of a URL; empty if it has none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
