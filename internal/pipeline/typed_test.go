package pipeline_test

import (
	"os/exec"
	"testing"

	"github.com/trellis-tasks/trellis/internal/pipeline"
)

// A path that is named in a command is one word of it.
func TestTyped(t *testing.T) {
	for _, path := range []string{"/src/shop-worktrees/feature/x", "/my work/it's/a $HOME", "/a;b&c|d"} {
		out, err := exec.Command("sh", "-c", "printf %s "+pipeline.Typed(path)).Output()
		if err != nil || string(out) != path {
			t.Errorf("got %q, %v, want %q", out, err, path)
		}
	}
}
