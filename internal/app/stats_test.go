package app

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

// Days are those of shared.time_zone, even if other settings have warnings.
func TestDaysOfTheTimeZone(t *testing.T) {
	t.Parallel()
	w := runnertest.NewWorld(t, runnertest.Quickly)
	w.Git("remote", "add", "origin", w.TempDir())
	p, _ := teamed(t, w.Dir)
	w.Write(".trellis/config.yaml", "shared: {time_zone: Pacific/Kiritimati}\nagents: {commands: {mine: {command: [mine]}}}\n")
	if _, problems := p.Config(); len(problems) == 0 {
		t.Fatal("nothing is warned of")
	}
	if got := p.Stats().Zone.String(); got != "Pacific/Kiritimati" {
		t.Errorf("days are those of %s", got)
	}
}
