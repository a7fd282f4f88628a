package share

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// day is the name of a day, in the time zone of the clock.
func day(at time.Time) string { return at.Format(time.DateOnly) }

// spending is what the machines of the team used today or yesterday, as far as this one knows. It goes with each state, so that who joins
// later hears of all.
func (t *Team) spending() taskref.Spending {
	known := t.sightings.spent()
	if t.Used == nil {
		return known
	}
	if used, err := t.Used(); err == nil { // else what was heard of it last
		own := taskref.Spent{Day: day(t.Now()), Tokens: used.Tokens()}
		if used.CostUSD != nil {
			own.CostUSD = *used.CostUSD
		}
		known.Learn(taskref.Spending{t.Machine: own})
	}
	return known
}

// SpentElsewhere is what the agents of other machines used today, as far as this one heard: their days are those of their own clocks and time zones. It
// asks nobody.
func (t *Team) SpentElsewhere() trellis.Usage { return t.sightings.spentElsewhere(t.Machine, t.Now()) }

// SpentElsewhere is what the agents of other machines used today, by the clock that k was made with.
func (k *Known) SpentElsewhere() trellis.Usage {
	return k.heard.spentElsewhere(k.machine, k.heard.now())
}

func (s *sightings) spentElsewhere(here string, now time.Time) (sum trellis.Usage) {
	for machine, its := range s.spent() {
		if machine != here && its.Day == day(now) {
			sum = sum.Add(trellis.Usage{InputTokens: its.Tokens, CostUSD: &its.CostUSD})
		}
	}
	return sum
}
