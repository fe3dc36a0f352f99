package schemas_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// Whatever a payload is, another model gets none of its fidelity and everything else of it, and the
// payload itself stays as it is.
func TestWithoutFidelity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := schematest.AnyMessage().Draw(t, "message").Payload
		before := schemas.Fidelity(p)
		got := schemas.WithoutFidelity(p)
		if !reflect.DeepEqual(before, schemas.Fidelity(p)) {
			t.Fatalf("the payload was changed: %+v", p)
		}
		if got == nil {
			thinking, ok := p.(*schemas.Thinking)
			if _, binary := p.(*schemas.InlineThinking); !binary && (!ok || thinking.Thinking != "") {
				t.Fatalf("nothing is left of %+v", p)
			}
			return
		}
		if f := schemas.Fidelity(got); f != nil {
			t.Fatalf("fidelity %s is left of %+v", f, got)
		}
		if before != nil {
			reflect.ValueOf(got).Elem().FieldByName("Fidelity").Set(reflect.ValueOf(before)) // of the copy
		}
		if !reflect.DeepEqual(p, got) {
			t.Fatalf("%+v became %+v", p, got)
		}
	})
}
