package bus

import (
	"context"
	"time"

	"braid/schemas"
)

// UsageReport is what was used from one day to another.
type UsageReport struct {
	From    string     `json:"from,omitzero"`
	To      string     `json:"to"`
	Session string     `json:"session,omitzero"`
	Usage   []UsageRow `json:"usage"`
	Total   UsageTotal `json:"total"`
}

// UsageTotal is the sum of a report's rows.
type UsageTotal struct {
	Requests int64               `json:"requests"`
	Tokens   schemas.TokenCounts `json:"tokens"`
}

// usageDays is how many days of a project are told of, unless others are asked for.
const usageDays = 30

// ReportUsage tells what a project used, or one session if ref names one. Without To the last day is
// now's; without From the first is 30 days in all before it, or the session's first.
func (c *Conn) ReportUsage(ctx context.Context, ref schemas.SessionRef, args UsageArgs, now time.Time) (UsageReport, error) {
	report := UsageReport{From: args.From, To: args.To, Session: ref.ID}
	if report.To == "" {
		report.To = now.UTC().Format(time.DateOnly)
	}
	var least uint64
	if ref.ID != "" {
		ends, err := c.KnownEnds(ctx, ref)
		if err != nil {
			return report, err
		}
		least = ends.Log
	} else if report.From == "" {
		last, err := time.Parse(time.DateOnly, report.To)
		if err != nil {
			return report, &schemas.Error{Code: schemas.CodeInvalid, Field: "to", Message: "to must be a day such as 2006-01-02"}
		}
		report.From = last.AddDate(0, 0, 1-usageDays).Format(time.DateOnly)
	}
	table, err := c.AskUsage(ctx, ref, least, UsageArgs{From: report.From, To: report.To})
	if err != nil {
		return report, err
	}
	report.Usage = table.Rows
	for _, row := range table.Rows {
		report.Total.Requests += row.Requests
		report.Total.Tokens = report.Total.Tokens.Add(row.Tokens)
	}
	return report, nil
}
