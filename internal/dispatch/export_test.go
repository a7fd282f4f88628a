package dispatch

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/proof"
)

// Counts says which decisions count.
func (s *Site) Counts() proof.Filter { return s.counts() }

// Hear is what listens to the events of a task directory while its run goes on.
var Hear = hear

// AppendLine is how each process writes to the ledger of a day.
var AppendLine = appendLine

// Unrest is when the watcher says what is wrong with a directory.
type Unrest = unrest

// Until is when to say what is wrong with a directory.
func (u unrest) Until(dir string) time.Time { return u.until(dir) }
