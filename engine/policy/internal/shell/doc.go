// Package shell reads shell scripts for the commands they run, without running anything.
//
// [Read] gives a script's [Command]s, each a list of [Word]s as the program would get them: quotes
// and escapes are gone, braces expanded, wrappers such as sudo or sh -c opened. What only running it
// could tell is not guessed: a word has holes where that is so, and a script that may run more than
// could be read says why. So whoever asks "does it run this?" can be answered yes, no, or that nobody
// can tell; never no where it should have been one of the others, within the bounds that
// docs/operations.md names.
//
// Which shell sh is differs between machines. A script is read as Bash and as a POSIX shell would
// read it, and what either would run counts.
//
// Reading order: read.go (a script), walk.go and feed.go (its statements), expand.go (words), braces.go and
// ansi.go ($'...') for two kinds of them, variables.go, then command.go (a command and what it opens),
// wrapper.go and special.go (what opens what), and last the matching: truth.go (its three answers), word.go,
// glob.go and pattern.go (patterns of commands).
package shell
