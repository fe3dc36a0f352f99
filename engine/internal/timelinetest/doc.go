// Package timelinetest reads the stories of engine/testdata/timelines, and writes sessions in their
// notation. Its README there says what a file holds and what its steps mean; who plays them says
// what they do: package engine on real engines, package schedule on the pure core alone.
//
//	timeline.go  a file and its sections
//	script.go    its script, step by step
//	command.go   the commands that steps send
//	input.go     what prompts hold beside words
//	names.go     messages and inputs as a file shows them
//	tools.go     the tools of its toolrunners
//	usage.go     what requests used, as a file shows it
//	told.go      what nobody may see but the model
package timelinetest
