package app

import (
	"context"
	"time"

	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Stats returns a reader of what the project's tasks used, archived ones included. A caller that keeps the reader rereads only
// what was written since. Its days are the same as those of the day's budgets.
func (p *Project) Stats() *stats.Reader { return &stats.Reader{Store: p.Store, Zone: Zone(p)} }

// Zone returns the time zone in which a project's days begin: this machine's if the settings name none or an unknown one.
func Zone(p *Project) *time.Location {
	c, _ := p.Config() // its problems are reported elsewhere
	return c.Shared.Zone()
}

// Forecast estimates what a task that has not begun may take, by earlier tasks; nil if they are too few, or it can't be told.
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
