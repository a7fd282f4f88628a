package app

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/stats"
)

// Stats are what the project's tasks took since a time, archived ones too; zero is from the beginning.
func (p *Project) Stats(since time.Time) (*stats.Record, error) { return stats.Read(p.Store, since) }
