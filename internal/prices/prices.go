// Package prices says what models cost where an agent tells what it used and not what that costs. What it says is an estimate:
// by list prices of one day, which a project may put right, and not by what somebody's account is charged.
package prices

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Price is what a model costs, in USD for a million tokens.
type Price struct {
	Input, Output float64
	CacheRead     float64 // of input that came from the provider's cache
	CacheWrite    float64 // of input that was written to it
}

// Table is the prices of a project's own, by model. The zero value has none, and knows the built-in ones all the same.
type Table map[string]Price

// Of is the price of a model in the spelling of any agent: with its provider before it, or the day of its version behind. A
// project's own price goes first. What nobody knows has none, which is not the same as costing nothing.
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

// Cost is what tokens cost. Of the input so many were written to a cache.
func (p Price) Cost(u trellis.Usage, written int64) float64 {
	const million = 1e6
	return (float64(u.InputTokens-written)*p.Input + float64(written)*p.CacheWrite + float64(u.CachedTokens)*p.CacheRead +
		float64(u.OutputTokens)*p.Output) / million
}

// Date is the day of the built-in prices.
func Date() string { return builtIn().date }

// version is what agents and clouds put behind the name of a model: a window, a day, a place, a revision, latest.
var version = trellis.Pattern(`(\[\d+m\]|@\d+|-v\d+:\d+|-\d{8}|-\d{4}-\d\d-\d\d|-latest)+$`)

// plainName is a model without what stands before and behind its name.
func plainName(model string) string {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if at := strings.LastIndex(name, "anthropic."); at >= 0 { // as in eu.anthropic.claude-…
		name = name[at+len("anthropic."):]
	}
	return version().ReplaceAllString(name, "")
}

//go:embed models.tsv
var list string

// known is what models.tsv says.
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

// priceOf reads a line of models.tsv. Who tells no price of the cache takes that of input.
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
