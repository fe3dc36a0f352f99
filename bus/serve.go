package bus

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// serveBacklog is how many requests may wait for a worker; more are dropped, and their senders
// run into their own deadlines.
const serveBacklog = 1024

// serve calls handle for each message on the subject, on its own goroutines. With a queue, one
// of all servers of that queue gets each message. stop ends the subscription, cancels the context
// handlers were given and waits for them; requests that come later find no responder.
func (c *Conn) serve(subject, queue string, workers int, handle func(context.Context, *nats.Msg)) (stop func(), err error) {
	requests := make(chan *nats.Msg, serveBacklog)
	sub, err := c.nc.ChanQueueSubscribe(subject, queue, requests)
	if err == nil {
		err = c.subscribed(sub) // served from now on, not from some time soon
	}
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", subject, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				select {
				case m := <-requests:
					handle(ctx, m)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		if err := sub.Unsubscribe(); err != nil {
			c.log.Debug().Err(err).Str("subject", subject).Msg("end of service")
		}
		cancel()
		wg.Wait()
	}), nil
}
