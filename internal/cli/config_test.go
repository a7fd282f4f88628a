package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/git"
)

// Settings that can't be read are an error, and are not taken for missing ones: they may ask for a sandbox.
func TestConfigThatCannotBeRead(t *testing.T) {
	p := newProject(t.TempDir())
	if _, problems := p.Config(); len(problems) > 0 {
		t.Errorf("without settings: got %v, want none", problems)
	}
	if err := os.MkdirAll(filepath.Join(p.Root, ".trellis", "config.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, problems := p.Config()
	if len(problems) != 1 || problems[0].Warning || problems[0].File != ".trellis/config.yaml" || !strings.Contains(problems[0].Message, "is a folder") {
		t.Errorf("got %v, want that it is a folder", problems)
	}
}

// newProject returns a project that needs no repository.
func newProject(root string) *app.Project {
	return &app.Project{Env: (&command.Console{}).Caller(), Repo: &git.Repo{}, Root: root, Settings: app.Settings{Root: root}}
}
