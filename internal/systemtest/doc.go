// Package systemtest tests the whole system as it is run: every engine, toolrunner and gateway is
// a process of its own, built from this repository, and tests kill, stop and restart them while
// sessions are at work. It holds tests only.
//
//	main_test.go      builds the binaries once
//	process_test.go   one process: start, signals, its log
//	world_test.go     a broker and the processes around it
//	api_test.go       a client of the HTTP API
//	session_test.go   one session, watched in three ways for as long as it lives
//	sse_test.go       watcher 1: server-sent events, cut off and resumed at random
//	rawnats_test.go   watcher 2: a subscriber that speaks the broker's protocol by itself
//	verify_test.go    what must hold for a session at the end, whatever happened to it
//	held_test.go      a model that the test itself plays
//	testdata/scripts  what the other models say
//
// The other files are the tests. Each ends with [session.verify], and logs how long it took from
// the blow to the first new message of the session. Flags, after -args or directly:
//
//	-rounds N    strike each blow N times and log the median
//	-chaos D     how long TestChaos strikes at random; 0 leaves it out
//	-pause D     the longest pause between two of these strikes
//	-sessions N  how many sessions are at work meanwhile
//	-cluster     do so on a broker of three nodes
//	-seed N      repeat the random choices of a run, as far as they decide
//	-artifacts   keep the logs of all processes, see go help testflag
//
// With BRAID_RACE=1 the binaries are built with the race detector. What a race detector finds in
// one of them, or a panic, fails the test.
package systemtest
