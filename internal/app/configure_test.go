package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// configured returns a project with the given settings, and the path of its config.yaml.
func configured(t *testing.T, settings string) (p *app.Project, path string) {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	path = filepath.Join(dir, ".trellis", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	env := &app.Env{Vars: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, Dir: dir, Now: time.Now}
	cmd := exec.Command("git", "init", "-q")
	cmd.Dir, cmd.Env = dir, env.Vars
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p, err := env.OpenRepository()
	if err != nil {
		t.Fatal(err)
	}
	return p, path
}

// Commands that change settings at the same time, while a person saves the file in an editor: no change is lost.
func TestSettingsByMany(t *testing.T) {
	p, path := configured(t, "# ours\nlimits:\n  rounds: 1\n")
	keys := []string{"limits.parallel", "limits.attempts", "planning.max_steps", "runs.size"}
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			for n := 1; n <= 10; n++ {
				if _, err := p.SettingsFile().Set(key, []string{fmt.Sprint(n)}); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
	wg.Go(func() {
		for n := range 10 {
			err := (*durable.Disk)(nil).Edit(path, func(data []byte) ([]byte, error) { return append(data, fmt.Sprintf("# note %d\n", n)...), nil })
			if err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	for _, key := range keys {
		if s, problems, err := p.SettingsFile().Setting(key); err != nil || len(problems) > 0 || s.Text() != "10" {
			t.Errorf("%s: %v, %v, %v", key, s, problems, err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "# note") != 10 || !strings.HasPrefix(string(data), "# ours\nlimits:\n  rounds: 1\n") {
		t.Errorf("%v\n%s", err, data)
	}
}

// A value is read back as it was set, whatever characters it has, and unsetting it restores the file byte for byte.
func TestSettingComesBack(t *testing.T) {
	const settings = "# ours\r\nagents: {default: \"\"}\r\nverify:\r\n  - make # all\r\n"
	p, path := configured(t, settings)
	for key, values := range map[string][]string{
		"delivery.labels":          {"a", "b: c", "# no comment", "- x", "true", "1.0", "é ", "say \"hi\"", "it's", "[x", "*a", "null", "yes"},
		"worktree.dir":             {"../a b: #c"},
		"limits.idle":              {"1h30m"},
		"limits.cost_usd":          {"2.5"},
		"baseline":                 {"false"},
		"agents.roles.judge.model": {"haiku\ttwo\nlines"},
	} {
		f := p.SettingsFile()
		if changed, err := f.Set(key, values); err != nil || !changed {
			t.Errorf("%s: %v, %v", key, changed, err)
			continue
		}
		if s, _, err := f.Setting(key); err != nil || s.Text() != strings.Join(values, "\n") {
			t.Errorf("%s: got %q, %v", key, s.Text(), err)
		}
		if changed, err := f.Unset(key); err != nil || !changed {
			t.Errorf("%s: %v, %v", key, changed, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != settings {
			t.Errorf("%s: %v\n%q", key, err, data)
		}
	}
}

// An operation of the disk that fails leaves the settings as they were.
func TestSettingsOnAFailingDisk(t *testing.T) {
	for _, at := range []string{"create", "write", "sync", "rename"} {
		p, path := configured(t, "limits:\n  rounds: 1\n")
		p.Store.Disk = &durable.Disk{Fault: func(step, name string) error {
			if step == at && strings.Contains(name, "config.yaml") {
				return os.ErrDeadlineExceeded
			}
			return nil
		}}
		_, err := p.SettingsFile().Set("limits.rounds", []string{"2"})
		data, readErr := os.ReadFile(path)
		if err == nil || readErr != nil || string(data) != "limits:\n  rounds: 1\n" {
			t.Errorf("%s: %v, %v, %q", at, err, readErr, data)
		}
	}
}
