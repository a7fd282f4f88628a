package doctor

import (
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/text"
)

// cacheDays is the number of days back over which the usage of agents is checked.
const cacheDays = 7

// cache warns of phases that a provider's cache could have served but did not, so that each call paid for its whole input.
func (d *diagnosis) cache(p *app.Project) {
	record, err := p.Stats().Read(d.console.Now().AddDate(0, 0, -cacheDays))
	if err != nil {
		return // the tasks can't be listed, which is reported with them
	}
	var cold []string
	t := record.Table(stats.ByPhase)
	for _, r := range t.Rows {
		if r.CacheMissed > 0 {
			cold = append(cold, fmt.Sprintf("%s (%d of %s)", r.Key, r.CacheMissed, text.Count(r.Calls, "call")))
		}
	}
	switch {
	case len(cold) > 0:
		d.add(stateWarning, "cache", fmt.Sprintf("in the last %d days none of the input of agents came from the provider's cache in %s, although the call before began with the same text", cacheDays, strings.Join(cold, ", ")),
			"trellis stats --since 7d; the same model and permission for implement, check and debug, and a provider that caches, make a task cheaper")
	case t.Total.CachedTokens > 0:
		d.add(stateOK, "cache", fmt.Sprintf("%.0f%% of the input of agents in the last %d days came from the provider's cache", 100**t.Total.CacheHits, cacheDays), "")
	}
}
