package app

import (
	"context"
	"time"

	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Stats reads what the project's tasks took, archived ones too. Who keeps it reads again only what was written since.
// Its days are those of the day's budgets.
func (p *Project) Stats() *stats.Reader { return &stats.Reader{Store: p.Store, Zone: Zone(p)} }

// Zone is the time zone in which the days of a project begin; that of this machine, where the settings name none that there is.
func Zone(p *Project) *time.Location {
	c, _ := p.Config() // what is wrong with it is said elsewhere
	return c.Shared.Zone()
}

// Forecast is what a task that is still to begin may take, by what earlier ones took; nil where they are too few, or nobody can tell.
func Forecast(ctx context.Context, p *Project, dir string) *status.Forecast {
	t, err := p.Store.Load(dir)
	if err != nil {
		return nil
	}
	cfg, _ := p.Config() // settings that can't be read name no agent
	who, err := p.Wire(ctx, cfg, p).Roles().Choose(trellis.Implement, t.Pipeline.Agent, "")
	if err != nil {
		return nil
	}
	record, err := p.Stats().Read(time.Time{})
	if err != nil {
		return nil
	}
	return record.Forecast(t.Pipeline.Size, who.Agent)
}
