package bus_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"braid/bus"
	"braid/schemas"
)

// The connection is lost while somebody waits for the broker to know of a subscription: it comes back,
// and so does the subscription.
func TestSubscribeWhileTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	b, p, c := throughProxy(t)
	ref := newSession()
	for _, row := range []struct {
		what, subject string
		subscribe     func() (stop func(), err error)
	}{
		{"a follower", bus.FeedSubject(ref, "*"), func() (func(), error) {
			f, err := c.Follow(testContext(t), ref, bus.FollowOptions{Beginning: true})
			if err != nil {
				return nil, err
			}
			return func() { f.Close() }, nil
		}},
		{"who takes output", ".fragment." + ref.ID, func() (func(), error) {
			return c.SubscribeFragments(ref, func(schemas.ToolFragment) {}, func() {})
		}},
		{"who answers", "braid.query", func() (func(), error) {
			return c.ServeQueries(func(context.Context, bus.Query) (any, error) { return nil, nil })
		}},
	} {
		p.setMute(true)
		done := make(chan error)
		go func() {
			stop, err := row.subscribe()
			if err == nil {
				stop()
			}
			done <- err
		}()
		eventually(t, row.what+" has subscribed", func() bool {
			subjects, err := b.Nodes[0].Subscriptions()
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(subjects, func(s string) bool { return strings.HasSuffix(s, row.subject) })
		})
		p.setMute(false)
		p.cut()
		if err := <-done; err != nil {
			t.Fatalf("%s: %v", row.what, err)
		}
	}
}
