// Package safetext makes the bytes a tool writes safe to store, to show and to send to a model:
// valid UTF-8 without control characters or terminal escape sequences.
//
// The rules, in full:
//
//   - Escape sequences are removed: CSI (colours, cursor), OSC, DCS, SOS, PM and APC strings,
//     character-set and other two- or three-byte sequences, and an ESC that begins none. A string
//     sequence ends at its terminator (BEL, ESC \, CAN, SUB) or else with its line, so that one
//     stray ESC in binary output can't swallow everything after it.
//   - "\r\n" becomes "\n", and so does a lone "\r": a progress line that redraws itself becomes
//     one line for each state.
//   - Other control characters (C0 except "\n" and "\t", DEL, C1) are removed.
//   - A run of bytes that are no UTF-8 becomes one U+FFFD.
//
// The text that comes out depends on the bytes alone, never on how they were cut into pieces.
package safetext

import "unicode/utf8"

// The bytes that have a meaning here.
const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
)

// state is where in an escape sequence the input stands.
type state uint8

const (
	ground       state = iota // in text
	escape                    // after ESC
	intermediate              // in a sequence of several bytes, as character sets have
	csi                       // after ESC [
	stringBody                // in an OSC, DCS, SOS, PM or APC string
	stringEscape              // after an ESC in such a string
)

// Cleaner makes a stream of bytes safe. The zero value is ready; it belongs to one stream and is
// not safe for concurrent use.
type Cleaner struct {
	state state
	// held begins a rune whose other bytes have not come yet.
	held [utf8.UTFMax]byte
	n    int
	// afterCR: a carriage return was turned into a newline, so a newline right after it is not
	// another one.
	afterCR bool
	// replaced: the last thing written stands for invalid bytes, and so for those that follow.
	replaced bool
}

// Append appends the safe text of the next bytes to dst. A rune cut short at the end of p is held
// back until the next call.
func (c *Cleaner) Append(dst, p []byte) []byte {
	for len(p) > 0 {
		switch {
		case c.state != ground:
			p = c.skip(p)
		case c.n > 0:
			dst, p = c.resume(dst, p)
		case c.afterCR && p[0] == '\n':
			c.afterCR = false
			p = p[1:]
		default:
			if n := plain(p); n > 0 {
				dst, p = c.put(dst, p[:n]), p[n:]
				continue
			}
			dst, p = c.special(dst, p)
		}
	}
	return dst
}

// Finish appends what the end of the stream leaves of a rune cut short. An unfinished escape
// sequence leaves nothing. The Cleaner is ready for another stream.
func (c *Cleaner) Finish(dst []byte) []byte {
	if c.n > 0 {
		dst = c.replace(dst)
	}
	*c = Cleaner{}
	return dst
}

// put appends text that is safe as it is.
func (c *Cleaner) put(dst, text []byte) []byte {
	c.afterCR, c.replaced = false, false
	return append(dst, text...)
}

// replace appends U+FFFD, once for a run of invalid bytes.
func (c *Cleaner) replace(dst []byte) []byte {
	if c.replaced {
		return dst
	}
	c.afterCR, c.replaced = false, true
	return append(dst, "\uFFFD"...)
}

// plain is the length of the safe text that p begins with.
func plain(p []byte) int {
	for i := 0; i < len(p); {
		switch b := p[i]; {
		case ' ' <= b && b < del, b == '\n', b == '\t':
			i++
		case b < utf8.RuneSelf:
			return i
		default:
			r, size := utf8.DecodeRune(p[i:])
			if size == 1 || isC1(r) {
				return i
			}
			i += size
		}
	}
	return len(p)
}

// isC1 tells the control characters above ASCII, which some terminals obey like escape sequences.
func isC1(r rune) bool { return 0x80 <= r && r <= 0x9f }

// special takes one character off p that is not plain text.
func (c *Cleaner) special(dst, p []byte) (rest, remaining []byte) {
	switch b := p[0]; {
	case b == '\r':
		dst = c.put(dst, []byte{'\n'})
		c.afterCR = true
		return dst, p[1:]
	case b == esc:
		c.state = escape
		return dst, p[1:]
	case b < utf8.RuneSelf: // another control character
		return dst, p[1:]
	case !utf8.FullRune(p):
		c.n = copy(c.held[:], p)
		return dst, nil
	}
	r, size := utf8.DecodeRune(p)
	if r == utf8.RuneError && size == 1 {
		return c.replace(dst), p[1:]
	}
	return dst, p[size:] // C1
}

// resume adds one byte to the rune that was cut short.
func (c *Cleaner) resume(dst, p []byte) (rest, remaining []byte) {
	c.held[c.n] = p[0]
	c.n++
	whole := c.held[:c.n]
	if !utf8.FullRune(whole) {
		return dst, p[1:]
	}
	c.n = 0
	r, size := utf8.DecodeRune(whole)
	switch {
	case r == utf8.RuneError && size == 1:
		// Its first byte begins no rune after all; those after it speak for themselves.
		again := c.held
		return c.Append(c.replace(dst), again[1:len(whole)]), p[1:]
	case isC1(r):
		return dst, p[1:]
	}
	return c.put(dst, whole), p[1:]
}

// skip takes the next byte of an escape sequence off p, or ends the sequence before a byte that
// can't belong to it.
func (c *Cleaner) skip(p []byte) []byte {
	b := p[0]
	next, taken := ground, true
	switch c.state {
	case stringBody:
		next, taken = afterStringByte(b)
	case stringEscape:
		if b != '\\' {
			next, taken = escape, false
		}
	default:
		next, taken = c.state.after(b)
	}
	c.state = next
	if !taken {
		return p
	}
	return p[1:]
}

// after is the state behind byte b of a sequence that is no string; taken is false when b is not
// part of it.
func (s state) after(b byte) (next state, taken bool) {
	switch {
	case b == esc:
		return escape, true
	case b < ' ' || b >= del:
		return ground, false
	case s == csi:
		if b < '@' {
			return csi, true
		}
		return ground, true
	case b < '0':
		return intermediate, true
	case s == escape && b == '[':
		return csi, true
	case s == escape && (b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_'):
		return stringBody, true
	}
	return ground, true
}

func afterStringByte(b byte) (next state, taken bool) {
	switch b {
	case bel, can, sub:
		return ground, true
	case '\n', '\r':
		return ground, false
	case esc:
		return stringEscape, true
	}
	return stringBody, true
}

// String is the safe text of a whole string.
func String(s string) string {
	var c Cleaner
	return string(c.Finish(c.Append(make([]byte, 0, len(s)), []byte(s))))
}

// Cut is the longest beginning of valid UTF-8 text that has at most limit bytes and ends at a
// rune boundary.
func Cut(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
