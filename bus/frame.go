package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Headers of a frame, besides those the broker reads.
const (
	headerVersion = "Braid-Version"
	headerEpoch   = "Braid-Epoch"
	headerFence   = "Braid-Fence"
	headerNumber  = "Braid-Number"
	headerPrev    = "Braid-Prev"
	headerCursor  = "Braid-Cursor"
)

// frameVersion is the format this version writes. A reader refuses a newer one.
const frameVersion = 1

// FrameHeader is what a frame says about its place in its session.
type FrameHeader struct {
	// Version is the frame's format.
	Version int
	// Epoch is the incarnation of the stream the frame was written to.
	Epoch string
	// Fence is the sequence of the claim the frame was appended under.
	Fence uint64
	// N numbers the frames of a fence, from 1, without a gap.
	N uint64
	// Prev is the sequence of the session's previous frame, recorded or live; 0 for the first.
	Prev uint64
	// Cursor is the sequence, in the command stream, of the session's last command that has an
	// outcome.
	Cursor uint64
	// Recorded is set when the frame holds at least one message that the trace keeps. Others are
	// live frames: they expire.
	Recorded bool
}

// Frame is one stored broker message: the messages of a session that were appended together.
type Frame struct {
	Header  FrameHeader
	Session schemas.SessionRef
	// Sequence is the frame's place in its stream, which is the order of the session.
	Sequence uint64
	// Time is when the broker stored the frame.
	Time time.Time
	// ID is unique to the frame: "<nonce>.<fence>.<n>".
	ID string
	// Messages are the frame's messages; from a [Follower], those of them a watcher is to see.
	Messages []schemas.Message
	// AfterGap is set when frames that stood before this one can't be read any more.
	AfterGap bool
	// Lost lists the lines whose content is gone: a payload kept outside the frame that was
	// removed, or a line that is no message. Each is stood in for by an event of the type
	// "lost_message".
	Lost []int

	lines []int // the line of each message; nil when Messages are all of the frame's
}

// Entries returns the messages at their positions.
func (f Frame) Entries() []schemas.Entry {
	entries := make([]schemas.Entry, len(f.Messages))
	for i, m := range f.Messages {
		entries[i] = schemas.Entry{Position: schemas.Position{Sequence: f.Sequence, Line: f.line(i)}, Message: m}
	}
	return entries
}

// EndsSession reports that the session is deleted after the frame, which is its last.
func (f Frame) EndsSession() bool {
	return slices.ContainsFunc(f.Messages, func(m schemas.Message) bool {
		return m.Kind() == schemas.KindSessionDeleted && len(m.Origin) == 0
	})
}

func (f Frame) line(i int) int {
	if f.lines == nil {
		return i
	}
	return f.lines[i]
}

// filter keeps the messages that keep accepts, at their lines.
func (f Frame) filter(keep func(line int, m schemas.Message) bool) Frame {
	var messages []schemas.Message
	lines := []int{}
	for i, m := range f.Messages {
		if line := f.line(i); keep(line, m) {
			messages, lines = append(messages, m), append(lines, line)
		}
	}
	f.Messages, f.lines = messages, lines
	return f
}

// errNotFrame says that a stored message is no frame: something foreign was published on a
// session's subject. Readers skip it.
var errNotFrame = errors.New("not a frame")

// encode renders the headers of a frame of the given message id. A live frame gets a lifetime.
func (h FrameHeader) encode(id string, live time.Duration) nats.Header {
	header := nats.Header{
		headerMsgID:   {id},
		headerVersion: {strconv.Itoa(h.Version)},
		headerEpoch:   {h.Epoch},
		headerFence:   {formatUint(h.Fence)},
		headerNumber:  {formatUint(h.N)},
		headerPrev:    {formatUint(h.Prev)},
		headerCursor:  {formatUint(h.Cursor)},
	}
	if !h.Recorded {
		header[headerTTL] = []string{ttl(live)}
	}
	return header
}

func formatUint(n uint64) string { return strconv.FormatUint(n, 10) }

// decodeFrameHeader reads the session and the headers of a stored frame. It fails with errNotFrame for what
// is no frame, and otherwise for a frame of a newer format.
func decodeFrameHeader(m stored) (ref schemas.SessionRef, h FrameHeader, err error) {
	ref, kind, err := refFromFrameSubject(m.Subject)
	if err != nil {
		return ref, h, fmt.Errorf("%w: %w", errNotFrame, err)
	}
	number := func(name string) uint64 {
		n, parseErr := strconv.ParseUint(m.Header.Get(name), 10, 64)
		if parseErr != nil && err == nil {
			err = fmt.Errorf("%w: header %s of %s, sequence %d: %w", errNotFrame, name, m.Subject, m.Sequence, parseErr)
		}
		return n
	}
	h = FrameHeader{
		Version: int(number(headerVersion)), Epoch: m.Header.Get(headerEpoch),
		Fence: number(headerFence), N: number(headerNumber), Prev: number(headerPrev), Cursor: number(headerCursor),
		Recorded: kind == kindLog,
	}
	if err == nil && h.Version > frameVersion {
		err = fmt.Errorf("frame %d of %s has format %d, this version reads up to %d: it was written by a newer Braid", m.Sequence, ref, h.Version, frameVersion)
	}
	return ref, h, err
}

// decodeFrame reads a stored frame and fetches what it keeps outside. It fails with errNotFrame
// for what is no frame; else only when the context ends, or for a frame of a newer format.
func (c *Conn) decodeFrame(ctx context.Context, m stored) (Frame, error) {
	ref, header, err := decodeFrameHeader(m)
	if err != nil {
		return Frame{}, err
	}
	f := Frame{Header: header, Session: ref, Sequence: m.Sequence, Time: m.Time, ID: m.Header.Get(headerMsgID)}
	line := 0
	for raw := range bytes.Lines(m.Data) {
		message, err := c.decodeLine(ctx, bytes.TrimSuffix(raw, []byte("\n")))
		if ctx.Err() != nil {
			return Frame{}, ctx.Err()
		}
		if err != nil {
			c.log.Error().Err(err).Stringer("session", ref).Uint64("frame", m.Sequence).Int("line", line).Msg("a stored message is lost")
			f.Lost = append(f.Lost, line)
			message = lostMessage(m.Time)
		}
		f.Messages = append(f.Messages, message)
		line++
	}
	return f, nil
}

// decodeLine reads one message, from a blob if the line refers to one.
func (c *Conn) decodeLine(ctx context.Context, raw []byte) (schemas.Message, error) {
	if name, ok := parseBlobLine(raw); ok {
		data, err := c.getBlob(ctx, name)
		if err != nil {
			return schemas.Message{}, err
		}
		raw = data
	}
	return schemas.Decode(raw)
}

// lostMessage stands where a message was whose content is gone. Readers skip kinds they do not
// know; its line is still counted.
func lostMessage(at time.Time) schemas.Message {
	return schemas.New(at, &schemas.Unknown{Of: "lost_message", Raw: []byte(`{"type":"lost_message"}`)})
}

// frameBody is the encoded form of a frame's messages: what goes into the frame, and what has to
// be stored outside of it before.
type frameBody struct {
	data     []byte
	blobs    map[string][]byte
	recorded bool
}

// encodeFrame encodes the messages, a line each, into at most limit bytes: while they take more,
// the largest line goes into a blob. blobName names the blob of a line.
func encodeFrame(messages []schemas.Message, limit int, blobName func(line int) string) (frameBody, error) {
	body := frameBody{}
	lines := make([][]byte, len(messages))
	size := 0
	for i, m := range messages {
		line, err := schemas.Encode(m)
		if err != nil {
			return body, fmt.Errorf("message %d of the frame: %w", i, err)
		}
		lines[i] = line
		size += len(line) + 1
		body.recorded = body.recorded || m.Recorded()
	}
	for size > limit {
		i := largest(lines)
		name := blobName(i)
		reference := blobLine(name, len(lines[i]))
		if len(reference) >= len(lines[i]) {
			return body, fmt.Errorf("%w: %d messages take %d bytes even with their contents kept outside, the limit is %d", errTooManyMessages, len(messages), size, limit)
		}
		if body.blobs == nil {
			body.blobs = map[string][]byte{}
		}
		body.blobs[name] = lines[i]
		size += len(reference) - len(lines[i])
		lines[i] = reference
	}
	body.data = make([]byte, 0, size)
	for _, line := range lines {
		body.data = append(append(body.data, line...), '\n')
	}
	return body, nil
}

// errTooManyMessages says that messages were to be appended together that can't be.
var errTooManyMessages = errors.New("too many messages for one frame")

// largest is the index of the longest line.
func largest(lines [][]byte) int {
	best := 0
	for i := range lines {
		if len(lines[i]) > len(lines[best]) {
			best = i
		}
	}
	return best
}
