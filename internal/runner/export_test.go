package runner

import (
	"github.com/trellis-tasks/trellis/internal/proof"
)

// Counts says which decisions count.
func (s *Site) Counts() proof.Filter { return s.guard().decisionFilter() }

// Forward is what listens to the events of a task directory while its run goes on.
var Forward = forward

// AppendLine is how each process writes to the ledger of a day.
var AppendLine = appendLine

// StillFor is what a run that has parked waits for.
var StillFor = currentWaits
