package runner

import (
	"github.com/trellis-tasks/trellis/internal/proof"
)

// Counts returns the filter for decisions that count.
func (s *Site) Counts() proof.Filter { return s.guard().decisionFilter() }

// Forward processes the events of a task directory during a run.
var Forward = forward

// AppendLine is how each process writes to the ledger of a day.
var AppendLine = appendLine

// StillFor returns what a suspended run waits for.
var StillFor = currentWaits
