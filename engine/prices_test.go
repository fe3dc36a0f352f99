package engine

import (
	"context"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/bus/bustest"
	"braid/schemas"
)

func TestParsePrices(t *testing.T) {
	got, err := ParsePrices([]byte(`
# Per million tokens.
anthropic/claude: {input: 3, output: 15, cache_read: 0.30, cache_write: 3.75}
openai/nano:
  input: 0.05
  output: 0.40
  cache_read: 0.005
"google/a/b":
  input: 0.01875
  output: 0
`))
	if err != nil {
		t.Fatal(err)
	}
	usd := func(s string) schemas.USD {
		u, err := schemas.ParseUSD(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	want := Prices{
		"anthropic/claude": {Input: usd("3"), Output: usd("15"), CacheRead: usd("0.3"), CacheWrite: usd("3.75")},
		"openai/nano":      {Input: usd("0.05"), Output: usd("0.4"), CacheRead: usd("0.005"), CacheWrite: usd("0.05")},
		"google/a/b":       {Input: usd("0.01875"), Output: 0, CacheRead: usd("0.01875"), CacheWrite: usd("0.01875")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, err := ParsePrices(nil); err != nil || len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
}

func TestParsePricesRefuses(t *testing.T) {
	for _, c := range []struct{ why, in, want string }{
		{"an unknown member", "a/b: {input: 1, output: 1, reasoning: 1}", `unknown field "reasoning"`},
		{"no provider", "b: {input: 1, output: 1}", "provider/model"},
		{"no end", strings.Repeat("#", maxPrices+1), "the limit is"},
		{"no output", "a/b: {input: 1}", "a/b needs input and output"},
		{"no prices", "a/b:", "a/b needs input and output"},
		{"a price that is none", "a/b: {input: cheap, output: 1}", `"cheap" is not a plain decimal number`},
		{"a price in another form", "a/b: {input: 1e-3, output: 1}", `"1e-3" is not a plain decimal number`},
		{"a price in quotes", `a/b: {input: "1", output: 1}`, "not a plain decimal number"},
		{"a price too fine", "a/b: {input: 0.0000000001, output: 1}", "more than 9 decimals"},
		{"a gift", "a/b: {input: -1, output: 1}", "from 0 to 10000"},
		{"a price of another unit", "a/b: {input: 3000000, output: 1}", "from 0 to 10000"},
		{"a model twice", "a/b: {input: 1, output: 1}\na/b: {input: 2, output: 2}", "already defined"},
		{"a list", "- a/b", "read the price list"},
		{"no YAML", "a/b: {", "read the price list"},
	} {
		_, err := ParsePrices([]byte(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

func FuzzParsePrices(f *testing.F) {
	f.Add([]byte("a/b: {input: 1, output: 0.5, cache_read: 0.1, cache_write: 2}"))
	f.Add([]byte("a/b:\n  input: !!float 1\n"))
	f.Add([]byte("a/b: &x {input: 1, output: 1}\nc/d: *x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		prices, err := ParsePrices(data)
		for model, p := range prices {
			if _, _, err := schemas.SplitModel(model); err != nil || min(p.Input, p.Output, p.CacheRead, p.CacheWrite) < 0 {
				t.Errorf("%q: %+v", model, p)
			}
		}
		if err != nil && prices != nil {
			t.Error("an error, and prices")
		}
	})
}

// Cached tokens are part of the total, and have prices of their own.
func TestCase_D14_CachedTokensArePricedOnce(t *testing.T) {
	price := Price{Input: 3 * schemas.Dollar, Output: 15 * schemas.Dollar, CacheRead: schemas.Dollar * 3 / 10, CacheWrite: schemas.Dollar * 15 / 4}
	for _, c := range []struct {
		why    string
		counts schemas.TokenCounts
		want   string
	}{
		{"nothing", schemas.TokenCounts{}, "0"},
		{"768 uncached of 184,704", schemas.TokenCounts{CacheRead: 183_936, Total: 184_704}, "0.0574848"}, // 0.002304 + 0.0551808
		{"206 uncached of 98,638", schemas.TokenCounts{CacheRead: 98_432, Total: 98_638}, "0.0301476"},    // 0.000618 + 0.0295296
		{"one of each", schemas.TokenCounts{CacheRead: 1, CacheWrite: 1, Output: 1, Total: 4}, "0.00002205"},
		{"counts that don't add up", schemas.TokenCounts{CacheRead: 10, Output: 1, Total: 5}, "0.000018"},
		{"counts below zero", schemas.TokenCounts{CacheRead: -10, Output: -1, Total: -11}, "0"},
	} {
		if got := price.Cost(c.counts).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.why, got, c.want)
		}
	}
	if got := (Price{Input: schemas.Dollar * 3 / 160}).Cost(schemas.TokenCounts{Total: 1}); got != 19 { // 18.75 billionths
		t.Errorf("a rest is rounded to %d", got)
	}
	if got := (Price{Input: MaxPrice}).Cost(schemas.TokenCounts{Total: math.MaxInt64}); got != math.MaxInt64 {
		t.Errorf("more than there is: %d", got)
	}
}

// The cost is what exact arithmetic gives, rounded up.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Custom(func(t *rapid.T) schemas.USD {
			return schemas.USD(rapid.Int64Range(0, int64(MaxPrice)).Draw(t, "price"))
		})
		p := Price{Input: price.Draw(t, "input"), Output: price.Draw(t, "output"), CacheRead: price.Draw(t, "read"), CacheWrite: price.Draw(t, "write")}
		part := rapid.Int64Range(0, 1<<20)
		input, c := part.Draw(t, "uncached"), schemas.TokenCounts{Output: part.Draw(t, "output"), CacheRead: part.Draw(t, "read"), CacheWrite: part.Draw(t, "write")}
		c.Total = input + c.Output + c.CacheRead + c.CacheWrite
		sum := new(big.Int)
		for _, f := range [][2]int64{{input, int64(p.Input)}, {c.Output, int64(p.Output)}, {c.CacheRead, int64(p.CacheRead)}, {c.CacheWrite, int64(p.CacheWrite)}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(f[0]), big.NewInt(f[1])))
		}
		sum.Add(sum, big.NewInt(perMillion-1)).Div(sum, big.NewInt(perMillion))
		if got := p.Cost(c); !sum.IsInt64() || int64(got) != sum.Int64() {
			t.Fatalf("%s, want %s", got, sum)
		}
	})
}

// A session that may only cost so much needs a price: to be made, and on every engine that runs it.
func TestCostBudgetNeedsAPrice(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": "turns: [{steps: [{text: hi}]}]"})
	create := func(id string) schemas.Outcome {
		return h.send(schemas.Command{ID: id, Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{
			Model: "scripted/m", Limits: schemas.Limits{MaxCostSession: schemas.Dollar},
		}})
	}
	poor := h.killable("e1")
	o := create("c1")
	want := schemas.Outcome{
		CommandID: "c1", Sequence: o.Sequence, Log: o.Log, Code: schemas.CodeInvalid, Field: "limits.max_cost_session_usd",
		Message: "limits.max_cost_session_usd needs a price of scripted/m, and this engine knows none",
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	if o := create("c1"); cmp.Diff(want, o) != "" {
		t.Errorf("asked again: %+v", o)
	}
	if err := poor.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	rich := h.killable("e2", func(o *Options) {
		o.Prices = Prices{"scripted/m": {Input: schemas.Dollar, Output: schemas.Dollar}}
	})
	if o := create("c2"); o.Code != schemas.CodeApplied {
		t.Fatalf("with a price: %+v", o)
	}
	h.task("t1", "go")
	usage := func() (all []*schemas.TokenUsage) {
		for _, m := range h.follow(taskEnded) {
			if u, ok := m.Payload.(*schemas.TokenUsage); ok {
				all = append(all, u)
			}
		}
		return all
	}
	if u := usage(); len(u) != 1 || u[0].Request.CostUSD != schemas.USD(u[0].Request.Total*1000) || u[0].Session.CostUSD != u[0].Request.CostUSD {
		t.Errorf("a dollar per million tokens comes to %+v", u)
	}
	if err := rich.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.engine("e3")
	h.task("t2", "go")
	ends := 0
	log := h.follow(func(m schemas.Message) bool {
		if taskEnded(m) {
			ends++
		}
		return ends == 2
	})
	end := log[len(log)-1].Payload.(*schemas.TaskEnd)
	if end.Status != schemas.StopFailed || end.ErrorInfo == nil || !strings.Contains(end.ErrorInfo.Message, "needs a price of scripted/m") {
		t.Errorf("without a price: %+v", end)
	}
}
