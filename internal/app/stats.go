package app

import "github.com/trellis-tasks/trellis/internal/stats"

// Stats reads what the project's tasks took, archived ones too. Who keeps it reads again only what was written since.
func (p *Project) Stats() *stats.Reader { return &stats.Reader{Store: p.Store} }
