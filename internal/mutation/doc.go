// Package mutation breaks guarantees on purpose. Each file of testdata is a mutant: one sentence that
// says which guarantee it breaks, a place in the code, what stands there and what stands there
// instead, and the tests that are expected to notice:
//
//	The decision on a call waits for the request's end.
//	-- engine/internal/session/approval.go --
//		if !r.live() || st.loopNear() {
//	-- becomes --
//		if r.Open || !r.live() || st.loopNear() {
//	-- tests --
//	./engine/internal/schedule
//	./engine -run Timelines
//
// With the other tests it is checked that what a mutant replaces is there, once, and that the code
// compiles with it: one that is stale says so. `make mutants` runs them: each is compiled in with
// an overlay, so no file of the repository is touched, its tests run line after line until one
// fails, and docs/mutants.md says which. One that no test notices is a missing test, and fails.
//
//	mutant.go        reading and applying them
//	report.go        the table, and what a failed run says
//	check_test.go    they apply, and compile
//	mutants_test.go  they are noticed
package mutation
