package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// calls tells what agents and commands took.
func (p *page) calls(work *stats.Record) {
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
		made.add(1, c.Phase, c.Agent, result(c))
		took.observe(u.Seconds, c.Phase)
		missed.add(float64(one(c.Missed)), c.Agent)
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
	p.each(agentCalls, made)
	p.histograms(agentSeconds, took)
	p.each(agentTokens, tokens)
	p.each(agentCost, cost)
	p.each(unpriced, unknown)
	p.each(cacheMissed, missed)
	p.each(checks, ran)
	p.each(checkSeconds, seconds)
}

// runs tells what became of runs.
func (p *page) runs(work *stats.Record) {
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
			failed.add(1, flow, code(r.Code))
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
	p.each(runsEnded, ended)
	p.each(runFailures, failed)
	p.histograms(runSeconds, took)
	p.histograms(runRounds, rounds)
	p.histograms(phaseSeconds, phases)
	p.each(deliveries, places)
}

// code is the label of a failure code: one of the table, or another, whatever a journal says.
func code(c trellis.Code) string {
	if _, known := c.Info(); known {
		return string(c)
	}
	return "another"
}

func result(c stats.Call) string {
	switch {
	case c.Failed:
		return "failed"
	case c.Refused:
		return "refused"
	}
	return "ok"
}

// maxModels is how many models have a label of their own: agents say what they are called, and may say anything.
const maxModels = 50

// models are those that have a label of their own.
type models map[string]bool

// modelsOf are the models that most calls were answered by.
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

// label is that of the model of a call: "" when nobody told it.
func (m models) label(c stats.Call) string {
	if c.Model == "" || m[c.Model] {
		return c.Model
	}
	return "another"
}
