package llm

import (
	"fmt"

	"braid/schemas"
)

// What is kept of a window beside the context and its answer. The context is only estimated, and no
// estimate is exact: an eighth of it is left unpromised. An answer of less than minAnswer tokens is none:
// a model can hardly make a tool call in that.
const (
	reservePart = 8
	minAnswer   = 256
)

// Fit bounds the answer by what the context leaves of the window of a model that can do so much: else the
// provider refuses a request whose answer might not fit, although it would. If the context leaves no room
// for an answer, refused says so, with the sizes, and the request is not to be made. Where the window is
// not known everything fits.
func (r Request) Fit(i Info) (fitting Request, refused *Outcome) {
	r.MaxOutput = i.MaxOutput
	if i.Window <= 0 {
		return r, nil
	}
	used := EstimateUsage(r, nil).Total
	left := i.Window - used
	if left < minAnswer {
		return r, &Outcome{Status: schemas.StopFailed, Error: &Error{Kind: KindContext, Message: fmt.Sprintf(
			"the context does not fit: it has about %d tokens, and the model's window of %d must hold the answer as well",
			used, i.Window)}}
	}
	if r.MaxOutput > 0 {
		r.MaxOutput = min(r.MaxOutput, max(minAnswer, left-used/reservePart))
	}
	return r, nil
}
