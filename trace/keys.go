package trace

import (
	"encoding/binary"
	"errors"

	"braid/schemas"
)

// A key is a space byte and then fields whose bytes sort as their values do: names end in a
// zero byte, which no name holds; numbers are big-endian; a time is complemented where the
// newest comes first; text that may hold any byte stands last and has no end mark.
//
// Everything that belongs to one session lies in one contiguous range, its state first, so
// that one iterator sees a consistent session and one range deletion removes it. What a session
// has elsewhere is listed in its range under kindRef.
const (
	spaceFormat   = 'F' // → version of this layout
	spaceActivity = 'a' // project, ^time, session → nothing
	spaceFailure  = 'e' // project, ^time, session, sequence, line → failure
	spaceMember   = 'h' // shard, project, session → nothing
	spaceMark     = 'm' // shard → Mark
	spaceReset    = 'r' // shard → nothing; the shard is being emptied
	spaceSession  = 's' // project, session, kind, ... → see below
	spaceUsage    = 'u' // project, day, model → usage
)

// The kinds of keys in a session's range. A new kind is neither 'b' nor 'c': older stores of this
// format hold such keys, of frames and contexts, which nobody reads.
const (
	kindState   = 'a' // → sessionState
	kindCall    = 'd' // call id → position of its tool_call
	kindOutcome = 'e' // command id → schemas.Outcome
	kindRef     = 'f' // key elsewhere → nothing
	kindUsage   = 'g' // day, model → usage
	kindMessage = 'm' // sequence, line → the message as one line of JSON
	kindEnd     = 'z' // above every kind
)

// positionSize is the length of an encoded position.
const positionSize = 8 + 4

var errKey = errors.New("malformed key")

func formatKey() []byte { return []byte{spaceFormat} }

func shardKey(space byte, shard int) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, uint32(shard))
}

func appendName(k []byte, name string) []byte { return append(append(k, name...), 0) }

func cutName(k []byte) (name string, rest []byte, err error) {
	for i, c := range k {
		if c == 0 {
			return string(k[:i]), k[i+1:], nil
		}
	}
	return "", nil, errKey
}

func appendPosition(k []byte, p schemas.Position) []byte {
	k = binary.BigEndian.AppendUint64(k, p.Sequence)
	return binary.BigEndian.AppendUint32(k, uint32(p.Line))
}

func parsePosition(k []byte) (schemas.Position, error) {
	if len(k) != positionSize {
		return schemas.Position{}, errKey
	}
	return schemas.Position{
		Sequence: binary.BigEndian.Uint64(k),
		Line:     int(binary.BigEndian.Uint32(k[8:])),
	}, nil
}

// sessionKey begins a key in the session's range.
func sessionKey(ref schemas.SessionRef, kind byte) []byte {
	k := make([]byte, 0, 1+len(ref.Project)+1+len(ref.ID)+1+1+positionSize)
	k = appendName(append(k, spaceSession), ref.Project)
	return append(appendName(k, ref.ID), kind)
}

func stateKey(ref schemas.SessionRef) []byte { return sessionKey(ref, kindState) }

func callKey(ref schemas.SessionRef, id string) []byte {
	return append(sessionKey(ref, kindCall), id...)
}

func outcomeKey(ref schemas.SessionRef, command string) []byte {
	return append(sessionKey(ref, kindOutcome), command...)
}

func refKey(ref schemas.SessionRef, elsewhere []byte) []byte {
	return append(sessionKey(ref, kindRef), elsewhere...)
}

func messageKey(ref schemas.SessionRef, p schemas.Position) []byte {
	return appendPosition(sessionKey(ref, kindMessage), p)
}

// parseMessageKey is the inverse of messageKey.
func parseMessageKey(k []byte) (ref schemas.SessionRef, p schemas.Position, err error) {
	ref, kind, rest, err := parseSessionKey(k)
	if err != nil || kind != kindMessage {
		return ref, p, errKey
	}
	p, err = parsePosition(rest)
	return ref, p, err
}

// parseSessionKey splits a key of a session's range.
func parseSessionKey(k []byte) (ref schemas.SessionRef, kind byte, rest []byte, err error) {
	if len(k) == 0 || k[0] != spaceSession {
		return ref, 0, nil, errKey
	}
	if ref.Project, rest, err = cutName(k[1:]); err != nil {
		return ref, 0, nil, err
	}
	if ref.ID, rest, err = cutName(rest); err != nil {
		return ref, 0, nil, err
	}
	if len(rest) == 0 {
		return ref, 0, nil, errKey
	}
	return ref, rest[0], rest[1:], nil
}

func memberKey(shard int, ref schemas.SessionRef) []byte {
	return append(appendName(shardKey(spaceMember, shard), ref.Project), ref.ID...)
}

func parseMemberKey(k []byte) (ref schemas.SessionRef, err error) {
	if len(k) < 5 || k[0] != spaceMember {
		return ref, errKey
	}
	project, id, err := cutName(k[5:])
	return schemas.SessionRef{Project: project, ID: string(id)}, err
}

// projectKey begins a key of an index over a project.
func projectKey(space byte, project string) []byte {
	return appendName([]byte{space}, project)
}

// activityKey orders a project's sessions by last activity in milliseconds, the newest first.
func activityKey(ref schemas.SessionRef, millis int64) []byte {
	k := binary.BigEndian.AppendUint64(projectKey(spaceActivity, ref.Project), ^uint64(millis))
	return append(k, ref.ID...)
}

func parseActivityKey(k []byte) (ref schemas.SessionRef, millis int64, err error) {
	project, rest, err := cutSpace(k, spaceActivity)
	if err != nil || len(rest) < 8 {
		return ref, 0, errKey
	}
	ref = schemas.SessionRef{Project: project, ID: string(rest[8:])}
	return ref, int64(^binary.BigEndian.Uint64(rest)), nil
}

// failureKey orders a project's failures by time in milliseconds, the newest first.
func failureKey(ref schemas.SessionRef, millis int64, p schemas.Position) []byte {
	k := binary.BigEndian.AppendUint64(projectKey(spaceFailure, ref.Project), ^uint64(millis))
	return appendPosition(appendName(k, ref.ID), p)
}

func parseFailureKey(k []byte) (ref schemas.SessionRef, millis int64, p schemas.Position, err error) {
	project, rest, err := cutSpace(k, spaceFailure)
	if err != nil || len(rest) < 8 {
		return ref, 0, p, errKey
	}
	millis = int64(^binary.BigEndian.Uint64(rest))
	id, rest, err := cutName(rest[8:])
	if err != nil {
		return ref, 0, p, err
	}
	p, err = parsePosition(rest)
	return schemas.SessionRef{Project: project, ID: id}, millis, p, err
}

func usageKey(project string, day Day, model string) []byte {
	k := binary.BigEndian.AppendUint32(projectKey(spaceUsage, project), uint32(day))
	return append(k, model...)
}

func parseUsageKey(k []byte) (project string, day Day, model string, err error) {
	project, rest, err := cutSpace(k, spaceUsage)
	if err != nil || len(rest) < 4 {
		return "", 0, "", errKey
	}
	return project, Day(binary.BigEndian.Uint32(rest)), string(rest[4:]), nil
}

// sessionUsageKey is the session's own share of a usage row.
func sessionUsageKey(ref schemas.SessionRef, day Day, model string) []byte {
	k := binary.BigEndian.AppendUint32(sessionKey(ref, kindUsage), uint32(day))
	return append(k, model...)
}

func parseSessionUsageKey(k []byte) (ref schemas.SessionRef, day Day, model string, err error) {
	ref, kind, rest, err := parseSessionKey(k)
	if err != nil || kind != kindUsage || len(rest) < 4 {
		return ref, 0, "", errKey
	}
	return ref, Day(binary.BigEndian.Uint32(rest)), string(rest[4:]), nil
}

// cutSpace splits the space byte and the project from a key.
func cutSpace(k []byte, space byte) (project string, rest []byte, err error) {
	if len(k) == 0 || k[0] != space {
		return "", nil, errKey
	}
	return cutName(k[1:])
}

// prefixEnd is the least key above every key that begins with k.
func prefixEnd(k []byte) []byte {
	end := append([]byte(nil), k...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil // k is all 0xff: there is none
}
