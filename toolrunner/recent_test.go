package toolrunner

import (
	"fmt"
	"strings"
	"testing"
)

// ended is an execution that has printed that many bytes.
func ended(id string, size int) *Execution {
	e := NewExecution(toolFunc(nil), numbered(id, 1), Limits{OutputCap: maxOutputCap}, Outlet{})
	_, _ = e.out.WriteString(strings.Repeat("x", size))
	return e
}

func TestRecentIsBounded(t *testing.T) {
	var r recent
	for i := range recentCalls + 5 {
		e := ended(fmt.Sprint("c", i), 1)
		r.add(e.call.Key(), e)
	}
	if len(r.ended) != recentCalls || len(r.order) != recentCalls || r.bytes != recentCalls {
		t.Errorf("%d calls, %d in order, %d bytes", len(r.ended), len(r.order), r.bytes)
	}
	if r.ended[numbered("c4", 1).Key()] != nil || r.ended[numbered("c5", 1).Key()] == nil {
		t.Error("not the oldest were forgotten")
	}
	big := ended("big", recentBytes)
	r.add(big.call.Key(), big)
	if len(r.ended) != 1 || r.bytes != recentBytes {
		t.Errorf("%d calls, %d bytes", len(r.ended), r.bytes)
	}
	r.add(big.call.Key(), big) // once more: still one
	if len(r.ended) != 1 || len(r.order) != 1 || r.bytes != recentBytes {
		t.Errorf("%d calls, %d in order, %d bytes", len(r.ended), len(r.order), r.bytes)
	}
}
