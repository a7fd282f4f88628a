package scheduler_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

func TestMain(m *testing.M) { runnertest.Main(m, nil) }

// world adds the helpers of this package to a World.
type world struct{ *runnertest.World }

func newWorld(t *testing.T, script string) *world { return &world{runnertest.NewWorld(t, script)} }

func newTrustWorld(t *testing.T, script string) *world {
	return &world{runnertest.NewTrustWorld(t, script)}
}

func newRoad(t *testing.T, s runnertest.Script, text string) *world {
	return &world{runnertest.NewRoad(t, s, text)}
}

func reviewed(t *testing.T, script string) (*world, *githubtest.GH, string) {
	w, gh, dir := runnertest.Reviewed(t, script)
	return &world{w}, gh, dir
}

func editedWhile(t *testing.T, base string) (*world, string) {
	w, dir := runnertest.EditedWhile(t, base)
	return &world{w}, dir
}
