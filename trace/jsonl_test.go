package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"braid/schemas"
)

func TestExportIsWhatImportReads(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	unknown := &schemas.Unknown{Of: "later", Raw: []byte(`{"type":"later","n":1e2,"s":"\u00e9 <b>"}`)}
	apply(t, s, b,
		b.frame(bob, meta("m"), prompt("line one\nline two  & <tag>")),
		b.frame(bob, schemas.NewToolCall("c", "sh", "{\"a\":\n1}"), unknown))
	var first bytes.Buffer
	if err := s.Export(context.Background(), bob, &first); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(first.String(), "\n"); n != 4 {
		t.Errorf("%d lines for 4 messages:\n%s", n, first.String())
	}
	var again []byte
	for lines := schemas.NewLineReader(bytes.NewReader(first.Bytes())); ; {
		_, m, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		again, _ = schemas.Append(again, m)
		again = append(again, '\n')
	}
	if string(again) != first.String() {
		t.Errorf("came back as\n%s, was\n%s", again, first.String())
	}
}

func TestExportReportsTheWriter(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, prompt("x")))
	if err := s.Export(context.Background(), bob, failingWriter{}); !errors.Is(err, errWriter) {
		t.Errorf("got %v", err)
	}
}

var errWriter = errors.New("client is gone")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWriter }
