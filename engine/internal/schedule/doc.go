// Package schedule plays the timelines of engine/testdata/timelines on the pure core, in many
// orders. There is no network, no goroutine and no clock: one loop picks, of all that can happen
// now, what happens next. So an order is a list of steps that can be printed, played again and made
// shorter. It holds tests only.
//
// A file is played in two ways. In the strict one the script's steps come in the script's order,
// each when the one before has had its effect, as on real engines; free is all that the script does
// not order: when the model says its next word, when frames are acknowledged, when output is heard,
// when timers run out. Whatever the order, the session comes to what the file says. In the free one
// people, tools, engines and gates each keep their own steps in order, and wait for nobody else: a
// tool may end before the model has spoken, an engine may be lost at any point, with its frame in
// flight stored or not. Then what the session comes to may be another thing, and what is guaranteed
// holds all the same.
//
//	go test ./engine/internal/schedule -v                 how many orders of each file were played
//	go test ./engine/internal/schedule -orders 10000      play more, of each file
//	go test ./engine/internal/schedule -seed 7            play others
//	go test ./engine/internal/schedule -run Replay -v -story free/retry-now -order "ack | model | ack"
//
// An order need not be complete: where it does not say what happens, what comes first in the story
// does, until its next step can. The order that a failure prints is as short as it could be made.
//
//	stage_test.go    one session, its owners and the broker
//	cast_test.go     the model and the tools
//	script_test.go   whose turn it is, by the script
//	moves_test.go    all that can happen now
//	checks_test.go   what holds at any point, and what at the end
//	reader_test.go   what models must be sent, worked out from the log alone
//	order_test.go    orders: drawn, played again, made shorter
//	explore_test.go  the tests
package schedule
