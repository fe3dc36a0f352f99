package web

import (
	"net/http"
	"net/http/httptest"
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
	}
	w := httptest.NewRecorder()
	if f.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "none") || w.Body.Len() > 0 {
		t.Error("there is no such file")
	}
}
