package toolrunner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"braid/schemas"
)

// WorkspaceDir is the directory that a session's workspace is on this machine, absolute: a relative
// one lies in base, and base it is for sessions that have none. One that is missing is an error and
// never made: an empty directory in place of a lost one would look to the model as if its work had
// vanished.
func WorkspaceDir(base, workspace string) (string, error) {
	dir := base
	switch {
	case filepath.IsAbs(workspace):
		dir = workspace
	case workspace != "":
		dir = filepath.Join(base, workspace)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("use the workspace: %w", err)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", schemas.Errorf(schemas.CodeNotFound, "the workspace %s does not exist on this toolrunner", dir)
	case err != nil:
		return "", fmt.Errorf("use the workspace: %w", err)
	case !info.IsDir():
		return "", schemas.Errorf(schemas.CodeInvalid, "the workspace %s is not a directory", dir)
	}
	return dir, nil
}
