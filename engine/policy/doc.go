// Package policy judges tool calls by the rules of a project's operator, before anybody is asked.
//
// A [Policy] is read from a YAML file ([Load], [Parse]); docs/operations.md describes it. Each rule
// forbids the calls that it matches: by project, by tool, by the commands that a shell script runs,
// by arguments. [Policy.Judge] depends on nothing but the call and the rules, so an engine may ask it
// again, and gets the same answer.
//
// A rule matches, or does not, or nobody can tell without running the call: the answer to the third
// is the policy's own (undecidable: ask, forbid or allow). A policy is no sandbox. It reads what is
// asked for; what programs do once they run is up to the machine they run on.
//
// Reading order: policy.go (judging), rule.go and arguments.go (matching), file.go (the file).
package policy
