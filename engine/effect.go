package engine

import (
	"context"
	"time"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/llm"
	"braid/schemas"
)

// modelCall is the model call in progress, if any.
type modelCall struct {
	request uint64
	cancel  context.CancelFunc
}

// perform carries out effects whose messages are stored; ack is that of the newest stored frame. A model
// call besides needs that acknowledgement to be fresh: if it is not, the call waits for a frame that
// confirms the claim.
func (r *runner) perform(effects []session.Effect, ack bus.Ack) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case session.Answer:
			r.answer(e.Outcome, ack)
		case session.ReadTrace:
			r.readTrace(e)
		case session.DropTrace:
			r.dropTrace(e)
		case session.ListTools:
			r.spawn(r.listTools)
		case session.CallModel:
			if ack.Fresh(time.Now()) {
				r.startModel(e)
			} else {
				r.confirm = &e
			}
		case session.StopModel:
			r.stopModel(e.Request)
		case session.StartTool:
			r.startTool(e)
		case session.CancelTool:
			r.cancelTool(e.ToolCallID)
		case session.ResendOutput:
			r.resend(e)
		case session.SetDeadline, session.ClearDeadline:
			r.keepDeadline(e)
		case session.TellRuling:
			r.tellRuling(e)
		case session.WaitRetry:
			r.waitRetry(e)
		}
	}
}

// answer tells a command's sender its outcome, which is recorded by now.
func (r *runner) answer(o schemas.Outcome, ack bus.Ack) {
	o.Log = ack.Sequence
	r.outcomes[o.CommandID] = o
	for sequence, c := range r.commands {
		if c.ID == o.CommandID { // it, or the same command sent again
			delete(r.commands, sequence)
			r.reply(c, o)
		}
	}
	r.acknowledgeLater()
}

// reply sends a command's outcome to its sender. It is best effort: a sender that hears nothing asks. The
// outcome is stored, so a body that was kept outside of the command is not needed any more.
func (r *runner) reply(c bus.StoredCommand, o schemas.Outcome) {
	if c.KeptOutside() {
		r.spawn(func(ctx context.Context) { r.e.conn.DropBody(ctx, c) })
	}
	if err := r.e.conn.Reply(c, o); err != nil {
		r.log.Debug().Err(err).Msg("reply")
	}
}

// acknowledgeLater acknowledges, on another goroutine, the wake-ups whose commands all have
// their outcome stored. The session's running key was stored before, so that from here on
// nothing but that key is needed to find the session if this engine is lost.
func (r *runner) acknowledgeLater() {
	upTo := r.read
	for _, c := range r.commands {
		upTo = min(upTo, c.Sequence-1)
	}
	var due, rest []bus.WakeUp
	for _, w := range r.tenure.wakes {
		if w.Sequence <= upTo {
			due = append(due, w)
		} else {
			rest = append(rest, w)
		}
	}
	r.tenure.wakes = rest
	if len(due) == 0 {
		return
	}
	r.spawn(func(ctx context.Context) {
		for _, w := range due {
			if w.AckSubject == "" {
				continue // rung by this runner itself
			}
			if err := r.e.conn.Ack(ctx, w); err != nil && ctx.Err() == nil {
				r.log.Debug().Err(err).Msg("acknowledge") // it rings again, to no effect
			}
		}
	})
}

// listTools reports what tools toolrunners offer now; it tries until they can be listed.
func (r *runner) listTools(ctx context.Context) {
	for {
		tools, conflicts, err := r.e.conn.Tools(ctx, r.ref.Project, r.e.beat)
		for _, c := range conflicts {
			r.log.Warn().Str("tool", c.Name).Msg("toolrunners define one tool differently")
		}
		if err == nil {
			r.report(session.ToolsListed{Tools: tools})
			return
		}
		r.log.Warn().Err(err).Msg("can't list tools")
		pause(ctx, nakLater)
		if ctx.Err() != nil {
			return
		}
	}
}

// startModel calls the model on a goroutine of its own, which reports to the loop.
func (r *runner) startModel(e session.CallModel) {
	task := r.state.Task
	if task == nil || task.Aborting || task.Request == nil || !task.Request.Open || task.Request.ID != e.Request {
		return // aborted while it waited
	}
	meta := r.state.Meta
	provider, _, _ := schemas.SplitModel(e.Model) // validated when the session was created
	model, err := r.openModel(e.Model)
	if err != nil {
		r.spawn(func(context.Context) {
			r.report(session.ModelEnded{
				Request: e.Request, Status: schemas.StopFailed,
				Failure: &schemas.ErrorInfo{Kind: llm.KindInput, Provider: provider, Message: asError(err).Message},
			})
		})
		return
	}
	request := r.request(e.Model, e.Input)
	request.Attempt = e.Attempt
	ctx, cancel := context.WithCancel(r.ctx)
	r.model = modelCall{request: e.Request, cancel: cancel}
	model = newImpatient(model, provider, meta.Limits)
	r.spawn(func(context.Context) {
		defer cancel()
		r.callModel(ctx, model, e.Model, request, e.Request)
	})
}

// openModel opens a model for the session. It fails for a model that this engine has no price of, if the
// session's cost is limited.
func (r *runner) openModel(name string) (llm.Model, error) {
	model, err := r.e.models.Open(name)
	if err != nil {
		return nil, err
	}
	if refused := r.e.prices.missing(name, r.state.Meta.Limits); refused != nil {
		return nil, refused
	}
	return model, nil
}

// request is what a model of the session is asked.
func (r *runner) request(model string, input []schemas.Message) llm.Request {
	_, name, _ := schemas.SplitModel(model)
	return llm.Request{Session: r.ref, Model: name, System: r.state.Meta.SystemPrompt, Tools: r.state.ToolList, Input: input}
}

// lostUsage estimates what the request used that the owner before has left open; zero if none is open. That
// request may never have been sent, but nobody knows, and costs must not be forgotten.
func (r *runner) lostUsage() schemas.TokenCounts {
	input, said, open := r.state.OpenRequest()
	if !open {
		return schemas.TokenCounts{}
	}
	name := r.state.Task.Request.Model
	request := r.request(name, input)
	if model, err := r.e.models.Open(name); err == nil {
		request = request.For(model.Info())
	}
	return r.e.prices.priced(name, llm.EstimateUsage(request, said))
}

// callModel makes the call, streams what the model says to the loop, and reports the end with what the call
// used and cost. name is the model's "provider/model", by which it is priced.
func (r *runner) callModel(ctx context.Context, model llm.Model, name string, request llm.Request, id uint64) {
	var said []schemas.Message
	outcome := model.Stream(ctx, request, func(m schemas.Message) error {
		if !m.Partial() {
			said = append(said, m)
		}
		select {
		case r.stream <- session.ModelMessage{Request: id, Message: m}:
			return nil
		case <-ctx.Done():
			// The session has closed the request, or is somebody else's: nobody listens. A model
			// may still close its segment, and is not told that it failed at that.
			return nil
		}
	})
	ended := session.ModelEnded{Request: id, Status: outcome.Status, Jitter: r.e.jitter()}
	ended.Usage, ended.Estimated = llm.Used(request.For(model.Info()), outcome, said)
	ended.Usage = r.e.prices.priced(name, ended.Usage)
	if outcome.Error != nil {
		info := outcome.Error.Info()
		ended.Failure, ended.RetryAfter = &info, outcome.Error.RetryAfter
	}
	// Behind its messages, on the same way, so that none is overtaken.
	select {
	case r.stream <- ended:
	case <-r.ctx.Done():
	}
}

// stopModel cancels the model call, which then reports its end. The end of a call that was never made is
// reported here: it has used nothing.
func (r *runner) stopModel(request uint64) {
	if r.model.cancel == nil || r.model.request != request {
		r.spawn(func(context.Context) { r.report(session.ModelEnded{Request: request, Status: schemas.StopAborted}) })
		return
	}
	r.dropModel()
}

// dropModel cancels the model call, if one runs.
func (r *runner) dropModel() {
	if r.model.cancel != nil {
		r.model.cancel()
		r.model = modelCall{}
	}
}

// waitRetry reports when the delay is over, unless the tenure ends before.
func (r *runner) waitRetry(e session.WaitRetry) {
	r.spawn(func(ctx context.Context) {
		pause(ctx, time.Duration(float64(e.Delay)*r.e.timing.Retry))
		r.report(session.RetryDue{Request: e.Request})
	})
}
