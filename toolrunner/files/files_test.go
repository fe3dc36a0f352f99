package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"braid/schemas"
)

func TestToolsSayWhatTheyMayDo(t *testing.T) {
	want := map[string]string{
		ReadName: "r safe", WriteName: "rw never", EditName: "rw never", ListName: "r safe", SearchName: "r safe",
	}
	for _, tool := range Tools(Options{}) {
		d := tool.Definition.WithDefaults()
		if got := fmt.Sprintf("%s %s", d.Permission, d.Retry); got != want[d.Name] {
			t.Errorf("%s is %s, want %s", d.Name, got, want[d.Name])
		}
		delete(want, d.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestRead(t *testing.T) {
	b := newBench(t)
	b.put("three", "one\ntwo\nthree\n")
	b.put("open", "one\ntwo")
	b.put("empty", "")
	b.put("dos", "one\r\ntwo\r\n")
	b.put("mixed", "one\r\ntwo\nthree\r\n")
	b.put("bell", "one\a\n")
	b.put("sub/deep", "deep\n")
	tests := []struct {
		why  string
		in   readArguments
		want string
	}{
		{"all", readArguments{Path: "three"}, "one\ntwo\nthree\n"},
		{"from a line", readArguments{Path: "three", StartLine: 2}, "two\nthree\n[lines 2 to 3, the last]"},
		{"some lines", readArguments{Path: "three", StartLine: 1, Lines: 2}, "one\ntwo\n[lines 1 to 2; the file goes on at start_line 3]"},
		{"the last line has no end", readArguments{Path: "open", StartLine: 2}, "two\n[lines 2 to 2, the last]"},
		{"empty", readArguments{Path: "empty"}, "[the file is empty]"},
		{"CRLF is told", readArguments{Path: "dos"}, "one\ntwo\n[lines end in \\r\\n]"},
		{"and where, if it is not everywhere", readArguments{Path: "mixed", StartLine: 2}, "two\nthree\n[lines 2 to 3, the last]\n[lines that end in \\r\\n, others in \\n: 3]"},
		{"so is what can't be shown", readArguments{Path: "bell"}, "one\n[control characters are not shown]"},
		{"below", readArguments{Path: "sub/deep"}, "deep\n"},
		{"up and down again", readArguments{Path: "sub/../sub/./deep"}, "deep\n"},
		{"absolute, but inside", readArguments{Path: b.path("sub/deep")}, "deep\n"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			b.t = t
			b.ok(ReadName, tt.in, tt.want)
		})
	}
	b.t = t
	b.fails(ReadName, readArguments{Path: "three", StartLine: 5}, "three has only 3 lines")
	b.fails(ReadName, readArguments{Path: "three", StartLine: 4}, "three has only 3 lines")
	b.fails(ReadName, readArguments{Path: "three", StartLine: -1}, "can't be negative")
	b.fails(ReadName, readArguments{Path: "four"}, "there is no four in the workspace")
	b.fails(ReadName, readArguments{Path: "sub"}, "sub is a directory")
}

func TestReadIsBounded(t *testing.T) {
	b := newBench(t)
	line := strings.Repeat("x", 99) + "\n"
	b.put("long", strings.Repeat(line, 1000))
	got := b.call(ReadName, readArguments{Path: "long"})
	text, note, _ := strings.Cut(got.Output, "[")
	if text != strings.Repeat(line, 307) || note != "lines 1 to 307; the file goes on at start_line 308]" {
		t.Errorf("%d bytes, then %s", len(text), note)
	}
	// Reading on from there, as the notes say, gives all of it.
	all, next := "", 1
	for next > 0 {
		got := b.call(ReadName, readArguments{Path: "long", StartLine: next})
		text, note, _ := strings.Cut(got.Output, "[")
		all += text
		if _, err := fmt.Sscanf(note[strings.LastIndex(note, " ")+1:], "%d]", &next); err != nil {
			next = 0
		}
	}
	if all != strings.Repeat(line, 1000) {
		t.Errorf("the pieces have %d bytes", len(all))
	}

	b.put("wide", "short\n"+strings.Repeat("é", 40_000)+"\nlast\n")
	b.ok(ReadName, readArguments{Path: "wide"}, "short\n[lines 1 to 1; the file goes on at start_line 2]")
	got = b.call(ReadName, readArguments{Path: "wide", StartLine: 2})
	want := strings.Repeat("é", maxRead/2) + "\n[line 2 goes on for 49281 bytes that can't be shown]\n[the file goes on at start_line 3]"
	if got.Output != want {
		t.Errorf("a wide line is shown as %d bytes, ending in %s", len(got.Output), got.Output[max(len(got.Output)-120, 0):])
	}
}

func TestBinaryFilesAreNamedAsSuch(t *testing.T) {
	b := newBench(t)
	for name, text := range map[string]string{"nul": "a\x00b\n", "latin": "caf\xe9\n"} {
		b.put(name, text)
		b.fails(ReadName, readArguments{Path: name}, name+" is binary, or not UTF-8")
		b.fails(EditName, editArguments{Path: name, OldText: "a", NewText: "b"}, name+" is binary, or not UTF-8")
		if b.get(name) != text {
			t.Errorf("%s was changed", name)
		}
	}
	b.put("plain", "a\n")
	b.ok(SearchName, searchArguments{Pattern: "a"}, "plain:1:a\n[2 files skipped: binary, over 8 MiB, or not readable]")
}

func TestWrite(t *testing.T) {
	b := newBench(t)
	b.ok(WriteName, writeArguments{Path: "new/deep/file", Content: "one\n"}, "created new/deep/file (4 bytes)")
	b.ok(WriteName, writeArguments{Path: "new/deep/file", Content: "two"}, "wrote new/deep/file (3 bytes)")
	if got := b.get("new/deep/file"); got != "two" {
		t.Errorf("it has %q", got)
	}
	b.put("script", "old")
	if err := os.Chmod(b.path("script"), 0o750); err != nil {
		t.Fatal(err)
	}
	b.ok(WriteName, writeArguments{Path: "script", Content: "new\r\n"}, "wrote script (5 bytes)")
	info, err := os.Stat(b.path("script"))
	if err != nil || info.Mode().Perm() != 0o750 || b.get("script") != "new\r\n" {
		t.Errorf("mode %v, %v, text %q", info.Mode(), err, b.get("script"))
	}
	b.link("new/deep/file", "link")
	b.ok(WriteName, writeArguments{Path: "link", Content: "three"}, "wrote link (5 bytes)")
	if to, err := os.Readlink(b.path("link")); err != nil || to != "new/deep/file" || b.get("new/deep/file") != "three" {
		t.Errorf("the link is %q, %v, and its file %q", to, err, b.get("new/deep/file"))
	}
	b.fails(WriteName, writeArguments{Path: "new", Content: "x"}, "new is a directory")
	b.fails(WriteName, writeArguments{Path: "script/x", Content: "x"}, "script")
	b.fails(WriteName, writeArguments{Path: "big", Content: strings.Repeat("x", maxText+1)}, "at most 8388608 can be written")
	b.nothingLeft()
}

// A link's ".." begins where the link really is, not where its name says.
func TestWriteFollowsLinksAsTheSystemDoes(t *testing.T) {
	b := newBench(t)
	b.put("real/deep/x", "")
	b.link("real/deep", "d")
	b.link("../y", "real/deep/up")
	b.ok(WriteName, writeArguments{Path: "d/up", Content: "y"}, "created d/up (1 bytes)")
	if b.get("real/y") != "y" {
		t.Error("it is elsewhere")
	}
	b.ok(EditName, editArguments{Path: "d/up", OldText: "y", NewText: "z"}, "replaced 1 in d/up, at line 1")
	if b.get("real/y") != "z" {
		t.Error("another file was edited")
	}
}

// nothingLeft checks that no temporary file stayed behind.
func (b *bench) nothingLeft() {
	b.t.Helper()
	left, err := filepath.Glob(b.path("*/.braid-*"))
	more, err2 := filepath.Glob(b.path(".braid-*"))
	if err != nil || err2 != nil || len(left)+len(more) > 0 {
		b.t.Errorf("left behind: %v %v %v", left, more, err)
	}
}

func TestEdit(t *testing.T) {
	tests := []struct {
		why, text string
		in        editArguments
		want      string // the text after it
		says      string
	}{
		{"once", "one\ntwo\n", editArguments{OldText: "two", NewText: "2"}, "one\n2\n", "replaced 1 in f, at line 2"},
		{"over lines", "a\nb\nc\n", editArguments{OldText: "a\nb\n", NewText: ""}, "c\n", "at line 1"},
		{"not exactly", "\tone  two\n", editArguments{OldText: "one two", NewText: "x"}, "\tone  two\n", "does not occur in f; it must be given exactly, blanks and line ends included. Line 1 is like its first line"},
		{"not at all", "one\n", editArguments{OldText: "three", NewText: "x"}, "one\n", "does not occur"},
		{"twice", "a\nb\na\n", editArguments{OldText: "a", NewText: "x"}, "a\nb\na\n", "occurs 2 times in f, at lines 1, 3; give more"},
		{"twice, and meant so", "a\nb\na\n", editArguments{OldText: "a", NewText: "x", All: true}, "x\nb\nx\n", "replaced 2 in f, at line 1, 3"},
		{"nothing", "a\n", editArguments{OldText: "", NewText: "x"}, "a\n", "old_text is empty"},
		{"no change", "a\n", editArguments{OldText: "a", NewText: "a"}, "a\n", "are the same"},
		{"CRLF stays", "a\r\nb\r\nc\r\n", editArguments{OldText: "a\nb", NewText: "x\ny\nz"}, "x\r\ny\r\nz\r\nc\r\n", "replaced 1"},
		{"CRLF given as such", "a\r\nb\r\n", editArguments{OldText: "a\r\nb", NewText: "x\r\ny"}, "x\r\ny\r\n", "replaced 1"},
		{"mixed line ends are taken as they are", "a\r\nb\nc", editArguments{OldText: "b\nc", NewText: "x\ny"}, "a\r\nx\ny", "replaced 1"},
		{"mixed line ends do not match others", "a\r\nb\nc", editArguments{OldText: "a\nb", NewText: "x"}, "a\r\nb\nc", "does not occur"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			b := newBench(t)
			b.put("f", tt.text)
			tt.in.Path = "f"
			if got := b.call(EditName, tt.in); !strings.Contains(got.Output, tt.says) || (tt.text == tt.want) != (got.StopReason == schemas.StopFailed) {
				t.Errorf("it says %s: %s", got.StopReason, got.Output)
			}
			if got := b.get("f"); got != tt.want {
				t.Errorf("text %q, want %q", got, tt.want)
			}
			b.nothingLeft()
		})
	}
}
