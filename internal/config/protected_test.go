package config_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

func TestProtects(t *testing.T) {
	globs := []string{".trellis/**", "go.sum", "internal/secret/", "**/*.pem", "./Makefile", "/ci/**", "/docs"}
	for path, want := range map[string]bool{
		".trellis/config.yaml": true, ".trellis/workflow.md": true, ".trellis/spec/backend/index.md": false, ".trellis/tasks/x/task.json": false, ".trellis/.current-task": false,
		"go.sum": true, "sub/go.sum": false, "internal/secret/a.go": true, "internal/secretive.go": false, "a/b/key.pem": true, "main.go": false,
		"Makefile": true, "sub/Makefile": false, "ci/a/run.sh": true, "x/ci/run.sh": false, "docs/guide.md": true,
	} {
		if got := config.Protects(globs, path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}
