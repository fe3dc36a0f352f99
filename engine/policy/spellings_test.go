package policy

import (
	"testing"

	"braid/schemas"
)

// spellingRules are what the table below is about.
const spellingRules = `
rules:
  - name: no-recursive-delete
    commands: [rm -r|-R|--recursive]
  - name: no-force-push
    commands: [git push --force|-f]
  - name: no-raw-disks
    commands: [dd of=/dev/*]
  - name: no-shutdown
    commands: [shutdown|reboot]
`

func mustParse(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// execArguments is a call of exec_command as a model makes it.
func execArguments(t fataler, script string) string {
	t.Helper()
	b, err := schemas.EncodeJSON(map[string]string{"command": script})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	p := mustParse(t, spellingRules)
	for _, row := range spellings {
		got := p.Judge("p", "exec_command", execArguments(t, row.script))
		if got.Ruling != row.want {
			t.Errorf("%s\n%s\ngot %q (rule %s), want %q", row.why, row.script, got.Ruling, got.Rule, row.want)
		}
	}
}

var spellings = []struct {
	script string
	want   Ruling
	why    string
}{
	// One word has many spellings.
	{`rm -r /x`, Forbidden, "plain"},
	{`'rm' -r /x`, Forbidden, "single quotes"},
	{`"rm" -r /x`, Forbidden, "double quotes"},
	{`r\m -r /x`, Forbidden, "a backslash takes a letter"},
	{`'r'm -r /x`, Forbidden, "quotes around a part"},
	{`r""m -r /x`, Forbidden, "empty quotes within"},
	{`$'rm' -r /x`, Forbidden, "ANSI quotes"},
	{`$'\x72m' -r /x`, Forbidden, "hexadecimal in ANSI quotes"},
	{`$'\162\155' -r /x`, Forbidden, "octal in ANSI quotes"},
	{`$'\u0072m' -r /x`, Forbidden, "Unicode in ANSI quotes"},
	{`$"rm" -r /x`, Forbidden, "translated quotes"},
	{"r\\\nm -r /x", Forbidden, "a line that goes on"},
	{`{rm,-r,/x}`, Forbidden, "braces make several words"},
	{`r{m,} -r`, Forbidden, "braces in a word"},
	{`\rm -r /x`, Forbidden, "past an alias"},
	{`/bin/rm -r /x`, Forbidden, "by its path"},
	{`./../bin/rm -r /x`, Forbidden, "by a path with detours"},
	{`"$HOME"/bin/rm -r /x`, Forbidden, "the name is known, its directory is not"},

	// Options.
	{`rm -rf /x`, Forbidden, "with others in one word"},
	{`rm -fr /x`, Forbidden, "not the first"},
	{`rm -f -r /x`, Forbidden, "in a word of its own"},
	{`rm /x -r`, Forbidden, "behind the operands"},
	{`rm -R /x`, Forbidden, "an alternative"},
	{`rm --recursive --force /x`, Forbidden, "long"},
	{`rm --rec /x`, Ask, "shortened: whether that is taken is up to the program"},
	{`rm '-r' /x`, Forbidden, "quoted"},
	{`rm "-"r /x`, Forbidden, "quoted in part"},
	{`git push -f`, Forbidden, "behind a subcommand"},
	{`git -C /repo push origin main --force`, Forbidden, "options before the subcommand"},
	{`git push --force-with-lease`, Silent, "another option that begins alike"},
	{`dd if=/dev/zero of=/dev/sda`, Forbidden, "an operand"},
	{`dd if=/dev/zero of=/dev/../dev/sda`, Forbidden, "an operand with detours, which the glob takes"},
	{`dd of=/tmp/x`, Silent, "another operand"},

	// Where commands stand.
	{`true; rm -r /x`, Forbidden, "a list"},
	{`true && rm -r /x`, Forbidden, "and"},
	{`false || rm -r /x`, Forbidden, "or"},
	{`true | rm -r /x`, Forbidden, "a pipeline"},
	{`true & rm -r /x`, Forbidden, "behind a background command"},
	{"true\nrm -r /x", Forbidden, "another line"},
	{`(rm -r /x)`, Forbidden, "a subshell"},
	{`((rm -r /x))`, Forbidden, "arithmetic in Bash, two subshells elsewhere"},
	{`{ rm -r /x; }`, Forbidden, "a block"},
	{`echo $(rm -r /x)`, Forbidden, "a substitution"},
	{"echo `rm -r /x`", Forbidden, "an old substitution"},
	{`echo "a $(rm -r /x) b"`, Forbidden, "a substitution in quotes"},
	{`cat <(rm -r /x)`, Forbidden, "a process substitution"},
	{`echo ${x:-$(rm -r /x)}`, Forbidden, "a default value"},
	{`echo $(( $(rm -r /x) + 1 ))`, Forbidden, "within arithmetic"},
	{`x=$(rm -r /x)`, Forbidden, "an assignment"},
	{"cat <<EOF\n$(rm -r /x)\nEOF", Forbidden, "a here-document that is expanded"},
	{`if rm -r /x; then :; fi`, Forbidden, "a condition"},
	{`if true; then :; else rm -r /x; fi`, Forbidden, "a branch"},
	{`for i in 1 2; do rm -r /x; done`, Forbidden, "a for loop"},
	{`while rm -r /x; do :; done`, Forbidden, "a while loop"},
	{`case a in a) rm -r /x;; esac`, Forbidden, "a case"},
	{`f() { rm -r /x; }; f`, Forbidden, "a function"},
	{`A=b rm -r /x`, Forbidden, "behind an assignment"},
	{`>out rm -r /x 2>&1`, Forbidden, "among redirections"},
	{`! rm -r /x`, Forbidden, "negated"},
	{`time rm -r /x`, Forbidden, "timed"},
	{`coproc rm -r /x`, Forbidden, "beside the script"},
	{`[ -d /x ] && rm -r /x`, Forbidden, "behind a test"},

	// What opens commands.
	{`sudo rm -r /x`, Forbidden, "sudo"},
	{`sudo -n -u root -- rm -r /x`, Forbidden, "sudo with options"},
	{`sudo A=b rm -r /x`, Forbidden, "sudo with an assignment"},
	{`sudo --wonder rm -r /x`, Ask, "an option that is not known: where the command begins is not clear"},
	{`env -i A=b rm -r /x`, Forbidden, "env"},
	{`env -S 'rm -r' /x`, Forbidden, "env with several words in one"},
	{`nohup nice -n 5 timeout -k 1 10s rm -r /x`, Forbidden, "several, one in another"},
	{`timeout --signal=KILL 10 rm -r /x`, Forbidden, "a long option with its value"},
	{`stdbuf -oL rm -r /x`, Forbidden, "stdbuf"},
	{`command rm -r /x`, Forbidden, "past a function"},
	{`exec -a x rm -r /x`, Forbidden, "in place of the shell"},
	{`builtin command rm -r /x`, Forbidden, "a builtin"},
	{`busybox rm -r /x`, Forbidden, "one program that is many"},
	{`find / -name x -exec rm -r {} \;`, Forbidden, "find"},
	{`find / -execdir rm -r {} +`, Forbidden, "find, many at once"},
	{`find / -exec sh -c 'rm -r "$1"' _ {} \;`, Forbidden, "find with a script"},
	{`echo /x | xargs rm -r`, Forbidden, "xargs"},
	{`echo /x | xargs -0 -n1 -I{} rm -r {}`, Forbidden, "xargs with options"},
	{`echo -r /x | xargs rm`, Ask, "what xargs puts behind is not known"},
	{`sh -c 'rm -r /x'`, Forbidden, "a script in a script"},
	{`bash -lc "rm -r /x"`, Forbidden, "options in one word"},
	{`bash -o pipefail -c 'true; rm -r /x'`, Forbidden, "an option with a value"},
	{`sh -c "sh -c 'rm -r /x'"`, Forbidden, "two deep"},
	{`eval rm -r /x`, Forbidden, "eval"},
	{`eval 'r''m' "-r /x"`, Forbidden, "eval joins its words"},
	{`trap 'rm -r /x' EXIT`, Forbidden, "at the end"},
	{"bash <<EOF\nrm -r /x\nEOF", Forbidden, "a here-document to a shell"},
	{"bash <<'EOF'\nrm -r /x\nEOF", Forbidden, "the same, not expanded"},
	{"sh -s <<-EOF\n\trm -r /x\n\tEOF", Forbidden, "the same, indented"},
	{`bash <<< 'rm -r /x'`, Forbidden, "a here-string"},
	{`watch -n 1 'rm -r /x'`, Forbidden, "again and again"},
	{`X=rm; $X -r /x`, Forbidden, "a variable that is known"},
	{`X='rm -r'; $X /x`, Forbidden, "a variable of two words"},
	{`X=rm && "$X" -r /x`, Forbidden, "a variable in quotes"},
	{`alias x='rm -r'; x /x`, Forbidden, "an alias"},
	{`ssh host rm -r /x`, Ask, "another machine"},
	{"ssh host <<EOF\nrm -r /x\nEOF", Ask, "another machine that reads a script"},
	{`cat x.sh | ssh host`, Ask, "another machine that reads a script through a pipe"},
	{`echo 'rm -r /x' | tee log | ssh host sh`, Ask, "the last of several pipes"},
	{`cat x.sh | { read l; ssh host sh; }`, Ask, "inside of a block that reads the pipe"},
	{`while read l; do ssh host; done < x.sh`, Ask, "inside of a loop that reads a file"},
	{`{ ssh host; } <<< 'rm -r /x'`, Ask, "inside of a block that reads a here-string"},
	{`f() { ssh host; }; cat x.sh | f`, Ask, "in a function"},
	{`cat x.sh | sudo ssh host`, Ask, "behind a wrapper"},
	{`cat x.sh | sudo --wonder ssh host`, Ask, "behind a wrapper that is not understood"},
	{`cat x.sh | sh -c 'ssh host'`, Ask, "in a script inside of it"},
	{`sh -c 'ssh host' < x.sh`, Ask, "in a script inside of it that is given a file"},
	{`sh -c 'eval "ssh host"' <<< 'rm -r /x'`, Ask, "two deep"},
	{`cat x.sh > >(ssh host)`, Ask, "a process that reads what another writes"},
	{`coproc ssh host; cat x.sh >&"${COPROC[1]}"`, Ask, "beside the script, which writes to it"},
	{`exec < x.sh; ssh host`, Ask, "the shell itself reads from elsewhere"},
	{`cat x.sh |& docker exec -i c sh`, Ask, "a container, both outputs"},
	{"at now <<EOF\nrm -r /x\nEOF", Forbidden, "later"},
	{`echo /x | xargs --replace=% rm -r %`, Forbidden, "a long option with its value"},
	{`docker run alpine rm -r /x`, Ask, "a container"},
	{`ssh host 'rm -r /x'; sh -c 'rm -r /x'`, Forbidden, "what was read in doubt, run for sure"},
	{`su root -c 'rm -r /x'`, Ask, "an argument that may be a script"},
	{`ip netns exec x rm -r /x`, Ask, "another network"},
	{`choom -n 500 -- rm -r /x`, Ask, "a program that runs another with a setting"},
	{`nix-shell --run 'rm -r /x'`, Ask, "an environment that is made for a script"},
	{`hyperfine 'rm -r /x'`, Ask, "a script that is measured"},
	{`crontab - <<< '0 * * * * rm -r /x'`, Ask, "every hour"},
	{`ip addr; crontab -l; npx eslint .; uv run pytest`, Silent, "none of them does more than it says"},
	{"rm -r /x\n)", Forbidden, "a script that can't be parsed runs up to there"},

	// What only running it can tell.
	{`$UNKNOWN -r /x`, Ask, "a name from a variable"},
	{`$UNKNOWN rm -r /x`, Ask, "a variable that may be empty"},
	{`r${x}m -r /x`, Ask, "a part of the name"},
	{`$(echo rm) -r /x`, Ask, "a name from a command"},
	{`rm $FLAGS /x`, Ask, "options from a variable"},
	{`rm "$X"`, Ask, "an operand that may be an option"},
	{`rm *`, Ask, "a file may be named -r"},
	{`/bin/r? -r /x`, Ask, "a name from a pattern"},
	{`echo cm0gLXIgLw== | base64 -d | sh`, Ask, "a shell that reads"},
	{`python3 -c 'import os'`, Ask, "another language"},
	{`./deploy.sh`, Ask, "a script in a file"},
	{`bash deploy.sh`, Ask, "a script in a file, named to a shell"},
	{`. ./env.sh`, Ask, "a script in a file that is read"},
	{`eval "$X"`, Ask, "eval of a variable"},
	{`sh -c "$X"`, Ask, "a script from a variable"},
	{`X=rm; read X; $X -r /x`, Ask, "a variable that is set again"},
	{`X=ls; X=rm; $X -r /x`, Ask, "a variable with two values"},
	{`for c in ls rm; do $c -r /x; done`, Ask, "a variable of a loop"},
	{`c=(rm -r /x); "${c[@]}"`, Ask, "an array"},
	{`f() { "$@"; }; f rm -r /x`, Ask, "arguments of a function"},
	{`PATH=/tmp/x:$PATH; ls`, Ask, "names stand for something else"},
	{`x='a[$(rm -r /x)]'; echo $((x))`, Ask, "arithmetic looks into a text"},
	{`test -v 'a[$(rm -r /x)]'`, Ask, "a test looks into an index"},
	{`(i='a[$(rm -r /x)]'; [ "-v" "$i" ])`, Ask, "the same, of a variable"},
	{`echo "${x:-'}"; rm -r /x #'}"`, Ask, "a quote that is none, since it stands in double quotes"},
	{`echo "${x:-"${y:-'}"}"; rm -r /x #'}"`, Ask, "the same, deeper"},
	{"cat <<E\n${x:-'}\nE\nrm -r /x #'}\nE", Ask, "the same, in a here-document"},
	{`x=($(BASH_CMDS[ls]=/bin/rm; ls -r))`, Ask, "names stand for something else"},
	{`PS1='$(rm -r /x)' bash -i <<< :`, Ask, "what a prompt expands"},
	{`history -s 'rm -r /x'; fc -s`, Ask, "an earlier command"},
	{`x='a[$(rm -r /x)]'; [[ x -eq 0 ]]`, Ask, "a test compares numbers"},
	{`x=$'a[\x24(rm -r /x)]'; [[ x -lt 0 ]]`, Ask, "the same, of a text with escapes"},
	{`x='a[$(rm -r /x)]'; declare -i y=x`, Ask, "a variable is declared to be a number"},
	{`declare -n y='a[$(rm -r /x)]'; echo $y`, Ask, "or to stand for another"},
	{`x=($(declare 'a[$(rm -r /x)]=1'))`, Ask, "an array is declared"},
	{`i='a[$(rm -r /x)]'; b[i]=1`, Ask, "an index is assigned to"},
	{`i='a[$(rm -r /x)]'; b=([i]=1)`, Ask, "or many"},
	{"((case x in x) $\"rm\" $\"-r\" /x\n;; esac\n)\n)", Ask, "two subshells that look like arithmetic, to the parser as well"},
	{`x='$(rm -r /x)'; echo "${x@P}"`, Ask, "a text that is expanded like a prompt"},
	{`sudo -i <<< 'rm -r /x'`, Forbidden, "a shell that sudo starts"},
	{`awk 'BEGIN { system("x") }'`, Ask, "awk runs commands"},
	{`echo 'unfinished`, Ask, "nothing can be parsed"},
	{`if true; then`, Ask, "nothing that ends"},

	// What looks like it and is not.
	{`echo rm -r /x`, Silent, "an argument of echo"},
	{`echo 'rm -r /x; rm -r /y'`, Silent, "a text"},
	{`grep -r 'rm -r' .`, Silent, "what is searched for"},
	{`ls # rm -r /x`, Silent, "a comment"},
	{`git commit -m 'rm -r everything'`, Silent, "a message"},
	{`rm /x`, Silent, "without the option"},
	{`rm -f /x`, Silent, "another option"},
	{`rm -f "./$X"`, Silent, "an operand that can't be an option"},
	{`rmdir -r /x`, Silent, "another name"},
	{`command -v rm`, Silent, "is it there?"},
	{`which rm; type rm; man rm`, Silent, "what is it?"},
	{`cat <<'EOF' > x.sh` + "\nrm -r /x\nEOF", Silent, "a here-document that goes to a file"},
	{`ls *.go | wc -l`, Silent, "patterns among the arguments of another"},
	{`cat "$FILE" | grep $WORD | awk '{print $1}'`, Silent, "names are known, arguments don't matter"},
	{`sudo -u rm ls -r`, Silent, "the value of an option"},
	{`find . -name rm -type f`, Silent, "find without a command"},
	{`xargs echo rm -r`, Silent, "an argument of echo, behind xargs"},
	{`for f in *.go; do gofmt -l "$f"; done`, Silent, "a loop over files"},
	{`python3 --version`, Silent, "an interpreter that tells of itself"},
	{`go test ./... && git push`, Silent, "programs that run others in a way of their own"},
	{`x=1; echo $((x + 1)) "${#x}"`, Silent, "arithmetic"},
	{`[[ $x -gt 3 && -n "$y" ]] && declare -r z=1`, Silent, "arithmetic without a text that holds a command"},
	{`echo "${x:-y}" '${z}' "it's ${x%.go}"; fc -l`, Silent, "quotes that are"},
	{`export A=b; [ "$x" -gt 3 ] && awk '{print $(NF)}' f`, Silent, "what looks like a command in a text, and no arithmetic"},
	{`test -n "$CI" && export FOO=bar && make -j4`, Silent, "everyday lines"},
	{`docker run --rm -it alpine ls -r`, Silent, "a container that does something else"},
	{`ssh host ls | grep -v rm | head`, Silent, "what another machine says goes through a pipe"},
	{`cat hosts | grep -v x && ssh host ls`, Silent, "beside a pipe"},
	{`cat x.sh | ssh host ls < /dev/null`, Silent, "a pipe that is not read"},
	{`for h in a b; do ssh host uptime; done`, Silent, "a loop that reads nothing"},
	{``, Silent, "nothing"},
}

// fataler is a test of any kind.
type fataler interface {
	Helper()
	Fatal(args ...any)
}
