package archtest

import (
	"fmt"
	"go/ast"
	"slices"
)

// pure packages compute and do nothing else. Recovery is the same computation over the same
// messages, so anything that may differ between two runs is a lost session.
var pure = []string{"engine/internal/session"}

// sequential packages start no goroutine; what they return may be shared.
var sequential = []string{"schemas", "engine/internal/session"}

// impure lists what a pure package must not import, and where the thing comes from instead.
var impure = map[string]string{
	"context":      "cancellation is an event like any other",
	"crypto/rand":  "ids are derived from the owner's fence, which comes in with the state",
	"math/rand":    "ids are derived from the owner's fence, which comes in with the state",
	"math/rand/v2": "ids are derived from the owner's fence, which comes in with the state",
	"net":          "return an effect, package engine carries it out",
	"net/http":     "return an effect, package engine carries it out",
	"os":           "return an effect, package engine carries it out",
	"os/exec":      "return an effect, package engine carries it out",
	"io/fs":        "return an effect, package engine carries it out",
	"log/slog":     "return what there is to say, package engine logs it",
	"runtime":      "nothing here may depend on the process it runs in",
	"sync":         "one goroutine at a time works on a state",
	"sync/atomic":  "one goroutine at a time works on a state",
	"syscall":      "return an effect, package engine carries it out",
	"unique":       "one goroutine at a time works on a state",
	"hash/maphash": "its hashes differ from process to process",

	"github.com/rs/zerolog": "return what there is to say, package engine logs it",
}

// clocks lists what of package time a pure package must not use: time comes in with each event.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local"}

// Purity checks the pure and the sequential packages. Their tests may do as they like.
func Purity(t *Tree) []Problem {
	var found []Problem
	for _, f := range t.Files {
		if f.Test {
			continue
		}
		if slices.Contains(pure, f.Dir) {
			found = append(found, impurities(f)...)
		}
		if slices.Contains(sequential, f.Dir) {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if _, ok := n.(*ast.GoStmt); ok {
					found = append(found, Problem{"purity", f.At(n), f.Dir + " starts a goroutine: it is plain computation; let the caller decide what runs concurrently"})
				}
				return true
			})
		}
	}
	return found
}

func impurities(f *Source) []Problem {
	var found []Problem
	add := func(n ast.Node, format string, args ...any) {
		found = append(found, Problem{"purity", f.At(n), fmt.Sprintf(format, args...)})
	}
	imports := f.Imports()
	for _, spec := range f.AST.Imports {
		target := spec.Path.Value[1 : len(spec.Path.Value)-1]
		if why, bad := impure[target]; bad {
			add(spec, "%s imports %s, but a session recovered from its log must be the session that wrote it: %s", f.Dir, target, why)
		}
		if spec.Name != nil && spec.Name.Name == "." {
			add(spec, "%s imports %s into its own names, which hides what it uses", f.Dir, target)
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if library, name := used(n, imports); library == "time" && slices.Contains(clocks, name) {
				add(n, "%s uses time.%s: time comes in with each event, or two runs over one log would differ", f.Dir, name)
			}
		case *ast.SelectStmt, *ast.ChanType:
			add(n, "%s uses channels: nothing here waits for anything", f.Dir)
		}
		return true
	})
	return found
}
