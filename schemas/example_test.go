package schemas_test

import (
	"fmt"

	"braid/schemas"
	"braid/schemas/schematest"
)

// A reader checks each message as it comes; a breach names the guarantee that does not hold.
func ExampleChecker() {
	entries := schematest.MustParse(`
		event request_begin
		streamed text "I look."
		streamed tool_call A ls "{}"
		event token_usage
		+ event request_end completed
		tool_call_output A "go.mod"`)
	c := schemas.NewChecker(schemas.ViewStream)
	for _, e := range entries {
		for _, v := range c.Add(e) {
			fmt.Println(v)
		}
	}
	// Output: 12.0 output-after-decision: output of call A before its decision
}
