package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/text"
)

// init counts the tasks that others wrote, and no byte of them changes until doctor is told to repair those that are not valid JSON.
func TestMovingCorpus(t *testing.T) {
	corpus := os.Getenv("TRELLIS_CORPUS")
	if corpus == "" {
		t.Skip("TRELLIS_CORPUS does not name a folder with tasks/*/task.json of other projects")
	}
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	paths, err := filepath.Glob(filepath.Join(corpus, "tasks", "*", "task.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no tasks in %s: %v", corpus, err)
	}
	was := map[string]string{}
	for _, path := range paths {
		_, id, _ := strings.Cut(filepath.Base(filepath.Dir(path)), "--")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, ".trellis", "tasks", id, "task.json")
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
		was[to] = string(data)
	}
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir, Now: time.Now, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}}}
		code := a.Run(context.Background(), args)
		return code, out.String()
	}
	changed := func() (list []string) {
		for path, data := range was {
			if now, err := os.ReadFile(path); err != nil || string(now) != data {
				list = append(list, path)
			}
		}
		return list
	}
	for range 2 {
		code, said := run("init")
		if code != command.ExitDone || !strings.Contains(said, "found "+text.Count(len(paths), "task")) || !strings.Contains(said, "2 whose task.json can't be read; next: trellis doctor --repair") {
			t.Errorf("got exit %d, %s", code, said)
		}
	}
	if _, said := run("doctor", "--repair"); strings.Count(said, `+  "completedAt": "2026-01-`) != 2 || len(changed()) > 0 {
		t.Errorf("got %s, changed %v", said, changed())
	}
	if _, said := run("doctor", "--repair", "--yes"); strings.Count(said, ": repaired (") != 2 || len(changed()) != 2 {
		t.Errorf("got %s, changed %v", said, changed())
	}
	if _, said := run("list"); strings.Contains(said, "not valid JSON") {
		t.Errorf("got %s", said)
	}
}
