package runner_test

import (
	"os"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

func TestMain(m *testing.M) { runnertest.Main(m, child) }

// child does the work of a child that is started for anything but running a task.
func child(site *runner.Site) (code int, asked bool) {
	again := os.Getenv(childAgain)
	switch {
	case os.Getenv(childTraced) != "":
		return traced(site), true
	case os.Getenv(childRace) != "":
		return racer(site, os.Getenv(childRace)), true
	case again != "":
		return childReplan(site, again), true
	case os.Getenv(childFile) != "":
		return childRun(site), true
	case os.Getenv(runnertest.ChildTask) == "":
		return childPlan(site), true
	}
	return 0, false
}

// world adds the helpers of this package to a World.
type world struct{ *runnertest.World }

func newWorld(t *testing.T, script string) *world { return &world{runnertest.NewWorld(t, script)} }

func newTrustWorld(t *testing.T, script string) *world {
	return &world{runnertest.NewTrustWorld(t, script)}
}

func newRoad(t *testing.T, s runnertest.Script, text string) *world {
	return &world{runnertest.NewRoad(t, s, text)}
}

func hosted(t *testing.T, s githubtest.State) (*world, *githubtest.GH) {
	w, gh := runnertest.Hosted(t, s)
	return &world{w}, gh
}

func reviewed(t *testing.T, script string) (*world, *githubtest.GH, string) {
	w, gh, dir := runnertest.Reviewed(t, script)
	return &world{w}, gh, dir
}

func editedWhile(t *testing.T, base string) (*world, string) {
	w, dir := runnertest.EditedWhile(t, base)
	return &world{w}, dir
}
