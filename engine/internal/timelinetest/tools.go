package timelinetest

import "braid/schemas"

// Tools are the tools of every toolrunner of a timeline.
func Tools() []schemas.ToolDefinition {
	return []schemas.ToolDefinition{
		{Name: "look", Description: "reads", Permission: schemas.PermissionRead, Retry: schemas.RetrySafe},
		{Name: "write", Description: "changes", Permission: schemas.PermissionReadWrite},
		{Name: "nobody", Description: "has no toolrunner", Pool: "empty", Permission: schemas.PermissionRead, QueueTimeoutMS: 100},
	}
}
