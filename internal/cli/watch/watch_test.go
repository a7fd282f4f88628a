package watch

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// awkward returns a service whose paths contain the special characters of both formats.
func awkward(t *testing.T) service {
	t.Helper()
	root := filepath.Join(t.TempDir(), `100% "my $HOME" & <co>\ é 'x' --`)
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "trellis %h")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return service{Name: serviceName(root), Root: root, Args: []string{program, "watch", "--parallel", "4", `a "b" $c %d \e`}, Path: root + ":/usr/bin:/bin"}
}

func TestSystemdUnit(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	switch {
	case err != nil && os.Getenv("CI") != "" && runtime.GOOS == "linux":
		t.Fatal("systemd-analyze is missing")
	case err != nil:
		t.Skip("there is no systemd-analyze here")
	}
	s := awkward(t)
	verifyUnit(t, verify, s)
	s.Args[0] = filepath.Join(t.TempDir(), "a $b %h é")
	if err := os.WriteFile(s.Args[0], []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	verifyUnit(t, verify, s)
}

func verifyUnit(t *testing.T, verify string, s service) {
	t.Helper()
	var unit strings.Builder
	if err := s.systemd(&unit); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), s.Name+".service")
	if err := os.WriteFile(file, []byte(unit.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(verify, "verify", "--user", "--man=no", "--recursive-errors=no", file)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), s.Name) {
		t.Errorf("%v\n%s\n%s", err, out, unit.String())
	}
	if lines := strings.Split(unit.String(), "\n"); !slices.Contains(lines, "KillMode=mixed") || !slices.Contains(lines, "TimeoutStopSec=30") {
		t.Errorf("the guard gets no time to end what it started:\n%s", unit.String())
	}
}

func TestLaunchdPlist(t *testing.T) {
	s := awkward(t)
	var plist strings.Builder
	if err := s.launchd(&plist); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(plist.String()))
	var texts []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, plist.String())
		}
		if text, ok := token.(xml.CharData); ok && len(bytes.TrimSpace(text)) > 0 {
			texts = append(texts, string(text))
		}
	}
	for _, want := range append([]string{s.Root, s.Path, "tasks." + s.Name}, s.Args...) {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not in %q", want, texts)
		}
	}
}

// The names of fields are a contract with collectors of logs, and no field contains a secret.
func TestRecords(t *testing.T) {
	const secret = "sk-very-secret"
	var out strings.Builder
	r := newRecords(&out, true, slog.LevelInfo, func(s string) string { return strings.ReplaceAll(s, secret, "***") })
	cost := 0.5
	r.handle(runner.Event{Task: "02-01-a", Message: "waits for " + secret, Level: slog.LevelWarn})
	r.handle(runner.Event{Task: "02-01-a", State: &pipeline.TaskState{Status: trellis.InProgress, Phase: "check", Round: 2, Attempt: 1, Usage: trellis.Usage{InputTokens: 3, CostUSD: &cost}}})
	r.handle(runner.Event{Task: "02-01-a", State: &pipeline.TaskState{Status: trellis.Failed, Phase: "verify", Round: 2, Attempt: 1, Outcome: trellis.OutcomeFailed,
		ResumeAt: time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC), Failure: &flow.Failure{Code: "verify_failed", Detail: secret}}})
	r.handle(runner.Event{Task: "02-01-a", Role: trellis.Check, Agent: agents.Event{Kind: agents.EventTool, Tool: "Bash"}})
	want := []string{
		`{"level":"WARN","msg":"waits for ***","task":"02-01-a"}`,
		`{"attempt":1,"cost_usd":0.5,"level":"INFO","msg":"check","phase":"check","round":2,"status":"in_progress","task":"02-01-a","tokens":3}`,
		`{"attempt":1,"code":"verify_failed","detail":"***","level":"ERROR","msg":"failed","outcome":"failed","phase":"verify","round":2,"status":"failed","task":"02-01-a","until":"2026-02-03T12:00:00Z"}`,
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if _, err := time.Parse(time.RFC3339Nano, fields["time"].(string)); err != nil {
			t.Error(err)
		}
		delete(fields, "time")
		sorted, _ := json.Marshal(fields)
		got = append(got, string(sorted))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Edge S4: a watcher keeps its settings if the new ones can't be read. The defaults would have no check, no sandbox and no approval.
func TestReloadOfSettingsThatCanNotBeRead(t *testing.T) {
	root := t.TempDir()
	p := &app.Project{Env: (&command.Console{}).Caller(), Repo: &git.Repo{}, Root: root, Settings: app.Settings{Root: root}}
	path := filepath.Join(p.Root, ".trellis", "config.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("verify: [make test]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reload := settingsReloader(t.Context(), p, p.Settings.Files())
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if site, err := reload(); site != nil || err == nil || !strings.Contains(err.Error(), ".trellis/config.yaml: is gone") {
		t.Errorf("without the file the settings became %v, %v", site, err)
	}
	if err := os.Symlink("/dev/zero", path); err != nil {
		t.Fatal(err)
	}
	if site, err := reload(); site != nil || err == nil || !strings.Contains(err.Error(), ".trellis/config.yaml") {
		t.Errorf("the settings became %v, %v", site, err)
	}
}
