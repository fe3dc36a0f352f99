package trace

import (
	"context"
	"fmt"
	"time"

	"braid/schemas"
)

// Day is a day in UTC: the number of days since 1970-01-01.
type Day uint32

const dayLayout = "2006-01-02"

// DayOf is the day of an instant; days before 1970 are 0.
func DayOf(t time.Time) Day { return Day(max(0, t.Unix()) / (24 * 60 * 60)) }

// ParseDay reads a day written as 2006-01-02. Anything else is a *[schemas.Error].
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(dayLayout, s)
	if err != nil || t.Unix() < 0 {
		return 0, &schemas.Error{
			Code: schemas.CodeInvalid, Field: "day",
			Message: fmt.Sprintf("%.40q is not a day of the form 2006-01-02", s),
		}
	}
	return DayOf(t), nil
}

// Time is the instant the day begins.
func (d Day) Time() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// String renders the day as 2006-01-02.
func (d Day) String() string { return d.Time().Format(dayLayout) }

// MarshalText is String.
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDay.
func (d *Day) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDay(string(b))
	return err
}

// UsageRow is what a project used of one model on one day.
type UsageRow struct {
	Day   Day    `json:"day"`
	Model string `json:"model"` // "provider/model"
	// Requests counts the model calls that used something, completed or not.
	Requests int64 `json:"requests"`
	// Tokens adds up what they used, and what that cost when they used it.
	Tokens schemas.TokenCounts `json:"tokens"`
}

// usage is the value of a usage row.
type usage struct {
	Requests int64               `json:"requests"`
	Tokens   schemas.TokenCounts `json:"tokens"`
}

// add returns the sum of both; sign -1 takes d away.
func (u usage) add(d usage, sign int64) usage {
	return usage{
		Requests: u.Requests + sign*d.Requests,
		Tokens: schemas.TokenCounts{
			CacheRead:  u.Tokens.CacheRead + sign*d.Tokens.CacheRead,
			CacheWrite: u.Tokens.CacheWrite + sign*d.Tokens.CacheWrite,
			Output:     u.Tokens.Output + sign*d.Tokens.Output,
			Total:      u.Tokens.Total + sign*d.Tokens.Total,
			CostUSD:    u.Tokens.CostUSD + schemas.USD(sign)*d.Tokens.CostUSD,
		},
	}
}

// Usage returns what a project used from one day to another, both included, ordered by day and
// model. It counts the sessions that exist: deleting a session takes its usage away, so that a
// trace that was rebuilt answers as one that was not.
func (s *Store) Usage(ctx context.Context, project string, from, to Day) ([]UsageRow, error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return nil, err
	}
	if to < from {
		return nil, nil
	}
	rows, err := s.usageRows(ctx, usageKey(project, from, ""), usageKey(project, to, ""), func(k []byte) (Day, string, error) {
		_, day, model, err := parseUsageKey(k)
		return day, model, err
	})
	if err != nil {
		return nil, fmt.Errorf("usage of %s: %w", project, err)
	}
	return rows, nil
}

// SessionUsage is [Store.Usage] of one session. A session that does not exist has used nothing.
func (s *Store) SessionUsage(ctx context.Context, ref schemas.SessionRef, from, to Day) ([]UsageRow, error) {
	if to < from {
		return nil, nil
	}
	rows, err := s.usageRows(ctx, sessionUsageKey(ref, from, ""), sessionUsageKey(ref, to, ""), func(k []byte) (Day, string, error) {
		_, day, model, err := parseSessionUsageKey(k)
		return day, model, err
	})
	if err != nil {
		return nil, fmt.Errorf("usage of %s: %w", ref, err)
	}
	return rows, nil
}

// usageRows reads the rows from a key on, up to all that begin with the last one.
func (s *Store) usageRows(ctx context.Context, first, last []byte, parse func([]byte) (Day, string, error)) (rows []UsageRow, err error) {
	err = s.scan(ctx, first, prefixEnd(last), func(k, v []byte) error {
		day, model, err := parse(k)
		if err != nil {
			return err
		}
		var u usage
		if err := schemas.DecodeJSON(v, &u); err != nil {
			return err
		}
		rows = append(rows, UsageRow{Day: day, Model: model, Requests: u.Requests, Tokens: u.Tokens})
		return nil
	})
	return rows, err
}
