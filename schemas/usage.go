package schemas

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// TokenCounts are numbers of tokens. Total includes the cached and the written ones.
type TokenCounts struct {
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
	Total      int64 `json:"total"`
	// CostUSD is what they cost, by the prices that held when they were used; 0 if no price was
	// known.
	CostUSD USD            `json:"cost_usd,omitzero"`
	Extra   jsontext.Value `json:",embed"`
}

// Add returns the sum of both.
func (c TokenCounts) Add(d TokenCounts) TokenCounts {
	return TokenCounts{
		CacheRead: c.CacheRead + d.CacheRead, CacheWrite: c.CacheWrite + d.CacheWrite,
		Output: c.Output + d.Output, Total: c.Total + d.Total,
		CostUSD: c.CostUSD + d.CostUSD,
	}
}

// same reports that all counts are equal.
func (c TokenCounts) same(d TokenCounts) bool {
	return c.CacheRead == d.CacheRead && c.CacheWrite == d.CacheWrite && c.Output == d.Output && c.Total == d.Total &&
		c.CostUSD == d.CostUSD
}

// TokenUsage is what the session and its last request used, completed or not. A request that used
// nothing, and did not complete, has none.
type TokenUsage struct {
	Session TokenCounts `json:"session"`
	Request TokenCounts `json:"request"`
	// Estimated is set when the provider gave no usage.
	Estimated bool           `json:"estimated,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

// The units of budgets.
const (
	UnitTokens = "tokens"
	UnitUSD    = "USD"
)

// BudgetExceeded: the session used more than it may. Unit is [UnitTokens] or [UnitUSD].
type BudgetExceeded struct {
	Used  float64        `json:"used"`
	Limit float64        `json:"limit"`
	Unit  string         `json:"unit"`
	Extra jsontext.Value `json:",embed"`
}

// Amounts says how much of how much is used, for people.
func (p *BudgetExceeded) Amounts() string {
	plain := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	return plain(p.Used) + " of " + plain(p.Limit) + " " + p.Unit
}
