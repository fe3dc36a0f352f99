// Package bench measures whole Braid: everything real, the toolrunner in a process of its own.
//
//	go test ./bench -bench . -benchtime 2000x
//
// The figures depend on the machine and on what else it does; compare medians of runs on one
// machine, and ratios.
package bench
