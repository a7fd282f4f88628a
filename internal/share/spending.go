package share

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// day returns the name of a day, in the time zone of at.
func day(at time.Time) string { return at.Format(time.DateOnly) }

// spending returns what the machines of the team used today or yesterday, as far as this one knows. It is part of each state,
// so that a machine that joins later learns all of it.
func (t *Team) spending() taskref.Spending {
	known := t.sightings.spent()
	if t.Used == nil {
		return known
	}
	if used, err := t.Used(); err == nil { // on an error, what was heard last counts
		own := taskref.Spent{Day: day(t.Now()), Tokens: used.Tokens()}
		if used.CostUSD != nil {
			own.CostUSD = *used.CostUSD
		}
		known.Learn(taskref.Spending{t.Machine: own})
	}
	return known
}

// SpentElsewhere returns what the agents of other machines used today, as far as this one heard: their days are those of
// their own clocks and time zones. It asks nobody.
func (t *Team) SpentElsewhere() trellis.Usage { return t.sightings.spentElsewhere(t.Machine, t.Now()) }

// SpentElsewhere returns what the agents of other machines used today, by the clock that k was made with.
func (k *Sightings) SpentElsewhere() trellis.Usage {
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
