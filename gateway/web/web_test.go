package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFilesHaveTypesAndTags(t *testing.T) {
	f, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range f.byName {
		if file.kind == "application/octet-stream" || len(file.body) == 0 || len(file.tag) != 18 {
			t.Errorf("%s: %q, %d bytes, tag %s", name, file.kind, len(file.body), file.tag)
		}
		if lines := bytes.Count(file.body, []byte("\n")); lines > 400 {
			t.Errorf("%s has %d lines", name, lines)
		}
		if strings.HasSuffix(name, ".js") && !bytes.HasPrefix(file.body, []byte("// ")) {
			t.Errorf("%s does not begin by saying what it is for", name)
		}
	}
	w := httptest.NewRecorder()
	if f.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "none") || w.Body.Len() > 0 {
		t.Error("there is no such file")
	}
}
