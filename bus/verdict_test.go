package bus

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

// Only a newer claim, or none at all, is a verdict on an owner. All else that a broker says to a
// frame, a lone owner hears now and then, and would lose its session to.
func TestCase_B11_OnlyANewerClaimFences(t *testing.T) {
	wrong := func(description string) error {
		return &apiError{Code: 400, ErrCode: codeWrongLastSequence, Description: description}
	}
	o := &Owner{claim: Claim{Sequence: 50}}
	for _, row := range []struct {
		why    string
		answer error
		fenced bool
	}{
		{"a newer claim", wrong("wrong last sequence: 51"), true},
		{"the claim is gone", wrong("wrong last sequence: 0"), true},
		{"a leader that is behind", wrong("wrong last sequence: 49"), false},
		{"words of another version", wrong("wrong last sequence"), false},
		{"another frame under the condition is in flight", &apiError{Code: 400, ErrCode: codeWrongLastSequenceConstant, Description: "wrong last sequence"}, false},
		{"the frame itself is in flight", &apiError{Code: 409, ErrCode: codeDuplicateInFlight}, false},
		{"no leader", &apiError{Code: 503, ErrCode: 10008, Description: "JetStream system temporarily unavailable"}, false},
		{"no room", &apiError{Code: 503, ErrCode: codeStoreFailed}, false},
		{"nobody listens", nats.ErrNoResponders, false},
		{"no answer", nats.ErrTimeout, false},
	} {
		if err := o.verdict(row.answer); errors.Is(err, ErrFenced) != row.fenced || (err != nil) != row.fenced {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}
