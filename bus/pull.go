package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/schemas"
)

// puller takes messages from a durable pull consumer, never more than its caller can start at
// once: what is fetched ahead expires unseen while the caller works, and is handed out twice.
// The consumer is created when it is missing.
type puller struct {
	c      *Conn
	stream string
	config jetstream.ConsumerConfig
}

const (
	// defaultPullWait is how long one pull waits for a message. A pull can't be taken back: whoever
	// stops has to wait for its end, or a message that is handed out meanwhile reaches nobody and
	// is late by the whole time the broker waits for an answer to it.
	defaultPullWait = 500 * time.Millisecond
	// pullSlack is how much longer its end may take to arrive. A pull that the broker forgot, at
	// a change of leader, keeps its caller no longer.
	pullSlack = 500 * time.Millisecond
)

// pullRequest asks a consumer for up to Batch messages of MaxBytes in all (0: of any size): those that
// are there at once, else the first that comes within Expires (nanoseconds).
type pullRequest struct {
	Batch    int   `json:"batch"`
	MaxBytes int   `json:"max_bytes,omitzero"`
	Expires  int64 `json:"expires"`
	NoWait   bool  `json:"no_wait"`
}

// nextMessages is the subject on which a consumer takes such requests.
func nextMessages(stream, consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer
}

// ensure creates the consumer or adjusts the one that exists.
func (p *puller) ensure(ctx context.Context) error {
	if _, err := p.c.js.CreateOrUpdateConsumer(ctx, p.stream, p.config); err != nil {
		return fmt.Errorf("create consumer %s on %s: %w", p.config.Durable, p.stream, err)
	}
	return nil
}

// pull returns 1 to most messages, or none after about [Options.PullWait]. When ctx ends it lets the pull
// come to its end, gives back what that brings, so that nobody waits for it, and returns the
// context's error.
func (p *puller) pull(ctx context.Context, most int) ([]*nats.Msg, error) {
	if most <= 0 {
		return nil, fmt.Errorf("pull from %s: asked for %d messages", p.stream, most)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inbox := p.c.nc.NewInbox()
	sub, err := p.c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("pull from %s: %w", p.stream, err)
	}
	body, err := schemas.EncodeJSON(pullRequest{Batch: most, Expires: int64(p.c.pullWait), NoWait: true})
	if err == nil {
		err = p.c.nc.PublishRequest(nextMessages(p.stream, p.config.Durable), inbox, body)
	}
	if err != nil {
		sub.Unsubscribe()
		if errors.Is(err, nats.ErrReconnectBufExceeded) { // the broker is away
			return nil, sleep(ctx, p.c.pullWait)
		}
		return nil, fmt.Errorf("pull from %s: %w", p.stream, err)
	}
	got, status, complete := p.collect(sub, most)
	if complete {
		sub.Unsubscribe()
	} else {
		got = append(got, drain(sub)...)
	}
	if err := ctx.Err(); err != nil {
		p.giveBack(got)
		return nil, err
	}
	if len(got) > 0 {
		return got, nil
	}
	return nil, p.mend(ctx, status)
}

// collect reads the answers to one request until the broker says that it is over. complete is
// false when it did not say so, and more may be on its way.
func (p *puller) collect(sub *nats.Subscription, most int) (got []*nats.Msg, status string, complete bool) {
	bounded, cancel := context.WithTimeout(context.Background(), p.c.pullWait+pullSlack)
	defer cancel()
	for len(got) < most {
		m, err := sub.NextMsgWithContext(bounded)
		if errors.Is(err, nats.ErrNoResponders) {
			return got, statusNoResponders, true
		}
		if err != nil {
			return got, "", false
		}
		switch status := m.Header.Get("Status"); {
		case status == "100": // a heartbeat
		case status != "" && m.Reply == "":
			return got, status, true
		default:
			got = append(got, m)
		}
	}
	return got, "", true
}

// Statuses of a pull that need something done before the next one.
const (
	statusNoResponders = "503" // the consumer is gone, or its leader is
	statusConflict     = "409" // the consumer was deleted, or its leader changes
	statusBusy         = "408" // time is up; or others' requests come first
)

// mend prepares for the next pull after one without messages.
func (p *puller) mend(ctx context.Context, status string) error {
	switch status {
	case statusNoResponders, statusConflict:
		attempt, cancel := context.WithTimeout(ctx, tryTimeout)
		defer cancel()
		if err := p.ensure(attempt); err != nil {
			p.c.log.Debug().Err(err).Msg("pull: the consumer is not there yet")
			return sleep(ctx, jitter(6))
		}
		return nil
	case statusBusy, "":
		return sleep(ctx, jitter(2))
	}
	return nil
}

// drain ends a subscription and returns what had been sent to it.
func drain(sub *nats.Subscription) []*nats.Msg {
	if err := sub.Drain(); err != nil {
		return nil
	}
	var out []*nats.Msg
	for {
		m, err := sub.NextMsg(tryTimeout)
		if err != nil {
			return out
		}
		if m.Reply != "" {
			out = append(out, m)
		}
	}
}

// giveBack returns messages that nobody will work on to the broker, which hands them to
// another puller at once.
func (p *puller) giveBack(got []*nats.Msg) {
	for _, m := range got {
		if err := p.c.nc.Publish(m.Reply, []byte(ackNak)); err != nil {
			p.c.log.Debug().Err(err).Msg("give a message back")
		}
	}
}

// The answers to a delivered message.
const (
	ackDone = "+ACK"
	ackNak  = "-NAK"
	ackTerm = "+TERM"
)

// checkAckSubject checks where a delivered message of one stream is answered. It travels between
// processes, so it is checked before use.
func checkAckSubject(subject, stream string) error {
	t := strings.Split(subject, ".")
	// $JS.ACK.<stream>.… or, with a domain and an account hash, $JS.ACK.<domain>.<account>.<stream>.…
	ok := len(t) >= 9 && t[0] == "$JS" && t[1] == "ACK" && (t[2] == stream || t[4] == stream)
	if !ok || strings.ContainsAny(subject, "*> \r\n\t") {
		return fmt.Errorf("%.100q is no acknowledgement subject of %s", subject, stream)
	}
	return nil
}

// ackSure acknowledges and waits until the broker has noted it; it repeats until ctx ends.
func (c *Conn) ackSure(ctx context.Context, subject, stream string) error {
	if err := checkAckSubject(subject, stream); err != nil {
		return err
	}
	err := retryRead(ctx, func(ctx context.Context) error {
		_, err := c.nc.RequestWithContext(ctx, subject, []byte(ackDone))
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// answer sends an answer to a delivered message and does not wait.
func (c *Conn) answer(subject, stream, what string) error {
	if err := checkAckSubject(subject, stream); err != nil {
		return err
	}
	if err := c.nc.Publish(subject, []byte(what)); err != nil {
		return fmt.Errorf("answer a delivered message: %w", err)
	}
	return nil
}

// settle is answer for a message that nobody waits for: without the answer the broker delivers
// it again.
func (c *Conn) settle(m *nats.Msg, stream, what string) {
	if err := c.answer(m.Reply, stream, what); err != nil {
		c.log.Debug().Err(err).Str("subject", m.Subject).Msg("a message comes again")
	}
}

// nak asks for another delivery after the delay.
func (c *Conn) nak(subject, stream string, delay time.Duration) error {
	return c.answer(subject, stream, nakAfter(delay))
}

func nakAfter(delay time.Duration) string {
	if delay <= 0 {
		return ackNak
	}
	return fmt.Sprintf(`%s {"delay": %d}`, ackNak, delay.Nanoseconds())
}
