package app

import (
	"github.com/trellis-tasks/trellis/internal/metrics"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// Metrics returns a collector of a project's metrics for Prometheus. A caller that keeps it rereads only what was written
// since. version is the version of this program.
func Metrics(p *Project, version string) *metrics.Collector {
	c, _ := p.Config() // invalid settings hide no metric: defaults replace them
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
