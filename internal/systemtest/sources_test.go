package systemtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The go command repeats the result of tests without running them while nothing has changed that they read. What the
// commands are built of is read by the compiler, which it does not see; so it is looked at here.
func TestResultIsOfTheseSources(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		seen[filepath.ToSlash(path)] = true
		_, err = os.Stat(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../../cmd/toolrunner/main.go", "../../engine/runner.go", "../../gateway/web/static/index.html", "../../go.mod"} {
		if !seen[path] {
			t.Errorf("%s was not seen", path)
		}
	}
}
