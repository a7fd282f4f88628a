// Package prices estimates the cost of models for agents that report their usage but not its cost. The estimate uses list prices
// of one date, which a project can override; actual charges may differ.
package prices

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Price is the price of a model, in USD per million tokens.
type Price struct {
	Input, Output float64
	CacheRead     float64 // input that was read from the provider's cache
	CacheWrite    float64 // input that was written to the cache
}

// Table holds a project's own prices, by model. The zero value has none. Models that it lacks have the built-in prices.
type Table map[string]Price

// Of returns the price of a model as any agent spells its name: a provider may precede the name and a version date follow it. A
// project's own price takes precedence. Of returns false for unknown models, which is not the same as a price of zero.
func (t Table) Of(model string) (Price, bool) {
	plain := plainName(model)
	for _, name := range []string{model, plain} {
		if p, ok := t[name]; ok {
			return p, true
		}
	}
	if strings.HasPrefix(plain, "claude-") { // gateways write claude-sonnet-4.5
		plain = strings.ReplaceAll(plain, ".", "-")
	}
	p, ok := builtIn().models[plain]
	return p, ok
}

// Cost returns the cost of u in USD. written is the number of input tokens that were written to a cache.
func (p Price) Cost(u trellis.Usage, written int64) float64 {
	const million = 1e6
	return (float64(u.InputTokens-written)*p.Input + float64(written)*p.CacheWrite + float64(u.CachedTokens)*p.CacheRead +
		float64(u.OutputTokens)*p.Output) / million
}

// Date returns the date of the built-in prices.
func Date() string { return builtIn().date }

// version matches what agents and clouds append to the name of a model: a window, a date, a region, a revision, "latest".
var version = trellis.Pattern(`(\[\d+m\]|@\d+|-v\d+:\d+|-\d{8}|-\d{4}-\d\d-\d\d|-latest)+$`)

// plainName returns the name of a model without prefix and suffix.
func plainName(model string) string {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if at := strings.LastIndex(name, "anthropic."); at >= 0 { // for example eu.anthropic.claude-…
		name = name[at+len("anthropic."):]
	}
	return version().ReplaceAllString(name, "")
}

//go:embed models.tsv
var list string

// known is the content of models.tsv.
type known struct {
	date   string
	models map[string]Price
}

var builtIn = sync.OnceValue(func() known {
	k := known{models: map[string]Price{}}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if date, ok := strings.CutPrefix(line, "# date: "); ok {
			k.date = date
		}
		if fields := strings.Split(line, "\t"); len(fields) == 5 && line[0] != '#' {
			k.models[fields[0]] = priceOf(fields[1:])
		}
	}
	return k
})

// priceOf parses the prices in a line of models.tsv. Missing cache prices default to that of input.
func priceOf(fields []string) Price {
	p := Price{Input: number(fields[0], 0), Output: number(fields[1], 0)}
	p.CacheRead, p.CacheWrite = number(fields[2], p.Input), number(fields[3], p.Input)
	return p
}

func number(field string, otherwise float64) float64 {
	n, err := strconv.ParseFloat(field, 64)
	if err != nil { // "-"
		return otherwise
	}
	return n
}
