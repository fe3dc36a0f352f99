package cli

import (
	"crypto/rand"
	"encoding/hex"
)

// EnvToken is the environment variable of the gateway's bearer token.
const EnvToken = "BRAID_TOKEN"

// NewToken makes a token that nobody guesses: 192 random bits.
func NewToken() string {
	var b [24]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
