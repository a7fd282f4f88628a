package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/taskdir"
)

const swapped = ".trellis/tasks/02-01-bye/"

// swaps are a stranger's versions of one file of a task, and when they are checked out during its run. Only commands make the file CANARY,
// and agents do if their prompt has STRANGER.
var swaps = []struct{ name, when, file, text string }{
	{"its commands, once it was judged", "begun", swapped + "task.json", `{"status": "ready", "base_branch": "main", "pipeline": {"verify": ["touch CANARY"]}}`},
	{"its plan, once it was judged", "begun", swapped + "plan.json", `{"schema_version": 1, "title": "X", "preconditions": [{"command": "touch CANARY"}], "steps": [{"id": "a", "command": "touch CANARY"}], "acceptance": [{"criterion": "it is", "verify": "sh test.sh"}]}`},
	{"its criteria, while an agent is at work", "implement", swapped + "prd.md", "# Bye\n\n## Acceptance Criteria\n\n- [ ] it is\n  verify: `touch CANARY`\n"},
	{"its words, while an agent is at work", "implement", swapped + "info.md", "STRANGER\n"},
	{"what it was taken to mean", "implement", swapped + "taskspec.json", `{"intent": "STRANGER"}`},
	{"rows of its context", "implement", swapped + "check.jsonl", `{"file": "greet.sh", "reason": "STRANGER"}` + "\n"},
	{"a guideline that it names", "implement", ".trellis/spec/x.md", "STRANGER\n"},
	{"a file of steps that its plan calls", "implement", "flows/a.yaml", "schema_version: 1\ntitle: x\nsteps:\n  - {id: write, command: 'touch CANARY'}\n"},
	{"one that can't be read", "implement", "flows/a.yaml", "STRANGER\n"},
	{"a guideline in a folder that it names", "implement", ".trellis/spec/all/y.md", "STRANGER\n"},
}

// Edge S2: if a stranger's version of a task is checked out after the task was judged, it reaches neither prompts nor commands. The run
// sleeps, and resumes once the person's own version is back.
func TestStrangersVersionUnderARun(t *testing.T) {
	t.Parallel()
	for i, s := range swaps {
		if !soak.Asked() && i%3 != 1 { // some before and some while an agent works, with prompts and with commands
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			canary := filepath.Join(t.TempDir(), "canary")
			w := newTrustWorld(t, fmt.Sprintf("roles:\n  implement:\n    - {when: STRANGER, run: ['touch %s'], answer: done}\n    - {run: ['echo x >> notes.txt'], answer: done}\n"+
				"  check:\n    - {when: STRANGER, run: ['touch %s'], answer: fine}\n    - {answer: fine}\n  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: 'notes.txt:1'}]}}]\n", canary, canary))
			more := map[string]string{}
			if s.file == "flows/a.yaml" {
				more = map[string]string{s.file: calledSteps, swapped + "plan.json": callingPlan}
			}
			dir := w.committed(more)
			w.Brings(s.file, strings.ReplaceAll(s.text, "CANARY", canary))
			w.Git("checkout", "-q", "main")
			once := sync.OnceFunc(func() { w.Git("checkout", "-q", "looked-at") }) // task.json as Trellis wrote it stays
			if s.when == "begun" {
				w.Site.Disk = &durable.Disk{Fault: func(_, path string) error {
					if strings.Contains(path, "/02-01-bye/run") {
						once()
					}
					return nil
				}}
			}
			w.Site.Event = func(e runner.Event) {
				if e.State != nil && e.State.Phase == s.when {
					once()
				}
			}
			_, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
			var untrusted *trust.UntrustedError
			if !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "task 02-01-bye came with commit") || untrusted.Next() != "trellis trust 02-01-bye" {
				t.Errorf("the run ended with %v", err)
			}
			if _, err := os.Stat(canary); err == nil {
				t.Fatal("the stranger's was used")
			}
			w.Git("checkout", "-q", "main")
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Errorf("with the person's own again: %s, %v", res.Status, res.Failure)
			}
			if _, err := os.Stat(canary); err == nil {
				t.Error("the stranger's was used")
			}
		})
	}
}

// callingPlan is a plan that calls flows/a.yaml, and calledSteps is the content of that file.
const (
	callingPlan = `{"schema_version": 1, "title": "X", "steps": [{"id": "a", "prompt": "Do it."}, {"id": "b", "workflow": "flows/a.yaml"}], "acceptance": [{"criterion": "it is", "verify": "sh test.sh"}]}`
	calledSteps = "schema_version: 1\ntitle: x\nsteps:\n  - {id: write, command: 'echo more >> notes.txt'}\n"
)

// Edge S2: if a branch without a file that the plan calls is checked out during a run, the run sleeps until the file is back.
func TestCalledFileThatIsGone(t *testing.T) {
	t.Parallel()
	for _, phase := range soak.Of([]string{"implement", "check", "verify"}, "check") {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			w := newTrustWorld(t, runnertest.Working)
			dir := w.committed(map[string]string{"flows/a.yaml": calledSteps, swapped + "plan.json": callingPlan})
			w.Git("checkout", "-q", "-b", "without")
			w.Git("rm", "-q", "flows/a.yaml")
			w.Git("commit", "-q", "-m", "without it")
			w.Git("checkout", "-q", "main")
			once := sync.OnceFunc(func() { w.Git("checkout", "-q", "without") })
			w.Site.Event = func(e runner.Event) {
				if e.State != nil && e.State.Phase == phase {
					once()
				}
			}
			if res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); res.Status == trellis.Failed || err == nil || !strings.Contains(err.Error(), "flows/a.yaml") {
				t.Errorf("the run ended with %s, %v, %v", res.Status, res.Failure, err)
			}
			w.Git("checkout", "-q", "main")
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Errorf("with the file again: %s, %v", res.Status, res.Failure)
			}
		})
	}
}

// committed returns a task that its person has committed, with files that it names.
func (w *world) committed(more map[string]string) string {
	w.Helper()
	dir := w.Hand("02-01-bye", lyingPRD)
	w.Write(swapped+"task.json", `{"status": "ready", "base_branch": "main"}`)
	w.Write(swapped+"info.md", "mine\n")
	w.Write(swapped+"implement.jsonl", `{"file": "greet.sh", "reason": "the program"}`+"\n"+`{"file": ".trellis/spec/x.md", "reason": "words"}`+"\n"+`{"file": ".trellis/spec/all/", "type": "directory", "reason": "words"}`+"\n")
	w.Write(".trellis/spec/x.md", "mine\n")
	w.Write(".trellis/spec/all/y.md", "mine\n")
	for name, text := range more {
		w.Write(name, text)
	}
	w.Git("add", "-f", "-A")
	w.Git("commit", "-q", "-m", "a task")
	return dir
}

// Edge S2: a stranger's version of the requirement or of a project file, checked out during a planning, reaches no further prompt.
func TestStrangersVersionUnderAPlanning(t *testing.T) {
	t.Parallel()
	for _, file := range []string{swapped + "requirement.md", "greet.sh"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			w := newTrustWorld(t, runnertest.Working)
			dir := w.committed(map[string]string{swapped + "requirement.md": "bye\n", swapped + "task.json": `{"status": "planning"}`})
			w.Brings(file, "STRANGER\n")
			w.Git("checkout", "-q", "main")
			asked, once := 0, sync.OnceFunc(func() { w.Git("checkout", "-q", "-f", "looked-at") })
			w.Site.Event = func(e runner.Event) {
				if e.Asked != nil {
					asked++
				}
				if e.Reply != nil {
					once()
				}
			}
			_, err := w.Site.PlanRunner().Replan(context.Background(), dir, runner.PlanOptions{New: taskdir.New{Name: "bye"}})
			if !errors.Is(err, trust.ErrUntrusted) || !strings.Contains(err.Error(), "Mallory") {
				t.Errorf("it ended with %v", err)
			}
			prompts, err := filepath.Glob(filepath.Join(dir, "run", "*", "*", "*", "prompt.md"))
			if err != nil || len(prompts) != 1 {
				t.Errorf("%d agents of %d got a prompt, %v: want the first of them, %v", len(prompts), asked, err, planner.Roles()[0])
			}
			w.Git("checkout", "-q", "-f", "main")
			if res, err := w.Site.PlanRunner().Replan(context.Background(), dir, runner.PlanOptions{New: taskdir.New{Name: "bye"}}); err != nil || res.Status != trellis.Ready {
				t.Errorf("with the person's own again: %+v, %v", res, err)
			}
		})
	}
}

// Edge S3: a stranger's decisions that were read do not count, even if the person's own branch is checked out before they are judged.
func TestDecisionsAreJudgedAsTheyWereRead(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Working)
	dir := w.committed(nil)
	w.Brings(swapped+"approvals.jsonl", `{"decision": "approve", "by": "ann"}`+"\n")
	list, _, err := proof.Read(dir)
	if err != nil || len(list) != 1 {
		t.Fatalf("there are %d, %v", len(list), err)
	}
	w.Git("checkout", "-q", "main")
	if counted, err := w.Site.Counts()(dir, list); err != nil || len(counted) != 0 {
		t.Errorf("%d count, %v", len(counted), err)
	}
}

// Edge S2: a stranger's commit by which a person's task may begin earlier, or with less approval, needs trust, although it changes no
// command and no text.
func TestWhenATaskMayRun(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"ready":       `{"status": "ready", "base_branch": "main", "pipeline": {"depends_on": ["02-02-other"], "not_before": "2020-01-01T00:00:00Z", "approval": {"required": true}}}`,
		"depends_on":  `{"status": "planning", "base_branch": "main", "pipeline": {"not_before": "2020-01-01T00:00:00Z", "approval": {"required": true}}}`,
		"not_before":  `{"status": "planning", "base_branch": "main", "pipeline": {"depends_on": ["02-02-other"], "approval": {"required": true}}}`,
		"no approval": `{"status": "planning", "base_branch": "main", "pipeline": {"depends_on": ["02-02-other"], "not_before": "2020-01-01T00:00:00Z"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTrustWorld(t, runnertest.Working)
			w.committed(map[string]string{swapped + "task.json": strings.Replace(`{"status": "planning", "base_branch": "main", "pipeline": {"depends_on": ["02-02-other"], "not_before": "2020-01-01T00:00:00Z", "approval": {"required": true}}}`, "{", "{ ", 1)})
			judged := func() trust.Verdict {
				t.Helper()
				of, err := subject.Task(w.Dir, strings.TrimSuffix(swapped, "/"))
				if err != nil {
					t.Fatal(err)
				}
				v, err := w.Site.Trust.Subject(context.Background(), of)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			if v := judged(); !v.Trusted() {
				t.Fatalf("the person's own: %+v", v.Foreign)
			}
			w.Brings(swapped+"task.json", text)
			if v := judged(); len(v.Foreign) != 1 || v.Foreign[0].Item.Kind != trust.Start || v.Foreign[0].Author == "" {
				t.Errorf("the stranger's: %+v", v.Foreign)
			}
			w.Write(swapped+"task.json", strings.Replace(text, "2020", "2021", 1))
			if v := judged(); name == "not_before" && len(v.Foreign) != 1 {
				t.Errorf("edited elsewhere: %+v", v.Foreign)
			}
		})
	}
}

// Edge S2: a file that worktrees get a copy of is not copied from a stranger's commit.
func TestCopiesOfAStrangers(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Quickly)
	w.Site.Config.Worktree.Copy = []string{".env"}
	dir := w.committed(map[string]string{swapped + "prd.md": "# Bye\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n", swapped + "check.jsonl": `{"file": "test.sh", "reason": "its test"}` + "\n"})
	if _, err := w.Site.Trust.Base(context.Background(), w.Git("rev-parse", "HEAD")); err != nil { // main becomes the trusted branch
		t.Fatal(err)
	}
	w.Brings(".env", "export PATH=/theirs\n")
	_, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
	var untrusted *trust.UntrustedError
	if !errors.As(err, &untrusted) || untrusted.Next() != "trellis trust --base "+w.Git("rev-parse", "HEAD") {
		t.Fatalf("from the stranger's commit: %v", err)
	}
	if found, _ := filepath.Glob(filepath.Join(w.TempDir(), "*", "*", ".env")); len(found) > 1 {
		t.Errorf("it was copied: %v", found)
	}
	w.Git("checkout", "-q", "main")
	w.Write(".env", "export MINE=1\n")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("with the person's own: %s, %v", res.Status, res.Failure)
	}
}

// Edge S2: a program of the checkout that is an agent is judged at each call. If a stranger's version is checked out during a run, the run
// sleeps and the agent is not called.
func TestAgentsAreJudgedAtEachCall(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Quickly)
	dir := w.committed(map[string]string{swapped + "prd.md": "# Bye\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n"})
	var theirs atomic.Bool
	w.Site.TrustedPrograms = func(context.Context) error { return strangersSettings(&theirs) }
	w.Site.Event = func(e runner.Event) {
		if e.State != nil && e.State.Phase == "check" {
			theirs.Store(true)
		}
	}
	if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.Is(err, trust.ErrUntrusted) {
		t.Errorf("the run ended with %v", err)
	}
	if streams, _ := filepath.Glob(filepath.Join(dir, "run", "*", "*check*", "*", "stream.jsonl")); len(streams) > 0 {
		t.Errorf("the agent was called: %v", streams)
	}
	theirs.Store(false)
	w.Site.Event = nil
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("with the person's own again: %s, %v", res.Status, res.Failure)
	}
}

// strangersSettings returns an error if the settings are a stranger's.
func strangersSettings(theirs *atomic.Bool) error {
	if !theirs.Load() {
		return nil
	}
	return &trust.UntrustedError{Verdict: trust.Verdict{Subject: trust.Settings, Foreign: []trust.Foreign{{Item: trust.Item{Kind: trust.Program, Text: "tools/agent.py"}}}}}
}

// Edge S2: if the instructions for a role are a stranger's, the run sleeps, both when it claims the task and at a call.
func TestWordsAreJudgedAtEachCall(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"claim", "check"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := newTrustWorld(t, runnertest.Quickly)
			dir := w.committed(map[string]string{swapped + "prd.md": "# Bye\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n"})
			var theirs atomic.Bool
			w.Site.Instruct = func(trellis.Role) (runner.Instructions, error) {
				return runner.Instructions{}, strangersSettings(&theirs)
			}
			w.Site.Disk = &durable.Disk{Fault: func(_, path string) error {
				if when == "claim" && strings.Contains(path, "/02-01-bye/run") {
					theirs.Store(true)
				}
				return nil
			}}
			w.Site.Event = func(e runner.Event) {
				if e.State != nil && e.State.Phase == when {
					theirs.Store(true)
				}
			}
			if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.Is(err, trust.ErrUntrusted) {
				t.Errorf("the run ended with %v", err)
			}
			theirs.Store(false)
			w.Site.Event, w.Site.Disk = nil, nil
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Errorf("with the person's own again: %s, %v", res.Status, res.Failure)
			}
		})
	}
}

// If an agent is removed from the settings during a run, the run sleeps with a hint, and resumes once the agent is there again.
func TestAgentIsTakenOutOfTheSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Hand("02-01-bye", lyingPRD)
	var gone atomic.Bool
	agent := w.Site.Agent
	w.Site.Agent = func(name string) (agents.Agent, error) {
		if gone.Load() {
			return agents.New("gone", agents.Options{})
		}
		return agent(name)
	}
	w.Site.Event = func(e runner.Event) {
		if e.State != nil && e.State.Phase == "check" {
			gone.Store(true)
		}
	}
	_, err := w.Site.Starter().Start(t.Context(), dir, runner.RunOptions{})
	var p *trellis.Problem
	if !errors.As(err, &p) || p.File != ".trellis/config.yaml" || p.Hint != "name it there again; then trellis start 02-01-bye" {
		t.Fatalf("the run ended with %v", err)
	}
	gone.Store(false)
	w.Site.Event = nil
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("with the agent again: %s, %v", res.Status, res.Failure)
	}
}
