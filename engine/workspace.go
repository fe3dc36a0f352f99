package engine

import (
	"context"
	"fmt"
	"time"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/schemas"
)

// This file sends calls that work on the session's files to where these are, and says what becomes of
// a call that can't be run there.

// bind addresses the call to where the session's files are.
func (c *toolCall) bind(b *schemas.WorkspaceBound) {
	c.bound, c.pool = b, b.Pool()
}

// began says where a call that works on the session's files has started. Should it run again, it
// runs there.
func (c *toolCall) began(rec schemas.ToolRecord) {
	if c.bound != nil || !c.start.Definition.Workspace {
		return
	}
	c.bind(&schemas.WorkspaceBound{Toolrunner: rec.Toolrunner, Volume: rec.Volume})
	c.r.report(session.ToolStarted{ToolCallID: c.id(), Toolrunner: rec.Toolrunner, Volume: rec.Volume})
}

// placeGone reports that the session's files are on one toolrunner's disk, and that it is gone.
func (c *toolCall) placeGone(ctx context.Context) bool {
	if c.bound == nil || c.bound.Volume != "" {
		return false
	}
	gone, err := c.r.e.beat.Gone(ctx, bus.KindToolrunner, c.bound.Toolrunner)
	return err == nil && gone
}

// placeLost is the result of a call whose files can't be reached any more. Running it elsewhere would
// show the model an empty workspace in place of its work.
func (c *toolCall) placeLost() schemas.ToolResult {
	c.r.log.Warn().Str("call", c.id()).Str("toolrunner", c.bound.Toolrunner).Msg("a session's workspace is lost with its toolrunner")
	return notRun(fmt.Sprintf("the session's files are on toolrunner %s, which is gone: they are lost to this session, and no other toolrunner has them", c.bound.Toolrunner))
}

// untaken is the result of a call that waited in vain.
func (c *toolCall) untaken(limit time.Duration) schemas.ToolResult {
	name := c.start.Definition.Name
	switch {
	case c.bound == nil:
		return notRun(fmt.Sprintf("no toolrunner of pool %q took the call of tool %q within %s", c.pool, name, limit))
	case c.bound.Volume != "":
		return notRun(fmt.Sprintf("the session's files are on the shared volume %s, and no toolrunner that has it took the call of tool %q within %s", c.bound.Volume, name, limit))
	}
	return notRun(fmt.Sprintf("the session's files are on toolrunner %s, which did not take the call of tool %q within %s", c.bound.Toolrunner, name, limit))
}

func notRun(why string) schemas.ToolResult {
	return schemas.ToolResult{Output: "[" + why + "; it was not run]", Appends: true, StopReason: schemas.StopFailed}
}
