package cli

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// newTaskWorld returns a repository in which the only task is not in git, and the agents do what they are asked.
func newTaskWorld(t *testing.T, task string) *gitWorld {
	t.Helper()
	w := newGitWorld(t, realTrellis(t))
	w.write(".trellis/rehearsal.yaml", plainRoles)
	w.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [sh test.sh]\n")
	w.write(".trellis/tasks/02-01-bye/task.json", task)
	w.write(".trellis/.gitignore", ".runtime/\n") // does not list everything that Trellis needs
	w.git("rm", "-rq", "--cached", ".trellis/tasks")
	w.git("add", ":!.trellis/tasks")
	w.git("commit", "-qm", "prepare")
	return w
}

// The base branch is the one that the task names, whatever branch is checked out.
func TestBaseIsTheTasks(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, `{"status": "ready", "base_branch": "release-1"}`)
	w.git("branch", "release-1")
	w.git("checkout", "-q", "release-1")
	w.write("release.txt", "1\n")
	w.git("add", "release.txt")
	w.git("commit", "-qm", "release")
	w.git("checkout", "-q", "-b", "mine", "main")
	w.git("commit", "-q", "--allow-empty", "-m", "mine")
	if code := w.trellis("start", "bye"); code != 0 {
		t.Fatal(w.said)
	}
	if text := w.read(".trellis/tasks/02-01-bye/task.json"); !strings.Contains(text, `"base_branch": "release-1"`) {
		t.Errorf("task.json is\n%s", text)
	}
	if got := w.git("log", "--format=%s", "-2", "feature/bye"); got != "feat: Say bye\nrelease" {
		t.Errorf("the branch is\n%s", got)
	}
	if got := w.git("show", "feature/bye:release.txt"); got != "1" {
		t.Errorf("release.txt is %q", got)
	}
}

// The state of a task is only in its directory in the main checkout: the worktree has no other copy that changes, and no list of runs is
// kept elsewhere.
func TestTaskStandsInOnePlace(t *testing.T) {
	t.Parallel()
	for name, inGit := range map[string]bool{"committed": true, "not in git": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, `{"status": "ready"}`)
			const task = ".trellis/tasks/02-01-bye/task.json"
			w.write(".trellis/rehearsal.yaml", strings.Replace(plainRoles, "[{files:", `[{run: ["cat `+task+` >$TRELLIS_REPO/../seen; find . -name task.json >>$TRELLIS_REPO/../seen; true"], files:`, 1))
			if inGit {
				w.git("add", "-A")
				w.git("commit", "-qm", "the task")
			}
			before := w.files(".trellis")
			if code := w.trellis("start", "bye"); code != 0 {
				t.Fatal(w.said)
			}
			want := ""
			if inGit {
				want = "{\"status\": \"ready\"}./" + task + "\n" // the copy that git checked out, which is not updated
			}
			if got := w.read("../seen"); got != want {
				t.Errorf("in the worktree there was\n%s", got)
			}
			if got := w.git("diff", "--name-only", "main", "feature/bye"); got != "greet.sh\nnew.txt" {
				t.Errorf("committed is %q", got)
			}
			if got := w.task().Status; got != "review" {
				t.Errorf("it is %s", got)
			}
			for _, file := range w.files(".trellis") {
				if !slices.Contains(before, file) && !strings.HasPrefix(file, "tasks/02-01-bye/") && !strings.HasPrefix(file, ".runtime/") {
					t.Errorf("it wrote .trellis/%s", file)
				}
			}
		})
	}
}

// files lists the files below a folder of the main checkout.
func (w *gitWorld) files(dir string) (list []string) {
	w.Helper()
	err := filepath.WalkDir(w.path(dir), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(w.path(dir), path)
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// A change that is left out of the task's commit does not count as work, even if the agent committed it.
func TestWorkThatIsLeftOutIsNotDone(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, `{"status": "ready"}`)
	w.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [sh test.sh]\nworktree: {copy: [local.cfg]}\n")
	w.write("local.cfg", "a=1\n")
	w.write(".trellis/tasks/02-01-bye/prd.md", "# Change it\n\n## Acceptance Criteria\n\n- [ ] it is changed\n  verify: `grep -q changed local.cfg`\n")
	w.git("add", "local.cfg", ".trellis/config.yaml")
	w.git("commit", "-qm", "copy")
	w.write(".trellis/rehearsal.yaml", "roles:\n  implement: [{run: [\"echo changed=1 >>local.cfg; git add -A; git commit -qm all\"], answer: done}]\n  check: [{answer: fine}]\n")
	if code := w.trellis("start", "bye"); code != 1 || !strings.Contains(w.said, "empty_diff: there is nothing to commit: all that was changed is left out of commits") ||
		!strings.Contains(w.said, "local.cfg, which is not committed") {
		t.Errorf("it ended with %d:\n%s", code, w.said)
	}
}

// Files that are private to a person or to Trellis are not committed, even if git would take them and the agent commits everything.
func TestPrivateFilesAreNotCommitted(t *testing.T) {
	t.Parallel()
	const commits = "; git add -A; git commit -qm all"
	for name, does := range map[string]string{"left": "true", "committed by the agent": "true" + commits} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, `{"status": "ready"}`)
			w.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [sh test.sh, test -f .env]\nworktree: {copy: [.env]}\n")
			w.git("commit", "-qam", "copy")
			for _, file := range []string{".env", ".trellis/.developer", ".trellis/.current-task", ".trellis/tasks/02-01-bye/.plan-log"} {
				w.write(file, "mine, as it is\n")
			}
			mark := "mkdir -p .trellis/tasks/02-01-bye; echo x >.trellis/tasks/02-01-bye/.plan-log; echo x >.trellis/.current-task; "
			w.write(".trellis/rehearsal.yaml", strings.Replace(plainRoles, "[{files:", `[{run: ["`+mark+does+`"], files:`, 1))
			if code := w.trellis("start", "bye"); code != 0 {
				t.Fatal(w.said)
			}
			got := w.git("log", "-m", "--format=", "--name-only", "main..feature/bye")
			if private := regexp.MustCompile(`(?m)^(\.env|\.trellis/.*)$`).FindAllString(got, -1); len(private) > 0 || !strings.Contains(got, "new.txt") {
				t.Errorf("committed is %q\n%s\n%s", got, w.git("log", "--stat", "main..feature/bye"), w.git("ls-tree", "-r", "--name-only", "feature/bye"))
			}
			if got := w.read(".env"); got != "mine, as it is\n" {
				t.Errorf(".env is %q", got)
			}
			if report := w.read(".trellis/tasks/02-01-bye/report.md"); !strings.Contains(report, "## Changes\n\n```\nM greet.sh +1 -1\nA new.txt +1 -0\n```\n") || !strings.Contains(w.said, "2 files +2 -1") {
				t.Errorf("what is told to be changed is more than that:\n%s\n%s", w.said, report)
			}
		})
	}
}
