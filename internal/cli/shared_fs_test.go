package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// On a shared file system, where locks don't hold, nothing is started without --shared-fs.
func TestSharedFileSystem(t *testing.T) {
	dir := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	for name, text := range map[string]string{".trellis/tasks/02-01-x/task.json": `{"status": "completed"}`, "steps.yaml": "schema_version: 1\ntitle: t\nsteps: [{id: a, command: \"true\"}]\n"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	call := func(args ...string) (int, string) {
		var said bytes.Buffer
		a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Dir: dir, Now: time.Now, Env: env,
			SharedFS: func(string) (string, error) { return "NFS", nil }}}
		return a.Run(context.Background(), args), said.String()
	}
	plan := []string{"plan", "--name", "y", "--type", "backend", "--requirement", "r"}
	for _, args := range [][]string{{"start", "x"}, {"start", "x", "--detach"}, {"watch", "--once"}, {"run", "steps.yaml"}, plan, append(slices.Clone(plan), "--detach")} {
		const want = " is on NFS: locks don't hold between the machines that share it\ntrellis: next: clone the repository to a disk of this machine\n"
		if code, said := call(args...); code != command.ExitUsage || !strings.Contains(said, want) {
			t.Errorf("%v: got exit %d: %s", args, code, said)
		}
		if code, said := call(append(slices.Clone(args), "--shared-fs")...); strings.Contains(said, "is on NFS") {
			t.Errorf("%v --shared-fs: got exit %d: %s", args, code, said)
		}
	}
	if code, said := call("status"); code != command.ExitDone {
		t.Errorf("status: got exit %d: %s", code, said)
	}
}
