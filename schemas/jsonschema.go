package schemas

import (
	"embed"
	"io/fs"
)

//go:embed jsonschema/*.json
var schemaFiles embed.FS

// JSONSchemas holds the JSON Schema (2020-12) of every type that crosses a process boundary:
// "<name>.json" for the envelope (message), each payload (by its kind), command, outcome,
// tool_request, tool_record, tool_fragment, tool_result, turn_event, error, and the parts they
// refer to.
// References are relative to one another. Every schema is open to members it does not know.
func JSONSchemas() fs.FS {
	files, err := fs.Sub(schemaFiles, "jsonschema")
	if err != nil {
		panic(err) // the path is a constant and valid
	}
	return files
}
