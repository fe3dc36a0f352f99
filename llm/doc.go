// Package llm is how Braid talks to language models: one interface that every provider
// implements, the ways a request can end, and what makes any implementation safe to use.
//
// A [Provider] offers models by name; a [Catalog] holds the providers of a process and opens
// "provider/model". A [Model] makes one request at a time per call of Stream: it emits what the
// model says as it is said and returns an [Outcome]. It decides nothing: whether to retry, when
// to give up and what the words mean is the caller's business.
//
// What a model emits comes in segments, one for each thing it says. A segment is one start
// fragment, any number of deltas, one stop fragment, and directly after it the complete message,
// whose text is all deltas joined. One segment is open at a time:
//
//	partial_text(start) partial_text(delta)... partial_text(stop) text
//	partial_tool_call(start) partial_tool_call(delta)... partial_tool_call(stop) tool_call
//
// Whoever writes a provider uses an [Emitter], which can't break that rule. Whoever uses a
// provider goes through [Guard], which trusts no implementation: panics, calls that ignore
// cancellation, and segments that are left open, interleaved or wrong end as an outcome like any
// other, and what the caller sees is in order all the same. Models opened from a catalog are
// guarded already.
//
// Whoever uses a model by itself may loop over [Events] instead: deltas, whole calls, and one last
// event.
//
// Start reading at model.go, then emitter.go (for providers) or guard.go (for callers). Package
// scripted is a provider that says what a file tells it to, for tests, demonstrations and
// benchmarks; package shell is a demonstration that needs no key; package llmtest checks
// providers in their tests.
package llm
