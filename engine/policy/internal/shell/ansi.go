package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ansiEscapes are the escapes of one letter in $'...'.
var ansiEscapes = map[byte]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11,
	'\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// ansiQuoted is the text of $'...'; false if something behind it depends on the shell.
func ansiQuoted(text string) (string, bool) {
	var out []byte
	for i := 0; i < len(text); {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			i++
			continue
		}
		c := text[i+1]
		rest := text[i+2:]
		n := 0 // of rest
		switch {
		case ansiEscapes[c] != 0:
			out = append(out, ansiEscapes[c])
		case c == 'x':
			n = digits(rest, 16, 2)
		case c == 'u':
			n = digits(rest, 16, 4)
		case c == 'U':
			n = digits(rest, 16, 8)
		case c >= '0' && c <= '7':
			n = digits(text[i+1:], 8, 3) - 1
			code, _ := strconv.ParseUint(text[i+1:i+2+n], 8, 16)
			out = append(out, byte(code))
		case c == 'c' && rest != "":
			n = 1
			out = append(out, rest[0]&0x1f)
		default:
			out = append(out, '\\', c)
		}
		if strings.IndexByte("xuU", c) >= 0 {
			if n == 0 {
				return string(out), false
			}
			code, _ := strconv.ParseUint(rest[:n], 16, 32)
			if c == 'x' {
				out = append(out, byte(code))
			} else {
				out = utf8.AppendRune(out, rune(code))
			}
		}
		if len(out) > 0 && out[len(out)-1] == 0 {
			return string(out[:len(out)-1]), true // the shell's strings end here
		}
		i += 2 + n
	}
	return string(out), true
}

// digits counts the digits of a base at the beginning, up to a number of them.
func digits(text string, base, most int) int {
	n := 0
	for n < len(text) && n < most {
		if _, err := strconv.ParseUint(text[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	return n
}
