package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// The .trellis of this project is valid.
func TestOwnProject(t *testing.T) {
	root := repository(t)
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("this is not a checkout of git, so there is no project to look at")
	}
	var out, errs bytes.Buffer
	a := &console{Console: command.Console{Stdout: &out, Stderr: &errs, Env: os.Environ(), Dir: root, Now: time.Now}}
	if code := a.Run(t.Context(), []string{"validate", "--all"}); code != command.ExitDone {
		t.Errorf("got exit code %d\n%s%s", code, &out, &errs)
	}
}
