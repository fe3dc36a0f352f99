package timelinetest

import (
	"fmt"
	"strings"

	"braid/schemas"
)

// Usage writes what the requests of a session used and how they ended, a line each.
func Usage(entries []schemas.Entry) string {
	var b strings.Builder
	for i, e := range entries {
		p, ok := e.Message.Payload.(*schemas.TokenUsage)
		if !ok || i+1 == len(entries) {
			continue
		}
		how := string(entries[i+1].Message.Kind())
		if end, ok := entries[i+1].Message.Payload.(*schemas.RequestEnd); ok {
			how = string(end.Status)
		}
		if p.Estimated {
			how += ", estimated"
		}
		fmt.Fprintf(&b, "%s: %s; the session %s\n", how, counts(p.Request), counts(p.Session))
	}
	return b.String()
}

func counts(c schemas.TokenCounts) string {
	text := fmt.Sprintf("%d tokens", c.Total)
	for _, part := range []struct {
		n    int64
		name string
	}{{c.Output, "output"}, {c.CacheRead, "cache_read"}, {c.CacheWrite, "cache_write"}} {
		if part.n > 0 {
			text += fmt.Sprintf(" (%s %d)", part.name, part.n)
		}
	}
	if c.CostUSD > 0 {
		text += " for $" + c.CostUSD.String()
	}
	return text
}

// withoutCounts leaves out of a line how much was used: many stories are about something else.
func withoutCounts(m schemas.Message) schemas.Message {
	if _, ok := m.Payload.(*schemas.TokenUsage); ok {
		m.Payload = &schemas.TokenUsage{}
	}
	return m
}
