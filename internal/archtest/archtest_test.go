package archtest

import (
	"os"
	"testing"
)

// allRules is every rule, by the name its problems carry.
var allRules = map[string]func(*Tree) []Problem{
	"layers":            Layers,
	"libraries":         Libraries,
	"calls":             Calls,
	"purity":            Purity,
	"sizes":             Sizes,
	"package-comments":  PackageComments,
	"file-lists":        FileLists,
	"inits":             Inits,
	"goroutines":        Goroutines,
	"package-variables": PackageVariables,
	"leak-checks":       LeakChecks,
	"paths":             Paths,
	"package-map":       PackageMap,
	"dependencies":      Dependencies,
	"protocol":          Protocol,
	"commands":          Commands,
	"links":             Links,
}

// TestRepository runs every rule over this repository.
func TestRepository(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 20 {
		t.Fatalf("found %d Go files: this is not the whole repository", len(tree.Files))
	}
	for name, rule := range allRules {
		t.Run(name, func(t *testing.T) {
			for _, problem := range rule(tree) {
				t.Error(problem)
			}
		})
	}
}
