package schemas_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
	"braid/schemas/schematest"
)

// Decode never panics, and what it accepts is stable: encoded again it is one line of valid
// UTF-8 that decodes to the same message and encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, tl := range timelines(f) {
		for _, step := range tl.steps {
			if !step.Gap && !step.Finish {
				line, err := schemas.Encode(step.Entry.Message)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(line)
			}
		}
	}
	f.Add([]byte(`{"timestamp":"","type":"model_msg","payload":{"text":"\ud83d<\u003c&\u0026","role":"user","type":"text","new":[1e400,"\u2028"]},"n":{"a":-0}}`))
	f.Add([]byte(" {\n\"type\" : \"event_msg\" , \"payload\" : {\n\"type\": \"hook\" ,\t\"a\" : [ 1 , 2 ]\n} } "))
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		m, err := schemas.Decode(line)
		if !bytes.Equal(before, line) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		once, err := schemas.Encode(m)
		if err != nil {
			t.Fatalf("decoded from %q, does not encode: %v", line, err)
		}
		if !utf8.Valid(once) || bytes.ContainsAny(once, "\r\n") {
			t.Fatalf("not one line of valid UTF-8: %q", once)
		}
		if n := escapes(line); escapes(once) > n {
			t.Fatalf("escapes were added: %q became %q", line, once)
		}
		again, err := schemas.Decode(once)
		if err != nil {
			t.Fatalf("encoded as %q, does not decode: %v", once, err)
		}
		twice, err := schemas.Encode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(once), string(twice)); diff != "" {
			t.Fatalf("not stable (-once +twice)\n%s", diff)
		}
	})
}

// escapes counts the escapes that HTML-minded encoders add.
func escapes(b []byte) int {
	b = bytes.ToLower(b)
	n := 0
	for _, e := range []string{`\u003c`, `\u003e`, `\u0026`, `\u2028`, `\u2029`} {
		n += bytes.Count(b, []byte(e))
	}
	return n
}

// The checker never panics, whatever it is given, and blames only messages it was given.
func FuzzChecker(f *testing.F) {
	for _, tl := range timelines(f) {
		var entries []schemas.Entry
		for _, s := range tl.steps {
			if !s.Gap && !s.Finish {
				entries = append(entries, s.Entry)
			}
		}
		f.Add([]byte(schematest.Format(entries)), uint8(0))
		f.Add([]byte(schematest.Format(entries)), uint8(7))
	}
	f.Fuzz(func(t *testing.T, timeline []byte, how uint8) {
		steps, err := schematest.Parse(string(timeline))
		if err != nil {
			return
		}
		var opts []schemas.Option
		if how&4 != 0 {
			opts = append(opts, schemas.FromMiddle())
		}
		c := schemas.NewChecker(schemas.View(how%3), opts...)
		known := map[schemas.RuleName]bool{}
		for _, rule := range schemas.Rules() {
			known[rule.Name] = true
		}
		added := map[schemas.Position]bool{}
		blame := func(found []schemas.Violation) {
			for _, v := range found {
				if !added[v.Position] || !known[v.Rule] || v.Detail == "" {
					t.Fatalf("a violation of nothing: %+v", v)
				}
			}
		}
		for i, s := range steps {
			switch {
			case s.Gap:
				c.Gap()
			case s.Finish:
				blame(c.Finish())
			default:
				if how&8 != 0 { // positions that make no sense
					s.Entry.Position = schemas.Position{Sequence: uint64(i*7919) % 11, Line: i % 3}
				}
				added[s.Entry.Position] = true
				blame(c.Add(s.Entry))
			}
		}
		blame(c.Finish())
	})
}
