package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// runs creates a repository with a file of steps, and a script that plays the agents.
func runs(t *testing.T, steps, script string) *console {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".trellis/config.yaml": "agents: {default: rehearsal}\n", ".trellis/rehearsal.yaml": script, ".trellis/.gitignore": ".runtime/\n", "steps.yaml": steps} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=a@example.org")
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return &console{Console: command.Console{Stdin: strings.NewReader(""), Env: env, Dir: dir, Now: time.Now}}
}

// try runs a command and returns its exit code and its output.
func (a *console) try(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a.Stdout, a.Stderr = &out, &errs
	code = a.Run(context.Background(), args)
	return code, out.String(), errs.String()
}

// The events of run --json and their fields are a contract. Each event names its step with the rounds that contain it, also if rounds run
// in parallel.
func TestRunEvents(t *testing.T) {
	a := runs(t, `schema_version: 1
title: Events
steps:
  - {id: say, title: Say it, command: "echo out; echo err >&2; test -d .git", proof: {type: test}}
  - id: each
    for_each: [x, y]
    concurrency: 2
    steps: [{id: build, command: "echo {{item}}"}]
  - {id: write, prompt: "Write out.", llm_as_judge: true}
  - {id: mend, command: "test -e mended", self_healing: true, depends_on: [say]}
  - {id: note, message: "all {{n}}"}
  - {id: bad, command: "exit 3", depends_on: []}
  - {id: late, command: "echo late"}
  - {id: lint, command: "exit 1", continue_on_error: true, depends_on: []}
vars: {n: fine}
`, `roles:
  implement: [{files: {out: "1"}, answer: wrote it}]
  grade: [{answer: {reasoning: r, feedback: write two, pass: false}}, {answer: {reasoning: r, feedback: "", pass: true}}]
  heal: [{files: {mended: "1"}, answer: made it}]
`)
	code, out, errs := a.try("run", "steps.yaml", "--json")
	if code != 1 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	fields, paths := map[string]map[string]bool{}, map[string]bool{}
	var last map[string]any
	for line := range strings.Lines(out) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		kind := e["type"].(string)
		if fields[kind] == nil {
			fields[kind] = map[string]bool{}
		}
		for key := range e {
			fields[kind][key] = true
		}
		if p, ok := e["step"].(string); ok && (kind == "step_output" || kind == "step_iteration") {
			paths[fmt.Sprintf("%s %s %v%v", kind, p, e["stream"], e["item"])] = true
		}
		last = e
	}
	want := map[string]string{
		"workflow_started":  "at file run title type",
		"step_started":      "at kind step title type",
		"step_iteration":    "at item kind of round step type",
		"step_output":       "at step stream text tool type usage",
		"step_judge":        "at attempt pass step text type",
		"step_healing":      "at attempt code state step text type",
		"step_finished":     "at code kind proof seconds state step text tolerated type",
		"workflow_finished": "at result run seconds state type",
	}
	for _, kind := range slices.Sorted(maps.Keys(want)) {
		if got := strings.Join(slices.Sorted(maps.Keys(fields[kind])), " "); got != want[kind] {
			t.Errorf("%s has %q, want %q", kind, got, want[kind])
		}
	}
	if len(fields) != len(want) {
		t.Errorf("got the types %q", slices.Sorted(maps.Keys(fields)))
	}
	for _, path := range []string{"step_iteration each.1 <nil>x", "step_iteration each.2 <nil>y", "step_output each.1.build stdout<nil>", "step_output each.2.build stdout<nil>", "step_output say stderr<nil>",
		"step_output write implement<nil>", "step_output mend heal<nil>", "step_output note log<nil>"} {
		if !paths[path] {
			t.Errorf("nothing is told of %s: %q", path, slices.Sorted(maps.Keys(paths)))
		}
	}
	result := last["result"].(map[string]any)
	if got, want := strings.Join(slices.Sorted(maps.Keys(result)), " "), "blocked done exit failed head proven skipped steps tolerated usage waits"; got != want {
		t.Errorf("the result has %q, want %q", got, want)
	}
	if got := fmt.Sprintln(last["state"], result["exit"], result["done"], result["tolerated"], result["proven"]); got != "failed 1 7 1 true\n" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(result["failed"], result["blocked"]); got != "[map[code:3 detail:its command exited with 3 path:bad state:failed] map[code:1 detail:its command exited with 1 path:lint state:failed tolerated:true]]"+
		" [map[because:[bad, which failed] detail:blocked by bad, which failed path:late state:blocked]]" {
		t.Errorf("got %s", got)
	}
}

// docs/reference/workflow.md lists these events.
func TestEventsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository(t), "docs", "reference", "workflow.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"workflow_started", "step_started", "step_iteration", "step_output", "step_judge", "step_healing", "step_finished", "workflow_finished"} {
		if !bytes.Contains(page, []byte("\n| `"+kind+"` | ")) {
			t.Errorf("docs/reference/workflow.md lacks %s", kind)
		}
	}
}
