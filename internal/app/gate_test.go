package app

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// unsettled returns a project on main with a person's own settings, and a function that switches to another branch, such as theirs.
func unsettled(t *testing.T) (*Project, func(branch string)) {
	t.Helper()
	root, home := t.TempDir(), t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	says := func(hook string) {
		t.Helper()
		path := filepath.Join(root, ".trellis", "config.yaml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("hooks: {after_start: ["+hook+"]}\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
	}
	git("init", "-q", "-b", "main")
	git("config", "user.name", "Ann")
	git("config", "user.email", "ann@example.org")
	says("echo mine")
	git("commit", "-q", "-m", "mine")
	git("switch", "-q", "-c", "theirs")
	says("echo theirs")
	git("commit", "-q", "-m", "theirs")
	if err := os.RemoveAll(filepath.Join(root, ".git", "logs")); err != nil { // without a reflog, as if both branches had come from elsewhere
		t.Fatal(err)
	}
	git("switch", "-q", "main")
	e := &Env{Vars: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, Dir: root, Now: time.Now}
	p, err := e.OpenRepository()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Gate.Judge(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Gate.judge.FindTrunk(t.Context()); err != nil { // main is trusted from now on
		t.Fatal(err)
	}
	return p, func(branch string) { git("switch", "-q", branch) }
}

// Edge S2: if settings change while they are judged, the verdict is about the version that was read, and neither one is stored.
func TestSettingsThatChangeMeanwhile(t *testing.T) {
	for from, to := range map[string]string{"main": "theirs", "theirs": "main"} {
		t.Run("from "+from, func(t *testing.T) {
			p, checkout := unsettled(t)
			checkout(from)
			var once sync.Once
			p.Gate.judge.Ledger.Now = func() time.Time { // called when a verdict is recorded, after the files were read
				once.Do(func() { checkout(to) })
				return time.Now()
			}
			q, err := p.InForce(t.Context())
			if from == "theirs" && !errors.Is(err, trust.ErrUntrusted) {
				t.Errorf("got %+v, %v", q, err)
			}
			if from == "main" && (err != nil || q.Settings.judged == nil || !strings.Contains(string(q.Settings.judged.Config.Data), "echo mine")) {
				t.Errorf("got %+v, %v", q, err)
			}
			kept, err := p.Gate.trustedSettingsDir()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(kept); err == nil {
				t.Error("settings were kept")
			}
		})
	}
}

// Edge S2: the settings that are stored for the time when others are checked out are those that were judged.
func TestKeptSettingsAreThoseJudged(t *testing.T) {
	p, checkout := unsettled(t)
	judged, err := settingFiles(p.Root)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := p.Gate.trustedSettingsDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, branch := range []string{"theirs", "main"} {
		checkout(branch)
		p.Gate.storeJudged(kept, judged, nil)
		now, err := settingFiles(kept)
		if err != nil || len(now) > 0 != (branch == "main") || branch == "main" && !maps.Equal(now, judged) {
			t.Errorf("on %s: kept %q, %v", branch, now, err)
		}
	}
}

// Edge S2: if a branch is checked out while a command writes a file, only the command's own change counts as made on this machine.
func TestCheckedOutWhileACommandWrites(t *testing.T) {
	p, _ := unsettled(t)
	made, err := p.Store.Create(taskdir.New{Name: "x", Title: "X", DevType: "backend"})
	if err != nil {
		t.Fatal(err)
	}
	dir := made.Dir
	file := filepath.Join(dir, taskdir.ImplementContext)
	theirs := []byte(`{"file": "theirs.md", "reason": "read it"}` + "\n")
	var once sync.Once
	err = p.ChangeContext(dir, taskdir.ImplementContext, func(data []byte) ([]byte, error) {
		once.Do(func() {
			if err := os.WriteFile(file, theirs, 0o644); err != nil {
				t.Error(err)
			}
		})
		return contextfiles.Add(data, contextfiles.Row{Path: "mine.md", Reason: "mine"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), "theirs.md") || !strings.Contains(string(data), "mine.md") {
		t.Fatalf("it has\n%s, %v", data, err)
	}
	remembered := func(text string) bool {
		item := trust.Item{Kind: trust.Context, Text: taskdir.ImplementContext + ": " + text}
		said, _, err := p.Gate.judge.List()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(said, func(e trust.Entry) bool { return e.ID == item.ID() && e.How == trust.Made })
	}
	if !remembered("mine.md mine") || remembered("theirs.md read it") {
		t.Errorf("mine is remembered %t, theirs %t", remembered("mine.md mine"), remembered("theirs.md read it"))
	}
}
