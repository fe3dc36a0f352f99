package engine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"braid/schemas"
)

// Price is what the tokens of a model cost, in US dollars per million tokens.
type Price struct {
	// Input is the price of what was neither read from a cache nor written to one.
	Input, Output, CacheRead, CacheWrite schemas.USD
}

// MaxPrice bounds a price: ten thousand dollars per million tokens.
const MaxPrice = 10_000 * schemas.Dollar

// maxPrices bounds a price list, in bytes.
const maxPrices = 1 << 20

// perMillion is how many tokens a price is for.
const perMillion = 1_000_000

// Cost is what the tokens cost, to the billionth of a dollar. What is left below that, where a price
// has more than three decimals, is rounded up, once a request.
func (p Price) Cost(c schemas.TokenCounts) schemas.USD {
	var hi, lo uint64 // in billionths per million, a sum of 128 bits
	for _, part := range []struct {
		tokens int64
		price  schemas.USD
	}{
		{c.Total - c.Output - c.CacheRead - c.CacheWrite, p.Input},
		{c.Output, p.Output}, {c.CacheRead, p.CacheRead}, {c.CacheWrite, p.CacheWrite},
	} {
		h, l := bits.Mul64(uint64(max(0, part.tokens)), uint64(max(0, part.price)))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	lo, carry := bits.Add64(lo, perMillion-1, 0)
	if hi += carry; hi >= perMillion/2 { // more than there are dollars
		return math.MaxInt64
	}
	cost, _ := bits.Div64(hi, lo, perMillion)
	return schemas.USD(min(cost, math.MaxInt64))
}

// Prices are the prices of models, by "provider/model". They are not changed once an engine has them.
// Models that are not among them have no price.
type Prices map[string]Price

// ParsePrices reads a price list: a YAML mapping of "provider/model" to its prices in US dollars per
// million tokens, plain decimal numbers.
//
//	anthropic/claude-sonnet:
//	  input: 3
//	  output: 15
//	  cache_read: 0.30
//	  cache_write: 3.75
//
// Input and output are needed; cached tokens cost as much as input unless said otherwise. Whatever else
// stands there is an error, which says where, and so is a list of over 1 MiB.
func ParsePrices(data []byte) (_ Prices, err error) {
	if len(data) > maxPrices {
		return nil, fmt.Errorf("read the price list: it has %d bytes, the limit is %d", len(data), maxPrices)
	}
	defer func() {
		// The YAML parser is not ours: should a list make it panic, the list is at fault.
		if p := recover(); p != nil {
			err = errors.New("read the price list: this can't be read as YAML")
		}
	}()
	var list map[string]listedPrice
	if err := yaml.UnmarshalWithOptions(data, &list, yaml.DisallowUnknownField()); err != nil {
		return nil, fmt.Errorf("read the price list: %s", yaml.FormatError(err, false, false))
	}
	prices := make(Prices, len(list))
	var errs []error
	for _, model := range slices.Sorted(maps.Keys(list)) {
		price, err := list[model].price(model)
		errs = append(errs, err)
		prices[model] = price
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read the price list: %w", err)
	}
	return prices, nil
}

// listedPrice is a price as it stands in a list.
type listedPrice struct {
	Input      *listedUSD `yaml:"input"`
	Output     *listedUSD `yaml:"output"`
	CacheRead  *listedUSD `yaml:"cache_read"`
	CacheWrite *listedUSD `yaml:"cache_write"`
}

func (l listedPrice) price(model string) (Price, error) {
	if _, _, err := schemas.SplitModel(model); err != nil {
		return Price{}, fmt.Errorf("%q: %w", model, err)
	}
	if l.Input == nil || l.Output == nil {
		return Price{}, fmt.Errorf("%s needs input and output, in US dollars per million tokens", model)
	}
	p := Price{Input: l.Input.USD, Output: l.Output.USD, CacheRead: l.Input.USD, CacheWrite: l.Input.USD}
	if l.CacheRead != nil {
		p.CacheRead = l.CacheRead.USD
	}
	if l.CacheWrite != nil {
		p.CacheWrite = l.CacheWrite.USD
	}
	for _, price := range []schemas.USD{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
		if price < 0 || price > MaxPrice {
			return Price{}, fmt.Errorf("%s: a price is from 0 to %s US dollars per million tokens, not %s", model, MaxPrice, price)
		}
	}
	return p, nil
}

// listedUSD reads an amount from the digits in the file, so that nothing is rounded.
type listedUSD struct{ schemas.USD }

// UnmarshalYAML implements yaml.BytesUnmarshaler.
func (u *listedUSD) UnmarshalYAML(b []byte) (err error) {
	u.USD, err = schemas.ParseUSD(strings.TrimSpace(string(b)))
	return err
}

// priced are the counts with what they cost, by the price of the model; nothing if it has none. What
// the provider's adapter says of it does not count: one table prices all.
func (p Prices) priced(model string, counts schemas.TokenCounts) schemas.TokenCounts {
	counts.CostUSD = 0
	if price, ok := p[model]; ok {
		counts.CostUSD = price.Cost(counts)
	}
	return counts
}

// missing says why a session within the limits can't run on the model: it may only cost so much, and
// nobody knows what it costs. It is nil if it can.
func (p Prices) missing(model string, limits schemas.Limits) *schemas.Error {
	budget := limits.CostBudget()
	if _, ok := p[model]; ok || budget == "" {
		return nil
	}
	e := schemas.Errorf(schemas.CodeInvalid, "%s needs a price of %s, and this engine knows none", budget, model)
	e.Field = budget
	return e
}
