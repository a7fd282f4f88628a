package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// addCalls adds what agents and commands took.
func (p *page) addCalls(work *stats.Record) {
	made, tokens, cost, unknown, missed, ran, seconds := counts{}, counts{}, counts{}, counts{}, counts{}, counts{}, counts{}
	took := newHistograms(secondsBounds)
	models := modelsOf(work)
	for c := range work.Calls() {
		if c.Agent == "" {
			ran.add(float64(c.Passes), c.Phase, "passed")
			ran.add(float64(c.Fails), c.Phase, "failed")
			seconds.add(c.CheckSeconds, c.Phase)
			continue
		}
		u, model := c.Usage, models.label(c)
		made.add(1, c.Phase, c.Agent, resultLabel(c))
		took.observe(u.Seconds, c.Phase)
		missed.add(float64(oneIf(c.Missed)), c.Agent)
		tokens.add(float64(u.InputTokens), c.Agent, model, "input")
		tokens.add(float64(u.CachedTokens), c.Agent, model, "cache_read")
		tokens.add(float64(u.OutputTokens), c.Agent, model, "output")
		if u.Unpriced() || u.CostPartial {
			unknown.add(1, c.Agent, model)
		}
		if u.CostUSD == nil {
			continue
		}
		cost.add(*u.CostUSD, c.Agent, model, strconv.FormatBool(u.CostEstimated))
	}
	p.writeCounts(agentCalls, made)
	p.writeHistograms(agentSeconds, took)
	p.writeCounts(agentTokens, tokens)
	p.writeCounts(agentCost, cost)
	p.writeCounts(unpriced, unknown)
	p.writeCounts(cacheMissed, missed)
	p.writeCounts(checks, ran)
	p.writeCounts(checkSeconds, seconds)
}

// addRuns adds the metrics about ended runs.
func (p *page) addRuns(work *stats.Record) {
	ended, failed, places := counts{}, counts{}, counts{}
	took, rounds, phases := newHistograms(secondsBounds), newHistograms(roundsBounds), newHistograms(secondsBounds)
	for r := range work.Runs() {
		flow := "pipeline"
		if r.Planning {
			flow = "plan"
		}
		ended.add(1, flow, r.Outcome)
		took.observe(r.Took.Seconds(), flow)
		if r.Outcome == string(trellis.Failed) {
			failed.add(1, flow, codeLabel(r.Code))
		}
		if r.Rounds > 0 {
			rounds.observe(float64(r.Rounds))
		}
		if r.Place != "" {
			places.add(1, string(r.Place))
		}
	}
	for ph := range work.Phases() {
		phases.observe(ph.Took.Seconds(), ph.Name)
	}
	p.writeCounts(runsEnded, ended)
	p.writeCounts(runFailures, failed)
	p.writeHistograms(runSeconds, took)
	p.writeHistograms(runRounds, rounds)
	p.writeHistograms(phaseSeconds, phases)
	p.writeCounts(deliveries, places)
}

// codeLabel returns the label for a failure code, "another" for unknown ones: a journal may contain anything.
func codeLabel(c trellis.Code) string {
	if _, known := c.Info(); known {
		return string(c)
	}
	return "another"
}

func resultLabel(c stats.Call) string {
	switch {
	case c.Failed:
		return "failed"
	case c.Refused:
		return "refused"
	}
	return "ok"
}

// maxModels is how many models get a separate label: agents report the names of models, and may report anything.
const maxModels = 50

// models are the models with a separate label.
type models map[string]bool

// modelsOf returns the models with the most calls.
func modelsOf(work *stats.Record) models {
	times := map[string]int{}
	for c := range work.Calls() {
		if c.Model != "" {
			times[c.Model]++
		}
	}
	names := slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b)) })
	own := models{}
	for _, name := range names[:min(len(names), maxModels)] {
		own[name] = true
	}
	return own
}

// label returns the label for the model of a call: "" if it is unknown.
func (m models) label(c stats.Call) string {
	if c.Model == "" || m[c.Model] {
		return c.Model
	}
	return "another"
}
