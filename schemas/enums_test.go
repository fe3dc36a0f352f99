package schemas_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// constants are the string constants of the package's source, by the name of their type.
func constants(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for spec := range ast.Preorder(file) {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			typ, ok := v.Type.(*ast.Ident)
			if !ok || len(v.Values) != 1 {
				continue
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				value, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				all[typ.Name] = append(all[typ.Name], value)
			}
		}
	}
	return all
}

// open are the types whose members take any text: newer versions add values to them.
var open = []string{"Code", "Kind"}

// Where a schema lists the values of a member, they are the constants of its Go type.
func TestSchemasListConstants(t *testing.T) {
	values := constants(t)
	checked := 0
	for name, typ := range structs() {
		properties := schemaDocument(t, name+".json")["properties"].(map[string]any)
		for i := range typ.NumField() {
			f := typ.Field(i)
			want := slices.Clone(values[f.Type.Name()])
			if f.Type.Kind() != reflect.String || len(want) == 0 || slices.Contains(open, f.Type.Name()) {
				continue
			}
			member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "approve_body" && member == "decision" {
				want = []string{"allow", "deny"} // people can't decide forbidden
			}
			if name == "command_outcome" && member == "command" {
				continue // recorded for ever: commands of newer versions too
			}
			slices.Sort(want)
			var got []string
			list, _ := properties[member].(map[string]any)["enum"].([]any)
			for _, v := range list {
				got = append(got, v.(string))
			}
			slices.Sort(got)
			if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
				t.Errorf("%s.%s: (-Go +schema)\n%s", name, member, diff)
			}
			checked++
		}
	}
	if checked < 30 {
		t.Errorf("only %d members were checked", checked)
	}
}
