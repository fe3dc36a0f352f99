package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// encodeOptions: no HTML escapes, invalid UTF-8 replaced rather than refused, and raw values
// (fidelity, unknown members) written with the very strings and numbers they came with.
var encodeOptions = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true),
	jsontext.PreserveRawStrings(true),
	jsontext.EscapeForHTML(false),
	jsontext.EscapeForJS(false),
)

// decodeOptions: invalid UTF-8 and lone surrogates become U+FFFD; duplicate members are errors.
var decodeOptions = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true),
)

// envelope is a message on the wire.
type envelope struct {
	Timestamp string         `json:"timestamp"`
	Type      Type           `json:"type"`
	Payload   jsontext.Value `json:"payload"`
	Origin    []string       `json:"origin,omitzero"`
	Scope     Scope          `json:"scope,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Append encodes the message as one line of JSON, without the newline, onto dst. The line is
// valid UTF-8 whatever the message holds, and contains no HTML escapes.
//
// It fails only for a message that can't be represented: no payload, or raw JSON that is none.
func Append(dst []byte, m Message) ([]byte, error) {
	if m.Payload == nil {
		return dst, errors.New("encode message: it has no payload")
	}
	body := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(body)
	body.Reset()
	if err := appendPayload(body, m.Payload); err != nil {
		return dst, fmt.Errorf("encode %s: %w", m.Payload.Kind(), err)
	}
	out := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(out)
	out.Reset()
	e := envelope{
		Timestamp: m.Timestamp, Type: m.Type, Payload: body.Bytes(),
		Origin: m.Origin, Scope: m.Scope, Extra: m.Extra,
	}
	if err := json.MarshalWrite(out, &e, encodeOptions); err != nil {
		return dst, fmt.Errorf("encode %s: %w", m.Payload.Kind(), err)
	}
	return append(dst, validBytes(out.Bytes())...), nil
}

// appendPayload writes the payload with its "type" member first.
func appendPayload(out *bytes.Buffer, p Payload) error {
	switch p := p.(type) {
	case *Unknown:
		out.Write(p.Raw)
		return nil
	case *SessionMeta: // the one payload without a type member
		return json.MarshalWrite(out, p, encodeOptions)
	}
	out.WriteString(`{"type":"`)
	out.WriteString(string(p.Kind()))
	out.WriteByte('"')
	start := out.Len()
	if err := json.MarshalWrite(out, p, encodeOptions); err != nil {
		return err
	}
	// The struct was written as its own object: its opening brace becomes the comma that joins
	// both, or the end of the object when there is nothing to join.
	if b := out.Bytes(); b[start+1] == '}' {
		out.Truncate(start)
		out.WriteByte('}')
	} else {
		b[start] = ','
	}
	return nil
}

// Encode is [Append] on a new slice.
func Encode(m Message) ([]byte, error) { return Append(nil, m) }

// Decode reads one encoded message. Unknown payload types and unknown members are kept. The
// result does not alias line.
func Decode(line []byte) (Message, error) {
	var e envelope
	if err := json.Unmarshal(validBytes(line), &e, decodeOptions); err != nil {
		return Message{}, fmt.Errorf("decode message: %w", err)
	}
	if e.Payload.Kind() != jsontext.KindBeginObject {
		return Message{}, errors.New("decode message: payload is not an object")
	}
	payload, err := decodePayload(e.Type, e.Payload)
	if err != nil {
		return Message{}, fmt.Errorf("decode message: %w", err)
	}
	return Message{
		Timestamp: e.Timestamp, Type: e.Type, Payload: payload,
		Origin: e.Origin, Scope: e.Scope, Extra: e.Extra,
	}, nil
}

func decodePayload(t Type, raw jsontext.Value) (Payload, error) {
	kind, body := KindSessionMeta, raw
	if t != TypeSessionMeta {
		member, err := findType(raw)
		if err != nil {
			return nil, err
		}
		// A known kind under another class is not ours: keep it rather than guess.
		if p := newPayload(member.kind); p == nil || typeOf(p) != t {
			return &Unknown{Of: member.kind, Raw: raw}, nil
		}
		kind, body = member.kind, member.cutFrom(raw)
	}
	p := newPayload(kind)
	if err := json.Unmarshal(body, p, decodeOptions); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return p, nil
}

// typeMember is the "type" member of a payload and where it stands in the raw object.
type typeMember struct {
	kind  Kind
	start int64 // where the previous member, or the opening brace, ends
	end   int64 // where the value ends
	first bool
}

// findType finds the payload's own "type" member, usually the first. A payload without one, or
// with one that is no string, has the empty kind.
func findType(raw jsontext.Value) (typeMember, error) {
	if m, ok := leadingType(raw); ok {
		return m, nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw), decodeOptions)
	if _, err := dec.ReadToken(); err != nil {
		return typeMember{}, err
	}
	for first := true; dec.PeekKind() == jsontext.KindString; first = false {
		start := dec.InputOffset()
		name, err := dec.ReadToken()
		if err != nil {
			return typeMember{}, err
		}
		if name.String() != "type" {
			if err := dec.SkipValue(); err != nil {
				return typeMember{}, err
			}
			continue
		}
		if dec.PeekKind() != jsontext.KindString {
			return typeMember{}, nil
		}
		value, err := dec.ReadToken()
		if err != nil {
			return typeMember{}, err
		}
		return typeMember{kind: Kind(value.String()), start: start, end: dec.InputOffset(), first: first}, nil
	}
	return typeMember{}, nil
}

// leadingType finds a "type" member that stands first and needs no unescaping, as [Append]
// writes it. Half of the time of decoding a delta would go into finding it the general way.
func leadingType(raw jsontext.Value) (typeMember, bool) {
	const head = `{"type":"`
	if !bytes.HasPrefix(raw, []byte(head)) {
		return typeMember{}, false
	}
	for i, c := range raw[len(head):] {
		switch {
		case c == '"':
			end := len(head) + i
			return typeMember{kind: Kind(raw[len(head):end]), start: 1, end: int64(end) + 1, first: true}, true
		case c == '\\' || c >= utf8.RuneSelf:
			return typeMember{}, false
		}
	}
	return typeMember{}, false
}

// cutFrom removes the member from the object, in place: the payload types hold no "type".
func (m typeMember) cutFrom(raw jsontext.Value) jsontext.Value {
	if !m.first {
		return append(raw[:m.start], raw[m.end:]...)
	}
	for i := m.end; i < int64(len(raw)); i++ {
		switch raw[i] {
		case ',': // becomes the opening brace of what follows
			raw[i] = '{'
			return raw[i:]
		case '}':
			return jsontext.Value("{}")
		}
	}
	return raw
}

// CompactRaw prepares raw JSON from outside for a field that is kept byte for byte: it removes
// insignificant white space, which could break a line, makes invalid UTF-8 valid, and changes
// nothing else. What it returns without an error encodes as part of a message, so it is nested no deeper than
// [MaxNesting].
func CompactRaw(raw []byte) (jsontext.Value, error) {
	if NestedTooDeep(raw) {
		return nil, fmt.Errorf("compact raw JSON: it is nested more than %d levels deep", MaxNesting)
	}
	v := jsontext.Value(bytes.Clone(validBytes(raw)))
	if err := v.Compact(jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true)); err != nil {
		return nil, fmt.Errorf("compact raw JSON: %w", err)
	}
	if !v.IsValid(jsontext.AllowInvalidUTF8(true)) { // lone surrogates stay, as escapes
		return nil, errors.New("compact raw JSON: a member comes twice")
	}
	return v, nil
}

// validBytes is [ValidText] for bytes. Raw JSON values are encoded as they are, so invalid bytes
// in them must go separately.
func validBytes(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

// ValidText returns s with every invalid UTF-8 sequence replaced by U+FFFD.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// MarshalJSON encodes the message for programs that use another JSON package; that package may
// escape more than Braid does. [Append] is the form Braid stores and sends.
func (m Message) MarshalJSON() ([]byte, error) { return Encode(m) }

// UnmarshalJSON is [Decode].
func (m *Message) UnmarshalJSON(b []byte) error {
	d, err := Decode(b)
	if err != nil {
		return err
	}
	*m = d
	return nil
}

// AppendJSON encodes any value of this package's conventions (no HTML escapes, valid UTF-8).
// Commands, tool calls and other documents that are not messages go through it.
func AppendJSON(dst []byte, v any) ([]byte, error) {
	out := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(out)
	out.Reset()
	if err := json.MarshalWrite(out, v, encodeOptions); err != nil {
		return dst, fmt.Errorf("encode %T: %w", v, err)
	}
	return append(dst, validBytes(out.Bytes())...), nil
}

// EncodeJSON is [AppendJSON] on a new slice.
func EncodeJSON(v any) ([]byte, error) { return AppendJSON(nil, v) }

// DecodeJSON reads such a document; members that v does not know are ignored.
func DecodeJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v, decodeOptions); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// DecodeStrictJSON is [DecodeJSON] for input people write: an unknown member is an error that
// names it.
func DecodeStrictJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v, decodeOptions, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}
