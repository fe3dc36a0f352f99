package safetext

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestString(t *testing.T) {
	tests := []struct{ why, in, want string }{
		{"plain text is kept", "a\tb\nc é 🌍 \u200d", "a\tb\nc é 🌍 \u200d"},
		{"colours go", "\x1b[1;31mred\x1b[0m", "red"},
		{"private CSI with intermediates", "\x1b[?25l\x1b[>4;1m\x1b[1 qx", "x"},
		{"OSC title ended by BEL", "\x1b]0;title\x07x", "x"},
		{"OSC link ended by ST", "\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\.", "link."},
		{"DCS, APC, PM and SOS", "\x1bPq#0\x1b\\a\x1b_Gx\x1b\\b\x1b^p\x1b\\c\x1bXs\x1b\\d", "abcd"},
		{"an unended OSC costs its line only", "\x1b]0;oops\nnext", "\nnext"},
		{"CAN ends a string", "\x1b]0;a\x18b", "b"},
		{"ESC begins a new sequence inside a string", "\x1b]0;a\x1b[1mb", "b"},
		{"character sets", "\x1b(Ba\x1b)0b\x1b%Gc", "abc"},
		{"two-byte sequences", "\x1b7a\x1b8b\x1bcc\x1b=d", "abcd"},
		{"ESC before what it can't begin", "\x1b\x01a\x1b\né\x1bé", "a\néé"},
		{"ESC twice", "\x1b\x1b[1ma", "a"},
		{"a CSI broken by a newline", "\x1b[3\n1m", "\n1m"},
		{"a CSI broken by a rune", "\x1b[3éx", "éx"},
		{"ESC at the end", "a\x1b", "a"},
		{"unfinished CSI at the end", "a\x1b[31", "a"},
		{"CR LF is a newline", "a\r\nb", "a\nb"},
		{"a lone CR is a newline", "10%\r20%\r", "10%\n20%\n"},
		{"CR CR LF is two", "a\r\r\nb", "a\n\nb"},
		{"LF LF stays two", "a\n\nb", "a\n\nb"},
		{"controls go", "a\x00b\x07c\x08d\x7fe\x0b\x0cf", "abcdef"},
		{"C1 controls go", "a\u009b31mb\u0085c", "a31mbc"},
		{"a run of invalid bytes is one mark", "a\xff\xfe\x80b\xc3(", "a\uFFFDb\uFFFD("},
		{"invalid bytes around a NUL", "\xff\xfe\x00\x1b", "\uFFFD"},
		{"a rune cut off at the end", "a\xf0\x9f\x8c", "a\uFFFD"},
		{"a rune broken by another", "\xe2\x82é", "\uFFFDé"},
		{"a rune broken by an escape sequence", "\xe2\x82\x1b[1mx", "\uFFFDx"},
		{"surrogates are no UTF-8", "\xed\xa0\xbdx", "\uFFFDx"},
		{"a real U+FFFD is text", "\uFFFD\uFFFD", "\uFFFD\uFFFD"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			if got := String(tt.in); got != tt.want {
				t.Errorf("String(%q) = %q, want %q", tt.in, got, tt.want)
			}
			for i := range len(tt.in) + 1 { // every way of cutting in two
				if got := inPieces([]byte(tt.in), []byte{byte(i)}); got != tt.want {
					t.Errorf("cut at %d: %q, want %q", i, got, tt.want)
				}
			}
		})
	}
}

// inPieces makes b safe in pieces of the given sizes, one after the other, and a last one.
func inPieces(b, sizes []byte) string {
	var c Cleaner
	var out []byte
	for _, size := range sizes {
		n := min(int(size), len(b))
		out = c.Append(out, b[:n])
		b = b[n:]
	}
	return string(c.Finish(c.Append(out, b)))
}

// checkSafe reports what is wrong with a text that should be safe.
func checkSafe(s string) string {
	if !utf8.ValidString(s) {
		return "not valid UTF-8"
	}
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' || r == del || isC1(r) {
			return "a control character is left"
		}
	}
	return ""
}

func FuzzSafeText(f *testing.F) {
	f.Add([]byte("a\x1b[31m\xf0\x9f\x8c\x8d\r\n\x00"), []byte{1, 2, 3, 1})
	f.Add([]byte("\x1b]0;t\x1b\\x\xe2\x82\xff\xfe"), []byte{4, 1, 1, 0, 1})
	f.Add([]byte("\xff\xfe\x00\x1b"), []byte{2})
	f.Fuzz(func(t *testing.T, b, sizes []byte) {
		whole := String(string(b))
		if wrong := checkSafe(whole); wrong != "" {
			t.Errorf("%s: %q from %q", wrong, whole, b)
		}
		if got := inPieces(b, sizes); got != whole {
			t.Errorf("in pieces of %v: %q, at once: %q", sizes, got, whole)
		}
		if again := String(whole); again != whole {
			t.Errorf("safe text changed: %q to %q", whole, again)
		}
	})
}

// hostile draws bytes in which what the parser knows is frequent.
func hostile(t *rapid.T) []byte {
	atom := rapid.SampledFrom([]string{
		"\x1b", "[", "]", "P", "\\", "(", "1;2", "m", "\x07", "\x18", "\r", "\n", "\x00", "a", " ",
		"é", "🌍", "\xf0", "\x9f", "\xe2\x82", "\xff", "\u009b", "\x7f", "plain text",
	})
	return []byte(strings.Join(rapid.SliceOfN(atom, 0, 60).Draw(t, "atoms"), ""))
}

func TestChunkingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := hostile(t)
		sizes := rapid.SliceOf(rapid.ByteRange(0, 7)).Draw(t, "sizes")
		whole := String(string(b))
		if got := inPieces(b, sizes); got != whole {
			t.Fatalf("in pieces %q, at once %q", got, whole)
		}
		if wrong := checkSafe(whole); wrong != "" {
			t.Fatalf("%s: %q", wrong, whole)
		}
	})
}

func TestCut(t *testing.T) {
	for limit := -1; limit < 9; limit++ {
		got := Cut([]byte("aé🌍b"), limit)
		if !utf8.Valid(got) || len(got) > max(limit, 0) {
			t.Errorf("Cut(%d) = %q", limit, got)
		}
	}
	if got := Cut([]byte("aé🌍b"), 8); string(got) != "aé🌍b" {
		t.Errorf("text that fits was cut to %q", got)
	}
}

func BenchmarkCleaner(b *testing.B) {
	inputs := []struct {
		name string
		text []byte
	}{
		{"ascii", bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog\n"), 1500)},
		{"coloured", bytes.Repeat([]byte("\x1b[32mok\x1b[0m   package/name  0.12s\r\n"), 2000)},
		{"unicode", bytes.Repeat([]byte("größer als 漢字 und 🌍\n"), 2000)},
		{"binary", bytes.Repeat([]byte{0, 0xff, 0x1b, 0x80, 'a', 0xe2, 0x82, 7, '\r', 200}, 6000)},
	}
	for _, in := range inputs {
		b.Run(in.name, func(b *testing.B) {
			b.SetBytes(int64(len(in.text)))
			b.ReportAllocs()
			var c Cleaner
			dst := make([]byte, 0, 4*len(in.text))
			for b.Loop() {
				dst = c.Append(dst[:0], in.text)
			}
		})
	}
}
