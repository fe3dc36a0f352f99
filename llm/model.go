package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"braid/schemas"
)

// Model is one model of one provider. It is safe for concurrent use.
type Model interface {
	// Info says what the model can do. It is always the same, and needs no provider to be reached.
	Info() Info
	// Stream makes one request, one attempt. It calls emit from one goroutine at a time with
	// fragments and complete messages in segments (see the package comment), and returns how the
	// request ended. It never panics and never retries by itself.
	//
	// It returns soon after ctx ends or emit fails, with a status other than completed. When ctx
	// ends in the middle of a segment it may still close that segment, so emit must take a few
	// messages after ctx ended, and must not block for long then. Once emit has failed it is not
	// called again.
	Stream(ctx context.Context, req Request, emit func(schemas.Message) error) Outcome
}

// Request is what a model is asked. It is shared and never changed.
type Request struct {
	// Session is the session the request belongs to, for providers that cache or log by it.
	Session schemas.SessionRef
	// Model is the model's name without its provider.
	Model string
	// System is the system prompt; it may be empty.
	System string
	// Tools are what the model may call.
	Tools []schemas.ToolDefinition
	// Input is the context: complete model messages in context order. Pictures are *schemas.ImageURL
	// messages of role user, and the Images of tool outputs; a model that gets any sees pictures
	// ([Info]), and [schemas.ParseImage] reads each: as bytes of a type, or as a URL. What another
	// model said has no fidelity, so its reasoning is plain text.
	Input []schemas.Message
	// MaxOutput is how many tokens the answer may have at most; 0: as many as the model gives. See
	// [Request.Fit].
	MaxOutput int64
	// Attempt counts the requests of one turn, from 1, whichever models they went to.
	Attempt int
	// Alive, if set, is for a model to call when its provider shows life without saying anything,
	// by a ping or a comment: a request that is silent for long is ended. It is safe for
	// concurrent use.
	Alive func()
}

// Outcome is how a request ended.
type Outcome struct {
	// Status is completed, or why the request did not complete. Only a completed request counts:
	// what another one emitted is no part of the conversation.
	Status schemas.StopReason
	// Usage is what the provider says the request used; nil if it said nothing.
	Usage *schemas.TokenCounts
	// Error says what went wrong. It is set unless Status is completed.
	Error *Error
}

// Completed is the outcome of a request that went well. Usage may be nil.
func Completed(usage *schemas.TokenCounts) Outcome {
	return Outcome{Status: schemas.StopCompleted, Usage: usage}
}

// Interrupted is the outcome of a request whose ctx has ended: timeout if a deadline passed,
// else aborted.
func Interrupted(ctx context.Context) Outcome {
	return interruptedBy(context.Cause(ctx))
}

// interruptedBy is the outcome of a request that its caller would not go on with.
func interruptedBy(cause error) Outcome {
	if errors.Is(cause, context.DeadlineExceeded) {
		return Outcome{Status: schemas.StopTimeout, Error: &Error{
			Kind: KindProvider, Message: "the model did not finish in time", Retryable: true, Cause: cause,
		}}
	}
	return Outcome{Status: schemas.StopAborted, Error: &Error{
		Kind: KindEngine, Message: fmt.Sprintf("the request was stopped: %v", cause), Cause: cause,
	}}
}

// malformed is the outcome of a request whose answer breaks the rules.
func malformed(format string, args ...any) Outcome {
	return Outcome{Status: schemas.StopMalformed, Error: &Error{
		Kind: KindProvider, Message: fmt.Sprintf(format, args...), Retryable: true,
	}}
}

// The kinds of errors, under the names that adapters know them by.
const (
	KindProvider = schemas.FaultProvider
	KindEngine   = schemas.FaultEngine
	KindInput    = schemas.FaultInput
	KindContext  = schemas.FaultContext
)

// Error says why a request did not complete.
type Error struct {
	// Message is a sentence for a person. It holds no secret.
	Message string
	// Kind is one of the kinds above.
	Kind string
	// Provider is the provider's name, if one was reached.
	Provider string
	// Retryable reports whether the same request may succeed later.
	Retryable bool
	// StatusCode is the HTTP status, 0 if there was none.
	StatusCode int
	// RetryAfter is how long the provider asks to wait, 0 if it did not say.
	RetryAfter time.Duration
	// Cause is the error behind this one, if any.
	Cause error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Info is the error as a task's end carries it.
func (e *Error) Info() schemas.ErrorInfo {
	return schemas.ErrorInfo{
		Kind: e.Kind, Provider: e.Provider, Retryable: e.Retryable,
		StatusCode: e.StatusCode, Message: e.Message,
	}
}
