package openai

import (
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// fidelity is what a message of the model needs to be sent back. It counts for the model that gave
// it only.
type fidelity struct {
	// From is the "provider/model" it came from.
	From string `json:"from"`
	// CallID is the provider's own id of a tool call.
	CallID string `json:"call_id,omitzero"`
	// Extra is a tool call's extra_content, such as a signature.
	Extra jsontext.Value `json:"extra_content,omitzero"`
	// Field is the member that reasoning came in.
	Field string `json:"field,omitzero"`
	// Details are the reasoning_details of the whole answer.
	Details []jsontext.Value `json:"reasoning_details,omitzero"`
}

// encode is the fidelity as a message carries it. Raw values in it are compact already.
func (f fidelity) encode() jsontext.Value {
	raw, err := schemas.EncodeJSON(f)
	if err != nil { // a raw value that is none: then it can't be sent back either
		f.Extra, f.Details = nil, nil
		raw, _ = schemas.EncodeJSON(f)
	}
	return raw
}

// fidelityOf is what a message carries, nothing if that is another model's.
func (m *model) fidelityOf(raw jsontext.Value) fidelity {
	var f fidelity
	if len(raw) == 0 || schemas.DecodeJSON(raw, &f) != nil || f.From != m.from {
		return fidelity{}
	}
	return f
}
