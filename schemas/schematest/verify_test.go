package schematest

import (
	"fmt"
	"strings"
	"testing"

	"braid/schemas"
)

// recorder is a test that only remembers its errors.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestVerify(t *testing.T) {
	entries := MustParse("trace user \"x\"\nevent request_begin\nevent request_begin\nevent request_end failed")
	var r recorder
	Verify(&r, schemas.ViewFeed, entries)
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "3.0 one-request") || !strings.Contains(r.errors[0], "# here:\n@3 event request_begin\n") {
		t.Errorf("errors: %q", r.errors)
	}
	r.errors = nil
	VerifyFinished(&r, schemas.ViewFeed, entries)
	if len(r.errors) != 2 || !strings.Contains(r.errors[1], "at the end: 1.0 one-task-end") {
		t.Errorf("errors at the end: %q", r.errors)
	}
	r.errors = nil
	VerifyFinished(&r, schemas.ViewFeed, MustParse("trace user \"x\"\nevent abort\nevent task_end aborted"))
	VerifyFinished(&r, schemas.ViewFeed, nil)
	Verify(&r, schemas.ViewFeed, entries[1:2], schemas.FromMiddle())
	if len(r.errors) != 0 {
		t.Errorf("a legal stream: %q", r.errors)
	}
}
