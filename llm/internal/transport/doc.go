// Package transport carries the requests of every model provider over HTTP: it posts, says how an
// answer that is none is classified, watches for silence, and keeps secrets out of errors.
//
// A [Client] belongs to one provider. [Client.Post] sends one request and returns its [Response],
// whose body the caller reads (most often by package sse, through [Response.Events]) and closes.
// Nothing is retried and no redirect is followed: a redirect could carry a key to another host.
// Whatever goes wrong, [Client.Outcome] tells as an outcome of package llm; a provider adds only
// what its own protocol says.
//
// Requests end with their context. A silent provider ends its request too, after Options.Idle of
// waiting for it; time in which nobody reads does not count. No goroutine is left when a response
// is closed, besides those of idle connections, which end by [Client.Close] or after a while.
//
// Start reading at client.go, then response.go, classify.go, detail.go (what an error's body says)
// and redact.go.
package transport
