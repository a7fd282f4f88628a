package share

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// TeamState is the state of the team, as far as a remote shows it.
type TeamState struct {
	Tasks  int
	Held   []string      // who is at work on what, in words
	Builds []string      // versions of Trellis that others use and this machine does not, sorted
	Ahead  time.Duration // how far the clock of some machine is ahead of this one's, at least
}

// Look asks the remote for the state of the team, and whether this machine may push to it. It changes nothing there.
func (t *Team) Look(ctx context.Context) (l TeamState, err error) {
	states, _, err := t.fetch(ctx)
	if err != nil {
		return l, err
	}
	builds := map[string]bool{}
	for _, s := range states {
		if s.By == t.Machine {
			continue
		}
		if version, _, _ := strings.Cut(s.Build, " "); s.Build != "" && !strings.HasPrefix(t.Remote.Build, version+" ") {
			builds[version] = true
		}
		l.Ahead = max(l.Ahead, s.At.Sub(t.Now()))
		if one, ok := t.sightings.find(s.Task); ok && t.elsewhere(one) != nil {
			l.Held = append(l.Held, t.elsewhere(one).Error())
		}
	}
	l.Tasks, l.Builds = len(states), slices.Sorted(maps.Keys(builds))
	return l, t.Remote.Repo.Remotes().MayPush(ctx, t.Remote.Name)
}
