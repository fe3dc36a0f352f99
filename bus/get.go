package bus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// stored is one message as a stream holds it.
type stored struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	Header   nats.Header
	Data     []byte
}

// errNotFound says that a read found no message. It decides nothing when a replica answered.
var errNotFound = errors.New("no message found")

// directRequest is the body of a direct get: either a batch of one subject from a sequence, or
// the last messages of several subjects, up to a sequence.
type directRequest struct {
	Seq       uint64   `json:"seq,omitzero"`
	NextFor   string   `json:"next_by_subj,omitzero"`
	LastFor   string   `json:"last_by_subj,omitzero"`
	MultiLast []string `json:"multi_last,omitzero"`
	UpToSeq   uint64   `json:"up_to_seq,omitzero"`
	Batch     int      `json:"batch,omitzero"`
	MaxBytes  int      `json:"max_bytes,omitzero"`
}

// directGet asks any replica of the stream. The answer may be behind; see [Owner.Ends] for how
// the truth is read. An empty answer is no error.
func (c *Conn) directGet(ctx context.Context, stream string, request directRequest) ([]stored, error) {
	body, err := schemas.EncodeJSON(request)
	if err != nil {
		return nil, err
	}
	if request.Batch == 0 && len(request.MultiLast) == 0 {
		return c.directGetOne(ctx, stream, body)
	}
	inbox := c.nc.NewInbox() // not one under the shared reply subscription, which would get every answer again
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	defer sub.Unsubscribe()
	if err := c.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	var out []stored
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", stream, err)
		}
		s, last, err := storedFromDirect(m)
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", stream, err)
		}
		if last {
			return out, nil
		}
		out = append(out, s)
	}
}

// directGetOne is directGet of one message, without a subscription of its own.
func (c *Conn) directGetOne(ctx context.Context, stream string, body []byte) ([]stored, error) {
	m, err := c.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	s, none, err := storedFromDirect(m)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	if none {
		return nil, nil
	}
	return []stored{s}, nil
}

// storedFromDirect reads one part of an answer; last says that it holds no message and none
// follows.
func storedFromDirect(m *nats.Msg) (s stored, last bool, err error) {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "204", "404": // the end of a batch; nothing found
		return stored{}, true, nil
	default:
		return stored{}, false, fmt.Errorf("%s %s", status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return stored{}, false, fmt.Errorf("answer without a sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return stored{}, false, fmt.Errorf("answer without a time: %w", err)
	}
	return stored{Subject: m.Header.Get("Nats-Subject"), Sequence: seq, Time: at, Header: m.Header, Data: m.Data}, false, nil
}

// directRead is directGet, asked again until there is an answer or ctx ends.
func (c *Conn) directRead(ctx context.Context, stream string, request directRequest) (answer []stored, err error) {
	err = retryRead(ctx, func(ctx context.Context) (err error) {
		answer, err = c.directGet(ctx, stream, request)
		return err
	})
	return answer, err
}

// leaderRead is leaderGet, asked again until there is an answer or ctx ends. errNotFound is an
// answer.
func (c *Conn) leaderRead(ctx context.Context, stream string, request directRequest) (m stored, err error) {
	err = retryRead(ctx, func(ctx context.Context) (err error) {
		m, err = c.leaderGet(ctx, stream, request)
		return err
	})
	return m, err
}

// leaderGet asks the stream's leader for one message; errNotFound if there is none. It is the
// freshest read there is, and still no proof: a leader that is cut off from its peers goes on
// answering.
func (c *Conn) leaderGet(ctx context.Context, stream string, request directRequest) (stored, error) {
	body, err := schemas.EncodeJSON(request)
	if err != nil {
		return stored{}, err
	}
	answer, err := c.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, body)
	if err != nil {
		return stored{}, fmt.Errorf("read stream %s: %w", stream, err)
	}
	var reply struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Headers string    `json:"hdrs"`
			Data    string    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := schemas.DecodeJSON(answer.Data, &reply); err != nil {
		return stored{}, fmt.Errorf("read stream %s: %w", stream, err)
	}
	if reply.Error != nil {
		if reply.Error.Code == 404 {
			return stored{}, errNotFound
		}
		return stored{}, fmt.Errorf("read stream %s: %w", stream, reply.Error)
	}
	if reply.Message == nil {
		return stored{}, fmt.Errorf("read stream %s: the answer holds no message", stream)
	}
	data, err := base64.StdEncoding.DecodeString(reply.Message.Data)
	if err != nil {
		return stored{}, fmt.Errorf("read stream %s: %w", stream, err)
	}
	header, err := decodeHeader(reply.Message.Headers)
	if err != nil {
		return stored{}, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return stored{Subject: reply.Message.Subject, Sequence: reply.Message.Seq, Time: reply.Message.Time, Header: header, Data: data}, nil
}

// decodeHeader parses a base64 header block as the leader sends it.
func decodeHeader(s string) (nats.Header, error) {
	header := nats.Header{}
	if s == "" {
		return header, nil
	}
	block, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(block)))
	if _, err := r.ReadLine(); err != nil { // NATS/1.0
		return nil, err
	}
	for {
		line, err := r.ReadLine()
		if err != nil || line == "" {
			return header, nil //nolint:nilerr // the block may lack its empty last line
		}
		name, value, ok := bytes.Cut([]byte(line), []byte(":"))
		if !ok {
			return nil, fmt.Errorf("malformed header line %q", line)
		}
		header.Add(string(name), string(bytes.TrimSpace(value)))
	}
}
