package bus

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	cases := []struct{ given, shown, reason string }{
		{"nats://127.0.0.1:4222", "nats://127.0.0.1:4222", "nothing to hide"},
		{"nats://me:secret@host:4222", "nats://xxxxx@host:4222", "user and password"},
		{"nats://secret@host", "nats://xxxxx@host", "a token"},
		{"me:secret@host:4222", "xxxxx@host:4222", "no scheme"},
		{"nats://me:sec@ret@host", "nats://xxxxx@host", "an @ that was not escaped"},
		{"nats://me:secret://x@host", "nats://xxxxx@host", "what looks like a scheme in a password"},
		{"nats://a:secret@one,tls://b:secret@two:1", "nats://xxxxx@one,tls://xxxxx@two:1", "several"},
	}
	for _, c := range cases {
		if got := redact(c.given); got != c.shown {
			t.Errorf("%s: %q is shown as %q, not %q", c.reason, c.given, got, c.shown)
		}
	}
}

// What goes wrong while connecting is told without what opens the broker.
func TestConnectKeepsSecrets(t *testing.T) {
	t.Parallel()
	cases := []struct {
		url, reason string
		unreachable bool
	}{
		{"nats://me:s3cret@127.0.0.1:1", "a password for a broker that is not there", true},
		{"nats://s3cret@127.0.0.1:1", "a token for a broker that is not there", true},
		{"nats://me:s3cret/x@127.0.0.1:1", "a slash that was not escaped", false},
		{"nats://me:s3cret%zz@127.0.0.1:1", "a broken escape", false},
		{"me:s3cret", "no host", false},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			_, err := Connect(t.Context(), Options{URL: c.url, ConnectWait: time.Millisecond, Log: zerolog.New(&log)})
			if err == nil {
				t.Fatal("connected")
			}
			if errors.Is(err, ErrUnreachable) != c.unreachable {
				t.Errorf("unreachable is not %v: %v", c.unreachable, err)
			}
			if strings.Contains(err.Error()+log.String(), "s3cret") {
				t.Errorf("the secret is shown: %v; logged: %s", err, &log)
			}
		})
	}
}
