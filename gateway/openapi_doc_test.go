package gateway

import (
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"braid/schemas"
)

// The document is one by the specification's own schema, and a library that reads such documents makes a
// model of it, every reference resolved.
func TestTheDescriptionIsOpenAPI(t *testing.T) {
	text, err := describeAPI((&Gateway{}).table())
	if err != nil {
		t.Fatal(err)
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	if model, err := document.BuildV3Model(); err != nil || model.Model.Paths.PathItems.Len() == 0 {
		t.Errorf("no model can be made of it: %v", err)
	}
	meta, err := jsonschema.UnmarshalJSON(strings.NewReader(document.GetSpecInfo().APISchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("https://braid.example/openapi", meta); err != nil {
		t.Fatal(err)
	}
	rules, err := compiler.Compile("https://braid.example/openapi")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := rules.Validate(value); err != nil {
		t.Errorf("it is no OpenAPI document: %v", err)
	}
	broken := value.(map[string]any)
	delete(broken["info"].(map[string]any), "title")
	if rules.Validate(broken) == nil {
		t.Error("the rules take anything")
	}
}

// Whoever reads it finds everything named: groups, operations, parameters, answers, members; and the
// examples are what they are examples of.
func TestTheDescriptionReadsWell(t *testing.T) {
	d := api(t)
	var tags []string
	for _, tag := range d.document["tags"].([]any) {
		tags = append(tags, tag.(map[string]any)["name"].(string))
	}
	said := func(what string, o map[string]any) {
		t.Helper()
		if text, _ := o["description"].(string); text == "" {
			t.Errorf("%s has no description", what)
		}
	}
	for path, item := range d.at("paths") {
		for method, o := range item.(map[string]any) {
			operation := o.(map[string]any)
			id := operation["operationId"].(string)
			if group, _ := operation["tags"].([]any); len(group) != 1 || !slices.Contains(tags, group[0].(string)) {
				t.Errorf("%s is in no group: %v", id, group)
			}
			if summary, _ := operation["summary"].(string); summary == "" || strings.HasSuffix(summary, ".") {
				t.Errorf("%s: the summary is %q", id, summary)
			}
			parameters, _ := operation["parameters"].([]any)
			for _, p := range parameters {
				said(id+": "+p.(map[string]any)["name"].(string), p.(map[string]any))
			}
			d.checkExamples(t, id, "paths", path, method)
			responses := d.at("paths", path, method, "responses")
			for status, r := range responses {
				said(id+" "+status, r.(map[string]any))
			}
			for _, status := range []string{"401", "403", "500", "503"} {
				if responses[status] == nil && !strings.HasPrefix(path, "/healthz") && !strings.HasPrefix(path, "/readyz") {
					t.Errorf("%s: nothing is said of %s", id, status)
				}
			}
		}
	}
	for name, schema := range d.at("components", "schemas") {
		said(name, schema.(map[string]any))
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		for member, p := range properties {
			if _, fixed := p.(map[string]any)["const"]; !fixed { // which says all
				said(name+"."+member, p.(map[string]any))
			}
		}
	}
	for name, scheme := range d.at("components", "securitySchemes") {
		said(name, scheme.(map[string]any))
	}
}

// Words about types and members that are gone are gone as well.
func TestWordsAreOfWhatIsThere(t *testing.T) {
	d := api(t)
	members := map[string]bool{}
	for name, schema := range d.at("components", "schemas") {
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		for member := range properties {
			members[member], members[name+"."+member] = true, true
		}
	}
	for name := range schemaWords {
		if d.at("components", "schemas", name) == nil {
			t.Errorf("there is no type %s", name)
		}
	}
	for name := range memberWords {
		if !members[name] {
			t.Errorf("there is no member %s", name)
		}
	}
}

// checkExamples holds each example of an operation against the schema beside it.
func (d *described) checkExamples(t *testing.T, id string, operation ...string) {
	t.Helper()
	places := [][]string{append(slices.Clone(operation), "requestBody", "content", mediaJSON)}
	for status := range d.at(append(slices.Clone(operation), "responses")...) {
		places = append(places, append(slices.Clone(operation), "responses", status, "content", mediaJSON))
	}
	for _, place := range places {
		content := d.at(place...)
		example, ok := content["example"]
		switch {
		case content == nil:
		case ok:
			if err := d.schema(t, append(slices.Clone(place), "schema")...).Validate(example); err != nil {
				t.Errorf("%s: the example %v: %v", id, example, err)
			}
		case place[3] == "requestBody" || place[4] >= "400":
			t.Errorf("%s: %v has no example", id, place[3:])
		}
	}
}

// Each code that a route may answer with is told in words.
func TestCodesHaveWords(t *testing.T) {
	used := map[schemas.Code]bool{}
	for _, r := range (&Gateway{}).table() {
		if !r.described() {
			continue
		}
		for _, codes := range r.errors() {
			for _, code := range codes {
				used[code] = true
			}
		}
	}
	for code := range used {
		if codeWords[code] == "" {
			t.Errorf("nothing is said of %s", code)
		}
	}
	for code := range codeWords {
		if !used[code] {
			t.Errorf("%s is no answer of any route", code)
		}
	}
}
