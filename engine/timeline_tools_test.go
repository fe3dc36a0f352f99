package engine

import (
	"context"
	"strconv"
	"time"

	"braid/engine/internal/timelinetest"
	"braid/schemas"
)

// tool plays a step of a call, on whichever toolrunner has started it.
func (s *stage) tool(c timelinetest.Cue) {
	s.t.Helper()
	name := c.Arg(0)
	call := s.started(name)
	switch c.Arg(1) + " " + c.Arg(len(c.Args)-1) {
	case "starts starts":
	case "is cancelled":
		select {
		case <-call.cancel:
		case <-time.After(testTime):
			s.fail("the call is not cancelled")
		}
	case "ends late":
		if call.end(schemas.StopCompleted) == nil {
			s.fail("the result was taken")
		}
	case "ends ends", "ends failed", "ends aborted", "ends timeout":
		reason := schemas.StopCompleted
		if len(c.Args) > 2 {
			reason = schemas.StopReason(c.Arg(2))
		}
		s.must(call.end(reason))
		s.await("tool_call_output " + name + " ")
	case "says unheard":
		call.say(c.Arg(2))
	case "says " + c.Arg(2):
		call.say(c.Arg(2))
		text := strconv.Quote(c.Arg(2))
		s.await("partial_tool_call_output " + name + " delta ... " + text[1:len(text)-1])
	default:
		s.fail("a tool can't do that")
	}
}

// started waits until a toolrunner that lives has started the call.
func (s *stage) started(name string) *handCall {
	s.t.Helper()
	id := s.call(name)
	var found *handCall
	s.eventually("the call "+name+" does not start", func() bool {
		for _, h := range s.hands {
			h.mu.Lock()
			for _, c := range h.calls {
				if c.request.ToolCallID == id {
					found = c
				}
			}
			h.mu.Unlock()
		}
		return found != nil
	})
	return found
}

// lose drops a toolrunner: nothing of it is heard again.
func (s *stage) lose(name string) {
	s.t.Helper()
	h := s.hands[name]
	if h == nil {
		s.fail("no toolrunner %s lives", name)
	}
	delete(s.hands, name)
	h.stop()
	h.done.Wait()
	s.must(h.beat.Stop(context.Background()))
}
