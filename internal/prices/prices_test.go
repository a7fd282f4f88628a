package prices_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/prices"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestOf(t *testing.T) {
	own := prices.Table{"gpt-5.5": {Input: 1}, "local/qwen": {Output: 2}, "claude-opus-4.6": {Input: 7}}
	for model, want := range map[string]struct {
		input float64
		known bool
	}{
		"gpt-5.1-codex":              {1.25, true},
		"openai/gpt-5.1-codex":       {1.25, true},
		"openrouter/openai/gpt-5":    {1.25, true},
		"claude-haiku-4-5-20251001":  {1, true},
		"claude-sonnet-4-5[1m]":      {3, true},
		"claude-opus-4-1@20250805":   {15, true},
		"claude-3-7-sonnet-latest":   {3, true},
		"gpt-4o-2024-08-06":          {2.5, true},
		"GPT-5":                      {1.25, true},
		"gpt-5.5":                    {1, true}, // the project's own
		"openai/gpt-5.5-2026-04-23":  {1, true},
		"local/qwen":                 {0, true},
		"qwen":                       {0, false},
		"deepseek-chat:free":         {0, false},
		"gpt-5-turbo-of-tomorrow":    {0, false},
		"mock-1":                     {0, false},
		"":                           {0, false},
		"model":                      {0, false},
		"eu.anthropic.claude-opus-5": {5, true},
		"amazon-bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0": {3, true},
		"openrouter/anthropic/claude-opus-4.5":                      {5, true},
		"github-copilot/claude-3.5-sonnet":                          {3, true},
		"openrouter/anthropic/claude-opus-4.6":                      {7, true},
		"gpt-4-1":                                                   {0, false},
	} {
		got, known := own.Of(model)
		if got.Input != want.input || known != want.known {
			t.Errorf("%s: got %v, %t, want %v, %t", model, got, known, want.input, want.known)
		}
	}
}

func TestCost(t *testing.T) {
	p := prices.Price{Input: 1, Output: 10, CacheRead: 0.1, CacheWrite: 1.25}
	got := p.Cost(trellis.Usage{InputTokens: 3_000_000, CachedTokens: 2_000_000, OutputTokens: 500_000}, 1_000_000)
	if want := 2 + 1.25 + 0.2 + 5; math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	if p, ok := prices.Table(nil).Of("gpt-5.4"); !ok || p.CacheWrite != p.Input {
		t.Errorf("got %+v: where the cache has no price of its own, it is that of input", p)
	}
}

// What is embedded is what the script writes: dated, with its source and license, each model once and with figures that can be.
func TestList(t *testing.T) {
	data, err := os.ReadFile("models.tsv")
	if err != nil {
		t.Fatal(err)
	}
	if day, err := time.Parse(time.DateOnly, prices.Date()); err != nil || day.Year() < 2026 {
		t.Errorf("got the day %q, %v", prices.Date(), err)
	}
	if !regexp.MustCompile(`(?m)^# source: \S+ \d\S*, MIT license`).Match(data) {
		t.Error("source and license are not said")
	}
	if docs, err := os.ReadFile("../../docs/reference/agents.md"); err != nil || !strings.Contains(string(docs), "those of "+prices.Date()) {
		t.Errorf("docs/reference/agents.md does not say %s, %v", prices.Date(), err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 5 || seen[f[0]] {
			t.Fatalf("got the line %q", line)
		}
		seen[f[0]] = true
		input, err := strconv.ParseFloat(f[1], 64)
		output, err2 := strconv.ParseFloat(f[2], 64)
		p, ok := prices.Table(nil).Of(f[0])
		if err != nil || err2 != nil || !ok || p.Input != input || p.Output != output || input <= 0 || output < input || p.CacheRead > input || p.CacheWrite < input {
			t.Errorf("%s: got %+v, %t of %q", f[0], p, ok, line)
		}
	}
	if len(seen) < 50 {
		t.Errorf("got %d models", len(seen))
	}
}
