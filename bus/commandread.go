package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"braid/schemas"
)

// StoredCommand is a command as the stream holds it.
type StoredCommand struct {
	schemas.Command
	// Sequence is the command's place in the order of commands.
	Sequence uint64
	// Time is when the broker stored it.
	Time time.Time
	Lane Lane
	// Invalid is set when the stored bytes are no valid command of this session. Only ID and
	// Session of the command are set then, so that it can be given an outcome.
	Invalid *schemas.Error

	reply string
	blob  string // that holds its body; empty if none does
}

// KeptOutside reports that the command's body is in a blob, not in its message.
func (c StoredCommand) KeptOutside() bool { return c.blob != "" }

// errBehind says that replicas did not show what is known to be stored.
var errBehind = errors.New("the broker's replica is behind")

// readPage is how many messages one read of a stretch asks for.
const readPage = 64

// ReadCommands returns a session's commands with sequences above after and up to reach, in
// order, both lanes merged. reach is the sequence of a wake-up; 0 means what is stored now, as
// far as the stream's leader knows. Wakes have no outcome and are left out. A command that does
// not decode is returned as an invalid one.
//
// The answer is complete up to reach: any replica may answer a read, and one that lags would
// hide a command whose wake-up is then acknowledged. So a replica is believed only when it shows
// the message at reach; after some tries the leader is asked. The error is
// [schemas.CodeUnavailable] if neither shows it before ctx ends.
func (c *Conn) ReadCommands(ctx context.Context, ref schemas.SessionRef, after, reach uint64) ([]StoredCommand, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	messages, err := c.commandMessages(ctx, ref, after, reach)
	if err != nil {
		return nil, unavailable("commands can't be read", err)
	}
	commands := make([]StoredCommand, 0, len(messages))
	for _, m := range messages {
		cmd, err := c.openCommand(ctx, ref, m)
		if err != nil {
			return nil, unavailable("commands can't be read", err)
		}
		if cmd.Type != schemas.CommandWake {
			commands = append(commands, cmd)
		}
	}
	return commands, nil
}

// commandMessages returns what [Conn.ReadCommands] reads as it is stored.
func (c *Conn) commandMessages(ctx context.Context, ref schemas.SessionRef, after, reach uint64) (messages []stored, err error) {
	if reach == 0 {
		if reach, err = c.lastCommand(ctx, ref); err != nil {
			return nil, err
		}
	}
	if reach <= after {
		return nil, nil
	}
	messages, err = c.commandsFromReplica(ctx, ref, after, reach)
	if errors.Is(err, errBehind) {
		messages, err = c.commandsFromLeader(ctx, ref, after, reach)
	}
	slices.SortFunc(messages, func(a, b stored) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return messages, err
}

// commandLanes are the subjects of a session's commands.
func commandLanes(ref schemas.SessionRef) []string {
	return []string{commandSubject(ref, LaneRun), commandSubject(ref, LaneControl)}
}

// lastCommand is the sequence of the session's newest command, 0 if there is none, by the
// stream's leader. One that is stored right now rings by itself.
func (c *Conn) lastCommand(ctx context.Context, ref schemas.SessionRef) (uint64, error) {
	var last uint64
	for _, subject := range commandLanes(ref) {
		s, err := c.leaderRead(ctx, streamCommands, directRequest{LastFor: subject})
		if err != nil && !errors.Is(err, errNotFound) {
			return 0, err
		}
		last = max(last, s.Sequence)
	}
	return last, nil
}

// replicaTries is how often replicas are asked before the leader is.
const replicaTries = 6

// commandsFromReplica first learns the true end of each lane at reach, in one isolated read
// that a lagging replica can't answer, then pages each lane until it has reached its end.
func (c *Conn) commandsFromReplica(ctx context.Context, ref schemas.SessionRef, after, reach uint64) ([]stored, error) {
	ends, err := c.readEnds(ctx, streamCommands, commandLanes(ref), reach)
	if err != nil {
		return nil, err
	}
	var all []stored
	for _, end := range ends {
		if end.Sequence <= after {
			continue
		}
		lane, err := c.readStretch(ctx, streamCommands, end.Subject, after, end.Sequence)
		if err != nil {
			return nil, err
		}
		all = append(all, lane...)
	}
	return all, nil
}

// readEnds returns the last message up to reach of each subject, from a replica that holds the
// message at reach, which must be on one of the subjects. errBehind if none answers so.
func (c *Conn) readEnds(ctx context.Context, stream string, subjects []string, reach uint64) ([]stored, error) {
	for try := range replicaTries {
		ends, err := c.tryDirect(ctx, stream, directRequest{MultiLast: subjects, UpToSeq: reach})
		if err == nil && slices.ContainsFunc(ends, func(s stored) bool { return s.Sequence == reach }) {
			return ends, nil
		}
		if err := sleep(ctx, jitter(try+2)); err != nil {
			return nil, err
		}
	}
	return nil, errBehind
}

// readStretch returns a subject's messages above after, up to end, which is known to be stored.
// errBehind if replicas do not get there.
func (c *Conn) readStretch(ctx context.Context, stream, subject string, after, end uint64) ([]stored, error) {
	var out []stored
	for try := 0; try < replicaTries; {
		page, err := c.tryDirect(ctx, stream, directRequest{
			Seq: after + 1, NextFor: subject, Batch: readPage, MaxBytes: pageBytes,
		})
		for _, m := range page {
			if err == nil && m.Sequence > after && m.Sequence <= end {
				out = append(out, m)
				after = m.Sequence
				try = 0
			}
		}
		if after >= end {
			return out, nil
		}
		if err != nil || len(page) == 0 {
			try++
			if err := sleep(ctx, jitter(try+2)); err != nil {
				return nil, err
			}
		} else if page[len(page)-1].Sequence > end { // the end itself was removed meanwhile
			return out, nil
		}
	}
	return nil, errBehind
}

// commandsFromLeader reads one by one from the stream's leader, once that one has reach.
func (c *Conn) commandsFromLeader(ctx context.Context, ref schemas.SessionRef, after, reach uint64) ([]stored, error) {
	err := retryRead(ctx, func(ctx context.Context) error {
		stream, err := c.js.Stream(ctx, streamCommands)
		if err != nil {
			return fmt.Errorf("read commands: %w", err)
		}
		if last := stream.CachedInfo().State.LastSeq; last < reach {
			return fmt.Errorf("read commands: the leader is at %d, before %d: %w", last, reach, errBehind)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []stored
	for _, subject := range commandLanes(ref) {
		for next := after + 1; next <= reach; {
			s, err := c.leaderRead(ctx, streamCommands, directRequest{Seq: next, NextFor: subject})
			if errors.Is(err, errNotFound) || (err == nil && s.Sequence > reach) {
				break
			}
			if err != nil {
				return nil, err
			}
			all = append(all, s)
			next = s.Sequence + 1
		}
	}
	return all, nil
}

// openCommand reads a stored command, with what is kept outside of it. It fails only when that can't
// be read now.
func (c *Conn) openCommand(ctx context.Context, ref schemas.SessionRef, m stored) (StoredCommand, error) {
	name, body := m.Header.Get(headerBody), m.Data
	if name == "" {
		return storedCommand(ref, m, body, nil), nil
	}
	// Whoever may send commands may write headers: only a command's own body is touched.
	if owner, _, ok := ownerOfBody(name, commandMark); !ok || owner != ref {
		return storedCommand(ref, m, nil, schemas.Errorf(schemas.CodeInvalid, "the command names a body that is not its own")), nil
	}
	body, err := c.commandBody(ctx, name)
	var refused *schemas.Error
	if err != nil && !errors.As(err, &refused) {
		return StoredCommand{}, err
	}
	out := storedCommand(ref, m, body, err)
	out.blob = name
	return out, nil
}

// maxCommandBody bounds what is read of a command, in bytes.
const maxCommandBody = 2*schemas.MaxInput + 1<<20

func (c *Conn) commandBody(ctx context.Context, name string) ([]byte, error) {
	body, err := c.getBounded(ctx, name, maxCommandBody)
	if errors.Is(err, ErrBlobMissing) {
		return nil, schemas.Errorf(schemas.CodeInternal, "the command's body is lost")
	}
	return body, err
}

// storedCommand decodes what a stream holds, or says why there is nothing to decode. It never fails:
// what is no command becomes an invalid one.
func storedCommand(ref schemas.SessionRef, m stored, body []byte, err error) StoredCommand {
	_, lane, _ := refFromCommandSubject(m.Subject)
	out := StoredCommand{Sequence: m.Sequence, Time: m.Time, Lane: lane, reply: m.Header.Get(headerCommandReply)}
	if err == nil {
		out.Command, err = schemas.DecodeCommand(body)
	}
	if err == nil && out.Session != ref {
		err = schemas.Errorf(schemas.CodeInvalid, "the command names session %.80q", out.Session.String())
	}
	if err == nil {
		err = out.Validate()
	}
	if err == nil {
		out.Caller = traceContextOf(m.Header)
		return out
	}
	id := out.ID
	if !schemas.ValidName(id) {
		id = commandOfID(m.Header.Get(headerMsgID), ref)
	}
	if !schemas.ValidName(id) {
		id = "invalid-" + strconv.FormatUint(m.Sequence, 10)
	}
	out.Command = schemas.Command{ID: id, Session: ref}
	if !errors.As(err, &out.Invalid) {
		out.Invalid = schemas.Errorf(schemas.CodeInvalid, "the stored command can't be read: %v", err)
	}
	return out
}

// commandOfID is the id of a command by that of its broker message.
func commandOfID(messageID string, ref schemas.SessionRef) string {
	id, _ := strings.CutPrefix(messageID, ref.Project+"."+ref.ID+".")
	return id
}
