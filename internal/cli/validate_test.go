package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge C5: validate finds what start would refuse at once, such as a missing base, a branch that is taken, or an unknown agent. Both say
// the same, and start does not claim the task.
func TestValidateFindsWhatStartRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prepare, task, says string }{
		"no such base":            {"", `{"status": "ready", "base_branch": "develop"}`, "task.json:1: there is no base branch develop"},
		"detached":                {"checkout -q --detach", `{"status": "ready"}`, "no base_branch is set and no branch is checked out"},
		"branch with commits":     {"branch feature/note other", `{"status": "ready", "base_branch": "master"}`, "branch feature/note is there already and has commits that the base has not"},
		"branch checked out":      {"", `{"status": "planning", "base_branch": "master", "branch": "master"}`, "branch master is checked out in"},
		"branch of a worktree":    {"worktree add -q ../elsewhere -b feature/note", `{"status": "ready", "base_branch": "master"}`, "branch feature/note is checked out in"},
		"a branch for its folder": {"branch feature", `{"status": "ready", "base_branch": "master"}`, "branch feature/note can't be made: there is a branch feature"},
		"a folder for its branch": {"branch feature/note/deep", `{"status": "waiting", "base_branch": "master"}`, "branch feature/note can't be made: there is a branch feature/note/deep"},
		"unknown agent":           {"", `{"status": "ready", "base_branch": "master", "pipeline": {"agent": "clod"}}`, "clod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.hand()
			b.git("add -A")
			b.git("commit -q -m second")
			b.git("branch other")
			b.write("more.txt", "more\n")
			b.git("add -A")
			b.git("commit -q -m third")
			b.git("branch -M other")
			b.git("branch master HEAD~1")
			b.git("checkout -q master")
			if c.prepare != "" {
				b.git(c.prepare)
			}
			b.write(".trellis/tasks/02-01-note/"+taskdir.TaskJSON, c.task+"\n")
			code, out, errs := b.app.try("validate", "note")
			if code != command.ExitUnmet || !strings.Contains(out+errs, c.says) {
				t.Errorf("validate: exit code %d\n%s%s", code, out, errs)
			}
			code, out, errs = b.app.try("start", "note")
			if code != command.ExitUnmet && code != command.ExitUsage || !strings.Contains(out+errs, c.says) {
				t.Errorf("start: exit code %d\n%s%s", code, out, errs)
			}
			if _, out, _ := b.app.try("status", "note", "--json"); strings.Contains(out, `"status": "failed"`) {
				t.Errorf("start claimed it:\n%s", out)
			}
		})
	}
}

// An agent that this machine lacks is reported, but is not an error, since another machine may have it. A branch with commits needs
// --adopt-branch.
func TestValidateOnAnotherMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/config.yaml", "agents: {default: gone, commands: {gone: {command: [no-such-program-here]}}}\n")
	code, out, errs := b.app.try("validate", "note")
	if code != command.ExitDone || !strings.Contains(out, "gone: ") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	b.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [test -s notes.txt]\nbaseline: false\n")
	b.git("checkout -q -b feature/note")
	b.write("mine.txt", "mine\n")
	b.git("add mine.txt")
	b.git("commit -q -m mine")
	b.git("checkout -q -")
	b.do("start note", command.ExitUnmet)
	b.do("start note --adopt-branch")
}

func (b *bench) git(words string) {
	b.Helper()
	cmd := exec.Command("git", strings.Fields(words)...)
	cmd.Dir, cmd.Env = b.app.Dir, b.app.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %s: %v\n%s", words, err, out)
	}
}

// Edge C7: a task with a long name with dots, as task.py forms it, is valid and runs. A file of .trellis/agents without a role gets a
// warning.
func TestTasksOfOtherToolsAreValid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	name := "publish-0.5.0-rc.1-" + strings.Repeat("with-all-that-belongs-to-it-", 3) + "now"
	b.write(".trellis/tasks/02-01-note/"+taskdir.TaskJSON, `{"name": "`+name+`", "status": "ready"}`+"\n")
	b.write(".trellis/agents/dispatch.md", "You dispatch.\n")
	code, out, errs := b.app.try("validate", "--all")
	if code != command.ExitDone || !strings.Contains(out, `warning: .trellis/agents/dispatch.md: there is no role "dispatch"`) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	b.do("start 02-01-note")
	b.git("rev-parse --verify feature/" + name)
}

// Edge C12: for a name that is nearly a known one, the known one is suggested.
func TestMisspelledNamesAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write("age.go", "package age\n")
	for words, want := range map[string]string{
		"task add-context note implmnt age.go":    "did you mean: implement\n",
		"task add-context note implement agee.go": "did you mean: age.go\n",
		"init --agent clod":                       `unknown agent "clod": there are claude, codex, opencode`,
	} {
		if code, out, errs := b.app.try(strings.Fields(words)...); code == command.ExitDone || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d\n%s%s", words, code, out, errs)
		}
	}
	b.do("task add-context note notes age.go") // not close to a known name
	b.write(".trellis/tasks/02-01-note/implmnt.jsonl", `{"file": "agee.go", "reason": "x"}`+"\n")
	b.write(".trellis/tasks/02-01-note/"+taskdir.TaskJSON, "{\n  \"status\": \"ready\", \"base_branch\": \"master\",\n  \"priorty\": \"P1\",\n  \"pipeline\": {\n    \"depends_on\": [\"02-01-note\",\n      \"nobody\"]}}\n")
	_, out, _ := b.app.try("validate", "note")
	for _, want := range []string{
		"warning: .trellis/tasks/02-01-note/task.json:3:3: \"priorty\" is not a field, and is ignored\n    next: did you mean: priority\n",
		"warning: .trellis/tasks/02-01-note/implmnt.jsonl: no phase reads this\n    next: did you mean: implement.jsonl\n",
		"implmnt.jsonl:1: agee.go does not exist\n    next: did you mean: age.go\n",
		"error: .trellis/tasks/02-01-note/task.json:6: depends on \"nobody\", which is not a task's directory name\n",
		"error: .trellis/tasks/02-01-note/task.json:5: depends on itself: 02-01-note → 02-01-note\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("validate does not say %q:\n%s", want, out)
		}
	}
}

// Mistakes in config.yaml are reported once, with their line, and not for each task.
func TestValidateTellsSettingsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/config.yaml", "agents:\n  default: nobody\nprotected: [\"[a\"]\n")
	code, out, errs := b.app.try("validate", "--all")
	want := "error: .trellis/config.yaml:2: agents.default is not an agent: \"nobody\" (one of claude, codex, opencode, rehearsal)\n" +
		"error: .trellis/config.yaml:3: protected[1] is not a glob: \"[a\"\n"
	out, _, _ = strings.Cut(out, "warning: ")
	if code != command.ExitUnmet || out != want || errs != "trellis: 2 errors, 1 warning\n" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
