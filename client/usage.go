package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"braid/bus"
	"braid/schemas"
)

// UsageOptions say what is added up. The zero value is the project's last 30 days.
type UsageOptions struct {
	// From and To are days in UTC, both included. Without To the last is today; without From the first
	// is 30 days in all before it, or the session's first.
	From, To time.Time
	// Session is the one that is asked for; empty: all that are not deleted.
	Session string
}

func (o UsageOptions) args() bus.UsageArgs { return bus.UsageArgs{From: day(o.From), To: day(o.To)} }

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}

// Usage tells what the project's sessions used, or one of them, by day and model.
func (c *Client) Usage(ctx context.Context, o UsageOptions) (bus.UsageReport, error) {
	if o.Session != "" {
		if err := schemas.ValidateName("session", o.Session); err != nil {
			return bus.UsageReport{}, err
		}
	}
	return retry(ctx, c.pauses, func() (bus.UsageReport, error) { return c.transport.usage(ctx, o) })
}

func (t *httpTransport) usage(ctx context.Context, o UsageOptions) (report bus.UsageReport, err error) {
	args := o.args()
	query := queryOf(map[string]string{"from": args.From, "to": args.To, "session": o.Session})
	return report, t.call(ctx, route{http.MethodGet, "/v1/usage" + query, nil}, nil, &report)
}

func (t *natsTransport) usage(ctx context.Context, o UsageOptions) (bus.UsageReport, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	report, err := t.conn.ReportUsage(ctx, t.ref(o.Session), o.args(), time.Now())
	if err != nil {
		return report, fmt.Errorf("add up the usage: %w", err)
	}
	return report, nil
}
