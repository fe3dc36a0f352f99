package files

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func tree(t *testing.T) *bench {
	b := newBench(t)
	b.put("main.go", "package main\n\nfunc main() {}\n")
	b.put("a/one.go", "package a // Main thing\n")
	b.put("a/b/two.go", "package b\r\n")
	b.put("a/b/notes.txt", "main\n")
	b.put(".git/config", "main\n")
	b.link("a", "link")
	return b
}

func TestList(t *testing.T) {
	b := tree(t)
	b.ok(ListName, listArguments{}, ".git/\na/\nlink@\nmain.go\n")
	b.ok(ListName, listArguments{Recursive: true}, ".git/\na/\na/b/\na/b/notes.txt\na/b/two.go\na/one.go\nlink@\nmain.go\n")
	b.ok(ListName, listArguments{Recursive: true, Glob: "*.go"}, "a/b/two.go\na/one.go\nmain.go\n")
	b.ok(ListName, listArguments{Recursive: true, Glob: "a/**/*.go"}, "a/b/two.go\na/one.go\n")
	b.ok(ListName, listArguments{Path: "a/b"}, "a/b/notes.txt\na/b/two.go\n")
	b.ok(ListName, listArguments{Path: "link"}, "link/b/\nlink/one.go\n")
	b.ok(ListName, listArguments{Path: "main.go"}, "main.go\n")
	b.ok(ListName, listArguments{Glob: "*.c"}, "[nothing there]")
	b.fails(ListName, listArguments{Path: "gone"}, "there is no gone in the workspace")
	b.fails(ListName, listArguments{Glob: "[a"}, `glob "[a" is no pattern`)
}

func TestSearch(t *testing.T) {
	b := tree(t)
	b.ok(SearchName, searchArguments{Pattern: "main"}, "a/b/notes.txt:1:main\nmain.go:1:package main\nmain.go:3:func main() {}\n")
	b.ok(SearchName, searchArguments{Pattern: "MAIN", IgnoreCase: true, Glob: "*.go"},
		"a/one.go:1:package a // Main thing\nmain.go:1:package main\nmain.go:3:func main() {}\n")
	b.ok(SearchName, searchArguments{Pattern: `^package b$`, Path: "a"}, "a/b/two.go:1:package b\n")
	b.ok(SearchName, searchArguments{Pattern: `func`, Path: "main.go"}, "main.go:3:func main() {}\n")
	b.ok(SearchName, searchArguments{Pattern: `nothing`, Path: "a"}, "[no match in 3 files]")
	b.fails(SearchName, searchArguments{Pattern: `a(`}, "pattern: missing closing )")
	b.fails(SearchName, searchArguments{Pattern: `a`, Path: "gone"}, "there is no gone in the workspace")
}

func TestListAndSearchAreBounded(t *testing.T) {
	b := newBench(t)
	for i := range maxListed + 1 {
		b.put(fmt.Sprintf("f%04d", i), "hit\n"+strings.Repeat("é", maxLine)+" hit\n")
	}
	got := b.call(ListName, listArguments{}).Output
	if lines := strings.Split(got, "\n"); len(lines) != maxListed+1 || lines[maxListed-1] != "f0999" || !strings.Contains(lines[maxListed], "there is more") {
		t.Errorf("%d lines, the last %s", len(lines), lines[len(lines)-1])
	}
	got = b.call(SearchName, searchArguments{Pattern: "hit"}).Output
	lines := strings.Split(got, "\n")
	if !strings.Contains(got, "output truncated") && (len(lines) != maxMatches+1 || !strings.Contains(lines[maxMatches], "there is more")) {
		t.Errorf("%d lines, the last %s", len(lines), lines[len(lines)-1])
	}
	if want := "f0000:2:" + strings.Repeat("é", maxLine/2) + "..."; lines[1] != want {
		t.Errorf("a long line is shown as %s", lines[1])
	}
}

func TestGlobs(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"", "a/b", true},
		{"*.go", "a/b/c.go", true},
		{"*.go", "a/b.go/c", false},
		{"a/*.go", "a/b.go", true},
		{"a/*.go", "a/b/c.go", false},
		{"a/**/*.go", "a/b.go", true},
		{"a/**/*.go", "a/b/c/d.go", true},
		{"**/b", "b", true},
		{"**/b", "a/x/b", true},
		{"**", "a/b", true},
		{"a/**", "a/b/c", true},
		{"a/**", "b/a/c", false},
		{"a/**/b/**/c", "a/x/b/y/z/c", true},
		{"a/**/b/**/c", "a/x/y/z/c", false},
	} {
		if got := matches(tt.glob, tt.name); got != tt.want {
			t.Errorf("%q names %q: %v", tt.glob, tt.name, got)
		}
	}
}

// A glob without ** is path.Match, and ** before a glob adds the paths below.
func TestGlobsAgreeWithPathMatch(t *testing.T) {
	part := rapid.StringMatching(`[ab*?]{1,3}`)
	rapid.Check(t, func(t *rapid.T) {
		glob := strings.Join(rapid.SliceOfN(part, 2, 4).Draw(t, "glob"), "/")
		glob = strings.ReplaceAll(strings.ReplaceAll(glob, "**", "*"), "**", "*")
		name := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[ab]{1,3}`), 1, 5).Draw(t, "name"), "/")
		want, err := path.Match(glob, name)
		if err != nil || strings.Contains(glob, "**") {
			t.Skip()
		}
		if got := matches(glob, name); got != want {
			t.Fatalf("%q names %q: %v", glob, name, got)
		}
		if want && !matches("**/"+glob, "x/y/"+name) {
			t.Fatalf("**/%s does not name x/y/%s", glob, name)
		}
	})
}
