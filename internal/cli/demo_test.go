package cli

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
)

// showDemo plays the demo with some files changed, and returns the exit code and the output.
func showDemo(t *testing.T, change map[string]string) (int, string) {
	t.Helper()
	files := fstest.MapFS{}
	root, err := fs.Sub(demoFiles, "demo")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		files[path] = &fstest.MapFile{Data: data, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range change {
		files[path] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	var out bytes.Buffer
	home, state := t.TempDir(), t.TempDir()
	a := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: t.TempDir(), Now: time.Now,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_STATE_HOME=" + state, "TMPDIR=" + t.TempDir()}}}
	ctx := context.Background()
	code := commandline.ReportExit(ctx, &a.Console, runDemo(ctx, &a.Console, files))
	for _, dir := range []string{filepath.Join(home, ".local"), filepath.Join(state, "trellis")} { // edge S2
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("the demo wrote into %s", dir)
		}
	}
	return code, out.String()
}

func TestDemo(t *testing.T) {
	code, out := showDemo(t, nil)
	if code != command.ExitDone {
		t.Fatalf("exit %d\n%s", code, out)
	}
	for _, want := range []string{"=== PLAN REJECTED ===", "no model is involved", "plan again (1 of 2)", `"id": "run_tests"`, "debug", "`sh test.sh` exit 1", "feat(greet): Add --shout to greet", "HELLO, ADA!", "trellis init"} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo does not show %q:\n%s", want, out)
		}
	}
}

// Without the debug phase the bug stays, and the demo reports it.
func TestDemoWithoutDebug(t *testing.T) {
	code, out := showDemo(t, map[string]string{".trellis/config.yaml": "agents: {default: rehearsal}\nverify: [sh test.sh]\nlimits: {rounds: 1}\n"})
	if code != command.ExitFailed || !strings.Contains(out, "verify_failed") {
		t.Errorf("exit %d, want %d\n%s", code, command.ExitFailed, out)
	}
}
