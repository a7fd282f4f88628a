package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/text"
)

// skew is how far clocks may differ before doctor says so. Nothing goes by it but the times that people read.
const skew = 30 * time.Second

// sharing looks whether tasks can be shared with other machines, when they are to be.
func sharing(ctx context.Context, d *diagnosis, p *app.Project) {
	s, err := p.ReadingSite(ctx)
	if err != nil {
		return // what is wrong with the settings was said
	}
	team, err := app.SharingOf(p).Team(s)
	if errors.Is(err, app.ErrNoTeam) {
		return
	}
	if err != nil {
		d.add(stateError, "sharing", err.Error(), "")
		return
	}
	l, err := team.Look(ctx)
	if err != nil {
		d.add(stateError, "sharing", text.OneLine(err.Error()), "git push --dry-run "+team.Remote()+" HEAD:refs/trellis/run/may-push")
		return
	}
	said := fmt.Sprintf("%s has %s", team.Remote(), text.Count(l.Tasks, "task"))
	if len(l.Held) > 0 {
		said += "; " + strings.Join(l.Held, "; ")
	}
	d.add(stateOK, "sharing", said, "")
	if l.Ahead > skew {
		d.add(stateWarning, "sharing", fmt.Sprintf("the clock of another machine is at least %v ahead of this one", l.Ahead.Round(time.Second)), "timedatectl status")
	}
	if len(l.Builds) > 0 {
		d.add(stateWarning, "sharing", "other machines use another Trellis: "+strings.Join(l.Builds, ", "), "install the same version on all")
	}
}
