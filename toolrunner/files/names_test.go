//go:build unix

package files

import (
	"os"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
)

// Names that would not stay on their line, or could be taken for what they are not, are in quotes; every tool
// takes them so.
func TestOddNames(t *testing.T) {
	b := newBench(t)
	b.put("a\nb.go:1:x", "hit\rsecret.go:2:no\n")
	b.put("dir\t/\x1b[31mred", "hit\n")
	b.put(`"quoted"`, "hit\n")
	b.put("plain, with 'this' and é", "hit\n")
	b.put("\xff", "hit\n")
	b.put("link@", "hit\n")
	b.put("[there is more]", "hit\n")
	b.ok(ListName, listArguments{Recursive: true}, `"\"quoted\""
"[there is more]"
"a\nb.go:1:x"
"dir\t"/
"dir\t/\x1b[31mred"
"link@"
plain, with 'this' and é
"\xff"
`)
	b.ok(SearchName, searchArguments{Pattern: "hit", Path: `"a\nb.go:1:x"`}, `"a\nb.go:1:x":1:hit\rsecret.go:2:no`+"\n")
	b.ok(SearchName, searchArguments{Pattern: "hit", Path: `"dir\t"`}, `"dir\t/\x1b[31mred":1:hit`+"\n")
	b.ok(ReadName, readArguments{Path: `"dir\t/\x1b[31mred"`}, "hit\n")
	b.ok(ListName, listArguments{Path: `"dir\t"/`}, `"dir\t/\x1b[31mred"`+"\n")
	b.put("dir\t/plain", "hit\n")
	b.ok(ReadName, readArguments{Path: `"dir\t"/plain`}, "hit\n")
	b.ok(ReadName, readArguments{Path: `"plain, with 'this' and é"`}, "hit\n")
	b.ok(EditName, editArguments{Path: `"\xff"`, OldText: "hit", NewText: "miss"}, `replaced 1 in "\xff", at line 1`)
	b.ok(WriteName, writeArguments{Path: `"new\nline"`, Content: "x"}, `created "new\nline" (1 bytes)`)
	if got := b.get("new\nline"); got != "x" {
		t.Errorf("the file holds %q", got)
	}
	b.fails(ReadName, readArguments{Path: `"quoted`}, `"\"quoted" begins with a quote, but is no path in quotes`)
	b.fails(ReadName, readArguments{Path: `"dir\t"plain`}, "is no path in quotes")
	b.fails(ReadName, readArguments{Path: `"dir\t"/../../secret`}, "is outside the workspace")
	b.fails(ReadName, readArguments{Path: `"../secret"`}, "../secret is outside the workspace")
	b.fails(ReadName, readArguments{Path: `"a\x00b"`}, "NUL")
	b.fails(ReadName, readArguments{Path: "a\nb"}, `there is no "a\nb" in the workspace`)
	b.fails(ReadName, readArguments{Path: `"quoted"`}, "there is no quoted in the workspace")
}

// However a file is called, it has one line in the list, and what stands there reads it.
func TestAnyNameIsListedAndRead(t *testing.T) {
	name := rapid.OneOf(rapid.StringN(1, 12, 60), rapid.StringMatching(`[\x00-\x20"'\\:@\[a]{1,6}`), rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 6), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(rt *rapid.T) {
		called := name.Filter(func(s string) bool {
			return !strings.ContainsAny(s, "/\x00") && path.Clean(s) == s && s != "." && s != ".."
		}).Draw(rt, "name")
		b := newBench(t)
		if err := os.WriteFile(b.path(called), []byte("hit"), 0o666); err != nil {
			rt.Fatal(err) // a file may have any of these names
		}
		line, more, whole := strings.Cut(b.call(ListName, listArguments{}).Output, "\n")
		if !whole || more != "" {
			rt.Fatalf("%q is listed as %q, and then %q", called, line, more)
		}
		if got := b.call(ReadName, readArguments{Path: line}); got.StopReason != schemas.StopCompleted || got.Output != "hit" {
			rt.Fatalf("%q is listed as %s, which reads %+v", called, line, got)
		}
	})
}
