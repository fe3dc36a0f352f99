package cli

import (
	"testing"
	"time"
)

func TestLiveTTL(t *testing.T) {
	for _, row := range []struct {
		why, given string
		want       time.Duration
		bad        bool
	}{
		{"the least", "1m", time.Minute, false},
		{"the most", "168h", 168 * time.Hour, false},
		{"too little for anybody to come back", "59s", 0, true},
		{"too much for any disk", "169h", 0, true},
		{"what no lifetime of a message can say", "1m0.5s", 0, true},
		{"no duration", "an hour", 0, true},
	} {
		var l LiveTTL
		if err := l.Set(row.given); (err != nil) != row.bad || l.Value() != row.want {
			t.Errorf("%s: %s is %s, %v", row.why, row.given, l.Value(), err)
		}
	}
}
