package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// On a terminal cleanup asks first, and says what no backup will have. Without a yes nothing is removed.
func TestCleanupAsks(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t, "/nowhere")
	w.leave(true)
	w.write(".git/info/exclude", "*.db\n")
	w.write("../repo-worktrees/feature/bye/local.db", "data\n")
	cleanup := func(answer string, args ...string) (shown string) {
		t.Helper()
		screen, terminal, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer screen.Close()
		if _, err := screen.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := &console{Console: command.Console{Stdin: terminal, Stdout: &out, Stderr: terminal, Env: w.Env[1:], Dir: w.Dir, Now: time.Now}}
		a.Env = append(a.Env[:len(a.Env):len(a.Env)], "PATH="+os.Getenv("PATH"))
		if code := a.Run(t.Context(), append([]string{"cleanup"}, args...)); code != 0 {
			t.Errorf("cleanup %v ends with %d", args, code)
		}
		if err := terminal.Close(); err != nil {
			t.Error(err)
		}
		text, _ := io.ReadAll(screen) // reading ends with an error
		return string(text)
	}
	shown := cleanup("n", "bye")
	if !strings.Contains(shown, "remove them? [y/N]") || !strings.Contains(shown, "no backup has: local.db") || w.git("branch", "--list", "feature/bye") == "" {
		t.Errorf("after a no: %s", shown)
	}
	if shown := cleanup("", "--merged"); w.git("branch", "--list", "feature/bye") == "" {
		t.Errorf("without an answer: %s", shown)
	}
	cleanup("y", "bye")
	if got := w.git("branch", "--list", "feature/bye"); got != "" {
		t.Errorf("after a yes the branch is there")
	}
	if got := w.git("show", "refs/trellis/backup/02-01-bye/1:new/file.txt"); got != "new" {
		t.Errorf("got %q", got)
	}
}
