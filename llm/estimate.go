package llm

import "braid/schemas"

// What an estimate assumes, in tokens. It is meant to be in the right order of magnitude and
// never zero, so that a budget notices a request whose provider said nothing about it.
const (
	bytesPerToken    = 4
	tokensPerMessage = 4
	tokensPerImage   = 1000
)

// EstimateTokens estimates the tokens of a text: one for every four bytes, rounded up.
func EstimateTokens(text string) int64 {
	return int64((len(text) + bytesPerToken - 1) / bytesPerToken)
}

// Used is what a request used, whatever became of it: what its provider says, else an estimate, which
// is marked as one. A request that was refused before it was answered used nothing: by its adapter, by
// an error status, for want of rights or of a connection. One that was stopped, fell silent or broke
// off may have cost its input, also if it has said nothing.
func Used(req Request, o Outcome, emitted []schemas.Message) (counts schemas.TokenCounts, estimated bool) {
	if o.Usage != nil {
		return sane(*o.Usage), false
	}
	if len(emitted) == 0 && refused(o) {
		return schemas.TokenCounts{}, false
	}
	return EstimateUsage(req, emitted), true
}

// maxCount bounds what anybody may say that one request used.
const maxCount = 1 << 40

// sane are the counts without what can't be: sums over them must neither fall nor overflow.
func sane(c schemas.TokenCounts) schemas.TokenCounts {
	for _, n := range []*int64{&c.CacheRead, &c.CacheWrite, &c.Output, &c.Total} {
		*n = min(max(0, *n), maxCount)
	}
	return c
}

// refused reports that a request which has said nothing was not answered at all.
func refused(o Outcome) bool {
	e := o.Error
	switch {
	case o.Status == schemas.StopCompleted || e == nil:
		return false
	case o.Status == schemas.StopAuth, e.Kind == KindInput, e.Kind == KindContext, e.StatusCode >= 400:
		return true
	}
	return o.Status == schemas.StopFailed && e.Kind == KindProvider && e.Provider == "" // none was reached
}

// EstimateUsage estimates what a request used whose provider gave no usage: the system prompt, the
// tools and the input, plus the complete messages among those emitted. Each message counts
// four tokens besides its text, each picture or other binary a flat thousand. Nothing is assumed
// to be cached.
func EstimateUsage(req Request, emitted []schemas.Message) schemas.TokenCounts {
	total := EstimateTokens(req.System)
	for _, t := range req.Tools {
		total += tokensPerMessage + EstimateTokens(t.Name) + EstimateTokens(t.Description) +
			EstimateTokens(string(t.Parameters))
	}
	for _, m := range req.Input {
		total += estimateMessage(m)
	}
	var output int64
	for _, m := range emitted {
		output += estimateMessage(m)
	}
	return schemas.TokenCounts{Output: output, Total: total + output}
}

// estimateMessage estimates a complete model message; anything else counts nothing.
func estimateMessage(m schemas.Message) int64 {
	switch p := m.Payload.(type) {
	case *schemas.Text:
		return tokensPerMessage + EstimateTokens(p.Text)
	case *schemas.Thinking:
		return tokensPerMessage + EstimateTokens(p.Thinking)
	case *schemas.ToolCall:
		return tokensPerMessage + EstimateTokens(p.Name) + EstimateTokens(p.Arguments)
	case *schemas.ToolCallOutput:
		return tokensPerMessage + EstimateTokens(p.Output) + int64(len(p.Images))*tokensPerImage
	case *schemas.InlineThinking, *schemas.ImageURL, *schemas.InlineData:
		return tokensPerMessage + tokensPerImage
	}
	return 0
}
