package shell

import (
	"slices"
	"strings"
)

// shells run scripts in this language.
var shells = map[string]bool{
	"sh": true, "bash": true, "rbash": true, "dash": true, "ash": true, "hush": true, "zsh": true,
	"ksh": true, "mksh": true, "lksh": true, "pdksh": true, "ksh93": true, "yash": true, "posh": true,
}

// interpreters run programs in other languages, which are not read. Their names come with versions.
var interpreters = map[string]bool{
	"python": true, "pypy": true, "perl": true, "ruby": true, "node": true, "nodejs": true, "deno": true,
	"bun": true, "php": true, "lua": true, "luajit": true, "tclsh": true, "wish": true, "expect": true,
	"osascript": true, "pwsh": true, "powershell": true, "Rscript": true, "R": true, "julia": true,
	"guile": true, "groovy": true, "jshell": true, "irb": true, "ipython": true, "fish": true, "nu": true,
	"elvish": true, "xonsh": true, "csh": true, "tcsh": true, "gdb": true, "lldb": true, "vi": true,
	"vim": true, "nvim": true, "ex": true, "ed": true, "emacs": true, "m4": true,
}

// carriers run a command that stands somewhere among their arguments, here or elsewhere.
var carriers = map[string]bool{
	"parallel": true, "ssh": true, "sshpass": true, "rsh": true, "docker": true, "podman": true, "nerdctl": true,
	"kubectl": true, "oc": true, "flock": true, "script": true, "strace": true, "ltrace": true, "perf": true,
	"unshare": true, "nsenter": true, "systemd-run": true, "runuser": true, "setpriv": true, "capsh": true,
	"firejail": true, "bwrap": true, "fakeroot": true, "proot": true, "chpst": true, "softlimit": true,
	"dbus-run-session": true, "xvfb-run": true, "screen": true, "tmux": true, "start-stop-daemon": true,
	"setarch": true, "linux32": true, "linux64": true, "chrt": true, "numactl": true, "prlimit": true,
	"entr": true, "watchexec": true, "fd": true, "fdfind": true, "su": true, "pkexec": true, "gosu": true,
	"su-exec": true, "tini": true, "dumb-init": true, "unbuffer": true, "catchsegv": true, "valgrind": true,
	"ip": true, "runcon": true, "aa-exec": true, "choom": true, "sg": true, "logsave": true, "systemd-inhibit": true,
	"systemd-cat": true, "systemd-nspawn": true, "machinectl": true, "schroot": true, "lxc": true, "incus": true,
	"uclampset": true, "cgexec": true, "cpulimit": true, "chronic": true, "ifne": true, "mispipe": true,
	"eatmydata": true, "faketime": true, "caffeinate": true, "hyperfine": true, "proxychains": true,
	"proxychains4": true, "torsocks": true, "mosh": true, "autossh": true, "pssh": true, "vagrant": true,
	"direnv": true, "npx": true, "bunx": true, "uv": true, "poetry": true, "pipenv": true, "conda": true,
	"nix": true, "nix-shell": true, "setlock": true, "envdir": true, "setuidgid": true, "run-one": true,
	"jobs": true, "mapfile": true, "readarray": true, "compgen": true, "complete": true, "rlwrap": true,
}

// shell takes the script of sh: behind -c, else its input; one in a file is not known.
func (r *reader) shell(args []Word, stdin *Word) {
	inline := false
	for len(args) > 0 {
		text, ok := args[0].Literal()
		if !ok {
			break
		}
		if text == "--" || text == "-" {
			args = args[1:]
			break
		}
		if len(text) < 2 || text[0] != '-' && text[0] != '+' {
			break
		}
		switch {
		case text == "--version", text == "--help":
			return
		case text == "--rcfile", text == "--init-file":
			r.unclear("a script in a file is run")
			return
		case !strings.HasPrefix(text, "--"):
			inline = inline || text[0] == '-' && strings.Contains(text, "c")
			if strings.ContainsAny(text[1:], "oO") && len(args) > 1 {
				args = args[1:]
			}
			if text[0] == '-' && strings.Contains(text, "s") && !inline {
				r.input(stdin)
				return
			}
		}
		args = args[1:]
	}
	switch {
	case len(args) > 0 && args[0].Spread != One:
		r.unclear("a script inside of it is not known")
	case inline && len(args) > 0:
		r.text(args[0])
	case len(args) > 0:
		r.unclear("a script in a file is run")
	case !inline:
		r.input(stdin)
	}
}

// interpreter notes a program in another language.
func (r *reader) interpreter(name string, args []Word) {
	tells := func(w Word) bool {
		return w.is("--version") || w.is("-V") || w.is("--help") || w.is("-h")
	}
	if !r.doubt && (len(args) != 1 || !tells(args[0])) {
		r.unclear(name + " runs what is no shell script")
	}
}

// special takes the builtins and programs that run things in a way of their own.
func (r *reader) special(name string, args []Word) {
	switch name {
	case "eval":
		r.eval(args)
	case "trap":
		if len(args) > 0 && args[0].is("--") {
			args = args[1:]
		}
		if len(args) > 1 && !args[0].is("-") {
			r.text(args[0])
		}
	case ".", "source":
		if len(args) > 0 {
			r.unclear("a script in a file is run")
		}
	case "alias":
		r.alias(args)
	case "fc":
		if !slices.ContainsFunc(args, func(w Word) bool { return w.is("-l") }) {
			r.unclear("which command is run again is not known")
		}
	case "crontab":
		if !slices.ContainsFunc(args, func(w Word) bool { return w.is("-l") || w.is("-r") }) {
			r.unclear("what is to run later is not known")
		}
	case "watch":
		r.watch(args)
	case "find":
		r.find(args)
	case "awk", "gawk", "mawk", "nawk":
		r.awk(args)
	case "export", "readonly", "declare", "typeset", "local", "read", "printf", "getopts", "unset", "let", "test", "[", "wait":
		r.sets(name, args)
	case "hash", "enable", "bind":
		if slices.ContainsFunc(args, func(w Word) bool { return strings.HasPrefix(w.known(), "-") || !isLiteral(w) }) {
			r.unclear("it changes what a name stands for")
		}
	}
}

func isLiteral(w Word) bool {
	_, ok := w.Literal()
	return ok
}

// eval joins its arguments to a script.
func (r *reader) eval(args []Word) {
	var texts []string
	for i, w := range args {
		text, ok := w.Literal()
		if !ok {
			r.unclear("a script inside of it is not known")
			return
		}
		if i > 0 || text != "--" {
			texts = append(texts, text)
		}
	}
	r.script(strings.Join(texts, " "))
}

// alias takes the text of an alias for a command that is run, with arguments nobody knows.
func (r *reader) alias(args []Word) {
	for _, w := range args {
		text, ok := w.Literal()
		if _, value, has := strings.Cut(text, "="); has {
			r.script(value + ` "$@"`)
		} else if !ok {
			r.unclear("an alias is not known")
		}
	}
}

// watch joins its arguments like eval, behind its options.
func (r *reader) watch(args []Word) {
	w := wrapper{flags: "bcdegprtwx", values: "nq", bare: []string{
		"beep", "color", "differences", "errexit", "chgexit", "precise", "no-rerun", "no-title", "no-wrap", "exec",
	}, long: []string{"interval", "equexit"}}
	_, rest, ok := w.parse(args)
	if !ok {
		r.uncertain(args)
		return
	}
	r.eval(rest)
}

// find takes the commands behind -exec and the like.
func (r *reader) find(args []Word) {
	for i := 0; i < len(args); i++ {
		if args[i].Spread == Any {
			r.unclear("what find does is not known")
			return
		}
		text, _ := args[i].Literal()
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, text) {
			continue
		}
		end := i + 1
		for end < len(args) && !args[end].is(";") && !(args[end].is("+") && args[end-1].is("{}")) {
			end++
		}
		words := slices.Clone(args[i+1 : end])
		for j, w := range words {
			words[j] = w.replaced("{}")
		}
		if end < len(args) && args[end].is("+") && len(words) > 0 {
			words[len(words)-1] = anything()
		}
		r.command(words, nil)
		i = end
	}
}

// awk takes a program that runs nothing for harmless.
func (r *reader) awk(args []Word) {
	for i := 0; i < len(args); i++ {
		text, ok := args[i].Literal()
		switch {
		case ok && (text == "-F" || text == "-v"):
			i++
		case ok && len(text) > 2 && (strings.HasPrefix(text, "-F") || strings.HasPrefix(text, "-v")):
		case !ok, strings.HasPrefix(text, "-"), strings.Contains(text, "system"), strings.ContainsAny(text, "|@"),
			strings.Contains(text, "getline"):
			if !r.doubt {
				r.unclear("awk runs what is no shell script")
			}
			return
		default:
			return
		}
	}
}

// sets takes the builtins that set variables, or look into arrays whose index may hold a command.
func (r *reader) sets(name string, args []Word) {
	for i, w := range args {
		known := w.known()
		if strings.Contains(known, "$(") || strings.Contains(known, "`") {
			if name != "printf" || i > 0 && args[i-1].is("-v") {
				r.unclear("an index may hold a command")
			}
			continue
		}
		switch name {
		case "test", "[", "wait", "let":
			continue
		case "printf":
			if i == 0 || !args[i-1].is("-v") {
				continue
			}
		}
		r.assignment(w)
		if !isLiteral(w) && !strings.Contains(known, "=") {
			r.unclear("which variable it sets is not known")
		}
	}
}
