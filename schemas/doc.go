// Package schemas is Braid's vocabulary: the messages of a session stream, the commands that
// drive a session, the errors people meet, and the rules a stream obeys.
//
// Everything Braid stores, sends or shows is a [Message]: one envelope, one JSON object on one
// line. What flows, what is kept and what the model sees have the same shape. A [Message] holds
// one [Payload]; the payload's Go type says what it is:
//
//	switch p := m.Payload.(type) {
//	case *schemas.Text:        // what somebody said
//	case *schemas.ToolCall:    // what the model wants done
//	case *schemas.RequestEnd:  // how one model call ended
//	case *schemas.Unknown:     // from a newer version: kept, never dropped
//	}
//
// Start reading at message.go (the envelope), payload.go (the payloads), codec.go (how both
// become bytes) and rules.go (the guarantees of a stream, which a [Checker] checks); a [TurnView]
// tells a stream turn by turn. The folder jsonschema describes every type for other languages;
// package schematest helps tests.
//
// Messages are values: once built they are not changed, so they may be shared between
// goroutines without a lock. The package holds no state, starts no goroutine and imports
// nothing else of Braid.
package schemas
