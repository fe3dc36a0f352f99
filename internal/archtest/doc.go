// Package archtest holds the house rules that a compiler can't check: which package may import
// which, what the pure packages must not touch, how long a file may be, and that the documents
// name what exists. Its tests run them over the whole repository with the other tests, in well
// under a second.
//
// A rule is a function from a [Tree] to [Problem] values. Each problem says what is wrong, why
// that matters here, and what to do instead: the message is the documentation. Every rule has
// fixtures that prove it can fail.
//
//	tree.go       the parsed repository
//	layers.go     who imports whom, and who may use which library
//	calls.go      functions that are not called, and what is called instead
//	purity.go     packages without goroutines, clocks, I/O and randomness
//	style.go      sizes, package comments, lists of files, goroutines, package variables, paths
//	documents.go  README, Makefile, package map and list of dependencies against the code
//
// Nothing imports this package.
package archtest
