package bus

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS and JetStream let tests do to the broker what this package never does.
func (c *Conn) NATS() *nats.Conn               { return c.nc }
func (c *Conn) JetStream() jetstream.JetStream { return c.js }
