package cli

import (
	"crypto/rand"
	"encoding/hex"
)

// NewToken makes a token that nobody guesses: 192 random bits.
func NewToken() string {
	var b [24]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
