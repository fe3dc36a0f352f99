package systemtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"braid/schemas"
)

// rawMessage is what a subscriber gets of a stored message.
type rawMessage struct {
	subject  string
	sequence uint64 // in its stream
	data     []byte
}

// rawSubscriber is a client that shares no code with the system: it speaks the text protocol of
// NATS over a socket, and takes the feed as any program could. It may miss what is sent while it
// is not connected, and nothing tells it so.
type rawSubscriber struct {
	address  func() string
	subjects []string

	mu       sync.Mutex
	conn     net.Conn
	closed   bool
	messages []rawMessage
	err      error // other than a lost connection
	work     sync.WaitGroup
}

// subscribe connects and returns once the broker has the subscriptions.
func subscribe(address func() string, subjects ...string) (*rawSubscriber, error) {
	s := &rawSubscriber{address: address, subjects: subjects}
	r, err := s.connect()
	if err != nil {
		return nil, err
	}
	s.work.Go(func() {
		for err := s.read(r); ; err = s.read(r) {
			s.fail(err)
			for r = nil; r == nil; {
				if s.isClosed() {
					return
				}
				if r, err = s.connect(); err != nil {
					<-time.After(20 * time.Millisecond)
				}
			}
		}
	})
	return s, nil
}

func (s *rawSubscriber) connect() (*bufio.Reader, error) {
	conn, err := net.DialTimeout("tcp", s.address(), time.Second)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(`CONNECT {"verbose":false,"pedantic":false,"headers":true,"lang":"test","version":"1","protocol":1}` + "\r\n")
	for i, subject := range s.subjects {
		fmt.Fprintf(&b, "SUB %s %d\r\n", subject, i+1)
	}
	b.WriteString("PING\r\n")
	if _, err := conn.Write([]byte(b.String())); err != nil {
		conn.Close()
		return nil, err
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	for line := ""; line != "PONG"; {
		text, err := r.ReadString('\n')
		if err != nil {
			conn.Close()
			return nil, err
		}
		if line = strings.TrimRight(text, "\r\n"); strings.HasPrefix(line, "-ERR") {
			conn.Close()
			return nil, fmt.Errorf("the broker says %s", line)
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	s.conn = conn
	return r, nil
}

// read takes messages until the connection ends.
func (s *rawSubscriber) read(r *bufio.Reader) error {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil //nolint:nilerr // it connects again
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "PING":
			if _, err := s.conn.Write([]byte("PONG\r\n")); err != nil {
				return nil //nolint:nilerr // it connects again
			}
		case "MSG", "HMSG":
			if err := s.take(r, fields); err != nil {
				return err
			}
		case "-ERR":
			return fmt.Errorf("the broker says %s", line)
		}
	}
}

// take reads the rest of "MSG <subject> <sid> [reply] <bytes>" or
// "HMSG <subject> <sid> [reply] <header bytes> <bytes>".
func (s *rawSubscriber) take(r *bufio.Reader, fields []string) error {
	total, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return err
	}
	head := 0
	if fields[0] == "HMSG" {
		if head, err = strconv.Atoi(fields[len(fields)-2]); err != nil {
			return err
		}
	}
	body := make([]byte, total+2)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil
	}
	m := rawMessage{subject: fields[1], data: body[head:total]}
	if head > 0 {
		_, rest, _ := bytes.Cut(body[:head], []byte("\r\n")) // the line with the version
		header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(rest))).ReadMIMEHeader()
		if err != nil {
			return fmt.Errorf("the header of a message on %s: %w", m.subject, err)
		}
		if sequence := header.Get("Nats-Sequence"); sequence != "" { // it is republished
			if m.sequence, err = strconv.ParseUint(sequence, 10, 64); err != nil {
				return fmt.Errorf("the sequence of a message on %s: %w", m.subject, err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
	return nil
}

func (s *rawSubscriber) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.err == nil && !s.closed {
		s.err = err
	}
}

func (s *rawSubscriber) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *rawSubscriber) close() {
	s.mu.Lock()
	s.closed = true
	if s.conn != nil {
		s.conn.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// taken returns what came on subjects with one of the last tokens.
func (s *rawSubscriber) taken(fits func(subject string) bool) ([]rawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []rawMessage
	for _, m := range s.messages {
		if fits(m.subject) {
			found = append(found, m)
		}
	}
	return found, s.err
}

// records returns the call records that were seen, in order, by call.
func (s *rawSubscriber) records() (map[string][]schemas.ToolRecord, error) {
	seen, err := s.taken(func(subject string) bool { return strings.Contains(subject, ".record.") })
	if err != nil {
		return nil, err
	}
	byCall := map[string][]schemas.ToolRecord{}
	for _, m := range seen {
		var rec schemas.ToolRecord
		if err := schemas.DecodeJSON(m.data, &rec); err != nil {
			return nil, fmt.Errorf("a record on %s: %w", m.subject, err)
		}
		rec.Sequence = m.sequence
		call := m.subject[strings.LastIndexByte(m.subject, '.')+1:]
		byCall[call] = append(byCall[call], rec)
	}
	return byCall, nil
}
