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

// settleIn addresses the call to where the session's files are.
func (c *toolCall) settleIn(b *schemas.WorkspaceBound) {
	c.place, c.pool = b, b.Pool()
}

// notePlace tells the session where a call has started that works on its files: from now on they are
// there. Should this call run again, it runs there as well.
func (c *toolCall) notePlace(rec schemas.ToolRecord) {
	if c.place != nil || !c.start.Definition.Workspace {
		return
	}
	c.settleIn(&schemas.WorkspaceBound{Toolrunner: rec.Toolrunner, Volume: rec.Volume})
	c.r.report(session.ToolStarted{ToolCallID: c.id(), Toolrunner: rec.Toolrunner, Volume: rec.Volume})
}

// placeGone reports that the session's files are on one toolrunner's disk, and that it is gone.
func (c *toolCall) placeGone(ctx context.Context) bool {
	if c.place == nil || c.place.Volume != "" {
		return false
	}
	gone, err := c.r.e.beat.Gone(ctx, bus.KindToolrunner, c.place.Toolrunner)
	return err == nil && gone
}

// placeLost is the result of a call whose files can't be reached any more. Running it elsewhere would
// show the model an empty workspace in place of its work.
func (c *toolCall) placeLost() schemas.ToolResult {
	c.r.log.Warn().Str("call", c.id()).Str("toolrunner", c.place.Toolrunner).Msg("a session's workspace is lost with its toolrunner")
	return notRun(fmt.Sprintf("the session's files are on toolrunner %s, which is gone: they are lost to this session, and no other toolrunner has them", c.place.Toolrunner))
}

// untaken is the result of a call that waited in vain.
func (c *toolCall) untaken(limit time.Duration) schemas.ToolResult {
	name := c.start.Definition.Name
	switch {
	case c.place == nil:
		return notRun(fmt.Sprintf("no toolrunner of pool %q took the call of tool %q within %s", c.pool, name, limit))
	case c.place.Volume != "":
		return notRun(fmt.Sprintf("the session's files are on the shared volume %s, and no toolrunner that has it took the call of tool %q within %s", c.place.Volume, name, limit))
	}
	return notRun(fmt.Sprintf("the session's files are on toolrunner %s, which did not take the call of tool %q within %s", c.place.Toolrunner, name, limit))
}

func notRun(why string) schemas.ToolResult {
	return schemas.ToolResult{Output: "[" + why + "; it was not run]", Appends: true, StopReason: schemas.StopFailed}
}
