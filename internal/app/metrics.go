package app

import (
	"github.com/trellis-tasks/trellis/internal/metrics"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// Metrics are the numbers of a project for Prometheus. Who keeps them reads again only what was written since. version is that
// of this program.
func Metrics(p *Project, version string) *metrics.Collector {
	c, _ := p.Config() // settings that are wrong hide no number: what they do not say has its default
	used := runner.NewBudgets(p.Root, c, p.Env.Now)
	return metrics.New(metrics.Source{Tasks: p.Reader, Work: p.Stats(), Version: version, Now: p.Env.Now,
		Budget: func() (metrics.Budget, error) {
			now, _ := p.Config()
			today, err := used.Today()
			if err != nil {
				return metrics.Budget{}, err
			}
			elsewhere, err := SharingOf(p).spentElsewhere(c.Shared.Zone())
			return metrics.Budget{Used: today.Add(elsewhere), Tokens: now.Limits.DayTokens, CostUSD: now.Limits.DayCostUSD}, err
		}})
}
