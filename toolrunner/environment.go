package toolrunner

import (
	"slices"
	"strings"
)

// markName is the variable that marks the processes of a call.
const markName = "BRAID_CALL"

// allowedEnv is what commands see of the toolrunner's environment, unless told otherwise: what
// programs need to work, and nothing that could be a credential.
func allowedEnv(name string) bool {
	switch name {
	case "PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// secretEnv never passes, also when asked for: the toolrunner's own credentials are among them.
func secretEnv(name string) bool {
	name = strings.ToUpper(name)
	return strings.HasPrefix(name, "BRAID") || strings.HasPrefix(name, "NATS")
}

// environment is what a command's process gets: the allowed part of environ, the variables named
// in pass, the directory, a terminal that can do nothing, and the mark ("NAME=value").
func environment(environ, pass []string, dir, mark string) []string {
	env := make([]string, 0, 16)
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if (allowedEnv(name) || slices.Contains(pass, name)) && !secretEnv(name) {
			env = append(env, pair)
		}
	}
	return append(env, "TERM=dumb", "PWD="+dir, mark)
}
