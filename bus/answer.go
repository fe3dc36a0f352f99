package bus

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Answers over the broker's max payload come in parts: one message may be a picture of many
// megabytes. The parts of an answer are sent by one connection to one inbox, so they come in order;
// if one is lost the asker's time runs out, and it asks again.

// headerParts says, in each part of an answer that comes in several, how many there are.
const headerParts = "Braid-Parts"

// headerWorking is in a message that is no answer yet: who was asked lives, and works on it.
const headerWorking = "Braid-Working"

// working tells the asker of a request that it is worked on, every while until done is called. What follows done
// comes behind what was told.
func (c *Conn) working(m *nats.Msg, while time.Duration) (done func()) {
	var (
		mu    sync.Mutex
		over  bool
		timer *time.Timer
	)
	mu.Lock() // until there is a timer
	defer mu.Unlock()
	timer = time.AfterFunc(while, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		notice := nats.NewMsg(m.Reply)
		notice.Header.Set(headerWorking, "1")
		if err := m.RespondMsg(notice); err != nil {
			c.log.Debug().Err(err).Msg("tell an asker to wait")
		}
		timer.Reset(while)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 48 << 20

// respond answers a request, in parts if one message can't hold it all.
func (c *Conn) respond(m *nats.Msg, body []byte) error {
	size := c.maxBody()
	if len(body) <= size {
		return m.Respond(body)
	}
	parts := strconv.Itoa((len(body) + size - 1) / size)
	for len(body) > 0 {
		n := min(size, len(body))
		part := nats.NewMsg(m.Reply)
		part.Header.Set(headerParts, parts)
		part.Data, body = body[:n], body[n:]
		if err := m.RespondMsg(part); err != nil {
			return err
		}
	}
	return nil
}

// request sends a request and returns the whole answer, put together if it comes in parts, of whoever
// answers first. It waits as long as ctx allows, and calls alive whenever somebody says that it works on an answer,
// or sends a part of it.
func (c *Conn) request(ctx context.Context, subject string, body []byte, alive func()) ([]byte, error) {
	inbox := c.nc.NewInbox() // of its own: the shared one takes one message for an answer
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := c.nc.PublishRequest(subject, inbox, body); err != nil {
		return nil, err
	}
	first, err := sub.NextMsgWithContext(ctx)
	for err == nil && first.Header.Get(headerWorking) != "" {
		alive()
		first, err = sub.NextMsgWithContext(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case len(first.Data) == 0 && first.Header.Get("Status") == "503":
		return nil, nats.ErrNoResponders
	case first.Header.Get(headerParts) == "":
		return first.Data, nil
	}
	parts, err := strconv.Atoi(first.Header.Get(headerParts))
	if err != nil || parts < 1 {
		return nil, fmt.Errorf("an answer of %.20q parts", first.Header.Get(headerParts))
	}
	answer := first.Data
	for range parts - 1 {
		alive()
		part, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		if answer = append(answer, part.Data...); len(answer) > maxAnswer {
			return nil, fmt.Errorf("an answer of over %d bytes", maxAnswer)
		}
	}
	return answer, nil
}
