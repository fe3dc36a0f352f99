package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// QueryOp names a question.
type QueryOp string

// The questions, with the types of their arguments and answers.
const (
	QueryOutcome  QueryOp = "outcome"  // OutcomeArgs, schemas.Outcome
	QuerySession  QueryOp = "session"  // none, SessionInfo
	QuerySessions QueryOp = "sessions" // SessionsArgs, SessionsPage
	QueryMessages QueryOp = "messages" // MessagesArgs, MessagesPage
	QueryExport   QueryOp = "export"   // ExportArgs, ExportPage
	QueryUsage    QueryOp = "usage"    // UsageArgs, UsageTable
	QueryModels   QueryOp = "models"   // none, ModelList
	QueryFailures QueryOp = "failures" // FailuresArgs, FailuresPage
)

// Query is a question that any engine answers.
type Query struct {
	Op      QueryOp `json:"op"`
	Project string  `json:"project"`
	// Session is the session's id, for questions about one.
	Session string `json:"session,omitzero"`
	// LeastSequence is the sequence the answer must have seen: of the session's stream, or of
	// its commands for [QueryOutcome]. 0 takes what there is.
	LeastSequence uint64         `json:"least_sequence,omitzero"`
	Args          jsontext.Value `json:"args,omitzero"`
}

// Validate checks the names. What an operation needs besides is its handler's to check.
func (q Query) Validate() error {
	if err := schemas.ValidateName("op", string(q.Op)); err != nil {
		return err
	}
	if err := schemas.ValidateName("project", q.Project); err != nil {
		return err
	}
	if q.Session == "" {
		return nil
	}
	return schemas.ValidateName("session", q.Session)
}

// Ref is the session the question is about.
func (q Query) Ref() schemas.SessionRef {
	return schemas.SessionRef{Project: q.Project, ID: q.Session}
}

// DecodeArgs reads the arguments; none leave v as it is. The error is of code CodeInvalid.
func (q Query) DecodeArgs(v any) error {
	if len(q.Args) == 0 {
		return nil
	}
	if err := schemas.DecodeJSON(q.Args, v); err != nil {
		return schemas.Errorf(schemas.CodeInvalid, "the arguments of %s can't be read: %v", q.Op, err)
	}
	return nil
}

// queryAnswer is what travels back: a result or an error.
type queryAnswer struct {
	Result jsontext.Value `json:"result,omitzero"`
	Error  *schemas.Error `json:"error,omitzero"`
}

// queryWorkers bounds how many questions one engine answers at once.
const queryWorkers = 8

// ServeQueries answers questions until stop is called, which waits for handlers; several engines
// share them. handle returns a value that becomes JSON, or an error: an *[schemas.Error] reaches
// the asker, any other is logged and reaches it as CodeInternal. An answer over 48 MiB becomes
// CodeTooLarge; handlers answer in pages far below.
func (c *Conn) ServeQueries(handle func(context.Context, Query) (any, error)) (stop func(), err error) {
	return c.serve(subjectQuery, "engines", queryWorkers, func(ctx context.Context, m *nats.Msg) {
		done := c.working(m, queryNotice)
		answer := c.answerQuery(ctx, m.Data, handle)
		body, err := schemas.EncodeJSON(answer)
		if err == nil && len(body) > maxAnswer {
			body, err = schemas.EncodeJSON(queryAnswer{Error: schemas.Errorf(schemas.CodeTooLarge,
				"the answer has %d bytes, the limit is %d: ask for a smaller page", len(body), maxAnswer)})
		}
		done()
		if err == nil {
			err = c.respond(m, body)
		}
		if err != nil {
			c.log.Warn().Err(err).Msg("answer a question")
		}
	})
}

// answerQuery answers one question, by an error if it can't be read, makes no sense or handle fails.
func (c *Conn) answerQuery(ctx context.Context, body []byte, handle func(context.Context, Query) (any, error)) queryAnswer {
	var q Query
	if err := schemas.DecodeJSON(body, &q); err != nil {
		return queryAnswer{Error: schemas.Errorf(schemas.CodeInvalid, "the question can't be read: %v", err)}
	}
	var result jsontext.Value
	err := q.Validate()
	if err == nil {
		var v any
		if v, err = handle(ctx, q); err == nil {
			result, err = schemas.EncodeJSON(v)
		}
	}
	if err == nil {
		return queryAnswer{Result: result}
	}
	var known *schemas.Error
	if !errors.As(err, &known) {
		c.log.Error().Err(err).Str("op", string(q.Op)).Str("project", q.Project).Msg("a question failed")
		known = schemas.Errorf(schemas.CodeInternal, "the question could not be answered; the engine's log says why")
	}
	return queryAnswer{Error: known}
}

// queryTimeout is how long the engines that got a question may take: they may have died with the question,
// which is then asked again. An engine that is stopped or hangs keeps the broker from noticing for minutes, so
// whenever nobody has said for queryPatience that it works on the question, another engine is asked. Not all of
// them: they may only be busy. Who works on it says so every queryNotice.
const (
	queryTimeout  = 10 * time.Second
	queryPatience = time.Second
	queryNotice   = queryPatience / 4
	queryAskers   = 4
)

// Query asks any engine and returns its answer's JSON. The error is what the handler returned,
// or [schemas.CodeUnavailable] if no engine answered before ctx ended. A question changes
// nothing, so it is asked again until then.
func (c *Conn) Query(ctx context.Context, q Query) (jsontext.Value, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	body, err := schemas.EncodeJSON(q)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", q.Op, err)
	}
	for try := 0; ; try++ {
		data, err := c.askEngines(ctx, body)
		if err == nil {
			var answer queryAnswer
			if err := schemas.DecodeJSON(data, &answer); err != nil {
				return nil, fmt.Errorf("ask %s: %w", q.Op, err)
			}
			if answer.Error != nil {
				return nil, answer.Error
			}
			return answer.Result, nil
		}
		if permanent(err) {
			return nil, fmt.Errorf("ask %s: %w", q.Op, err)
		}
		if waitErr := sleep(ctx, jitter(try+4)); waitErr != nil {
			return nil, unavailable("no engine answered", err)
		}
	}
}

// askEngines asks engines, for at most queryTimeout, and returns what one of them answers.
func (c *Conn) askEngines(ctx context.Context, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	patience := time.NewTicker(queryPatience)
	defer patience.Stop()
	return askAround(ctx, patience.C, func(ctx context.Context, alive func()) ([]byte, error) {
		return c.request(ctx, subjectQuery, body, alive)
	})
}

// askAround asks, and asks once more at each tick of patience since which nobody was alive; each may reach another
// engine. Whatever is answered first counts. While somebody is alive nobody else is asked: the answer may take long,
// and several of them would only hold each other up.
func askAround(ctx context.Context, patience <-chan time.Time, ask func(ctx context.Context, alive func()) ([]byte, error)) ([]byte, error) {
	type answered struct {
		data []byte
		err  error
	}
	answers, signs := make(chan answered, queryAskers), make(chan struct{})
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := func() {
		select {
		case signs <- struct{}{}:
		case <-ctx.Done():
		}
	}
	asked, open := 0, 0
	askOne := func() {
		asked, open = asked+1, open+1
		asking.Go(func() {
			data, err := ask(ctx, alive)
			answers <- answered{data, err}
		})
	}
	askOne()
	for heard := false; ; {
		select {
		case a := <-answers:
			if open--; a.err == nil || open == 0 || permanent(a.err) {
				return a.data, a.err
			}
		case <-signs:
			heard = true
		case <-patience:
			if !heard && asked < queryAskers {
				askOne()
			}
			heard = false
		}
	}
}

// ask is Query with typed arguments and answer.
func ask[T any](ctx context.Context, c *Conn, q Query, args any) (T, error) {
	var out T
	if args != nil {
		raw, err := schemas.EncodeJSON(args)
		if err != nil {
			return out, fmt.Errorf("ask %s: %w", q.Op, err)
		}
		q.Args = raw
	}
	raw, err := c.Query(ctx, q)
	if err != nil {
		return out, err
	}
	if err := schemas.DecodeJSON(raw, &out); err != nil {
		return out, fmt.Errorf("ask %s: %w", q.Op, err)
	}
	return out, nil
}
