package terminal

import (
	"fmt"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
)

// Forecast returns what a task may take, in words, and on how many earlier tasks that is based.
func Forecast(f status.Forecast) string {
	cost := "cost unknown"
	if c := f.CostUSD; c != nil {
		cost = rangeWords(c.Low, c.High, func(usd float64) string { return text.USD(usd, f.Estimated) })
	}
	of := ""
	if f.Size != "" {
		of = " of size " + string(f.Size)
	}
	if f.Agent != "" {
		of += " that " + f.Agent + " did"
	}
	return fmt.Sprintf("%s calls, %s tokens, %s, %s; by %s%s", rangeWords(f.Calls.Low, f.Calls.High, func(n float64) string { return fmt.Sprintf("%.0f", n) }),
		rangeWords(f.Tokens.Low, f.Tokens.High, func(n float64) string { return text.Tokens(int64(n)) }), cost,
		rangeWords(f.Minutes.Low, f.Minutes.High, func(n float64) string { return text.Seconds(60 * n) }), text.Count(f.Tasks, "earlier task"), of)
}

// rangeWords returns two numbers in words, or one if their words are the same.
func rangeWords(low, high float64, words func(float64) string) string {
	from, to := words(low), words(high)
	if from == to {
		return from
	}
	return from + " to " + to
}
