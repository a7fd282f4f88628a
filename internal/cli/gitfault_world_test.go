package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/programtest"
	"github.com/trellis-tasks/trellis/internal/upgrade/upgradetest"
)

// shim replaces git: it counts the calls that Trellis makes itself, and at the call that a test names it does what the test says,
// before, after or instead of the real git.
const shim = `#!/bin/sh
real=%[1]q dir=%[2]q
test -z "$TRELLIS_ROLE" || exec "$real" "$@" # an agent's own
n=1
read n 2>/dev/null <"$dir/last" # one of those before, or nothing while another writes there
set -C
while ! { echo "$*" >"$dir/$n"; } 2>/dev/null; do n=$((n + 1)); done
echo $n >|"$dir/last"
read at mode 2>/dev/null <"$dir/fault"
verb() { while test "$1" = -c; do shift 2; done; echo "$1"; }
case $mode in
broken) # from the call on, until somebody mends it
	test -n "$at" && test "$n" -ge "$at" && ! test -e "$dir/mended" && test "$(verb "$@")" = "$(verb $(cat "$dir/$at"))" || exec "$real" "$@" ;;
*) test "$n" = "$at" || exec "$real" "$@" ;;
esac
lock() { # what a git that was killed in a worktree leaves
	own=$("$real" rev-parse --absolute-git-dir) && case $own in */worktrees/*) ;; *) return ;; esac
	for name; do : >"$own/$name.lock"; done
}
work() { # for a moment that is another one at each call
	exec 3<&0
	"$real" "$@" <&3 &
	i=0; while [ $i -lt $((n * 331 %% 4000)) ]; do i=$((i + 1)); done
}
case $mode in
fails | broken) echo "fatal: the disk is in a mood" >&2; exit 128 ;;
fails-late) "$real" "$@"; echo "fatal: the disk is in a mood" >&2; exit 128 ;;
dies) kill -9 $$ ;;
dies-working) work "$@"; kill -9 $! $$ ;;
locked) lock index; exec "$real" "$@" ;;
killed-before) kill -9 $PPID; kill -9 $$ ;;
killed-after) "$real" "$@"; kill -9 $PPID; kill -9 $$ ;;
killed-locked) lock index HEAD; kill -9 $PPID; kill -9 $$ ;;
killed-working) work "$@"; kill -9 $! $PPID; kill -9 $$ ;;
esac
`

// mood is the message of the shim's failures, which no other program prints.
const mood = "the disk is in a mood"

// gitWorld is a repository whose git can be made to fail, with the real command to work in it.
type gitWorld struct {
	*testing.T
	Dir, Calls string
	Env        []string
	said       string // output of all commands so far
}

// realTrellis builds the command once for all tests, without the race detector, since it is run very often.
func realTrellis(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared, "trellis")
	return path, programtest.Go("../..", "build", "-ldflags=-s -w -X github.com/trellis-tasks/trellis/internal/upgrade.Key="+upgradetest.Key(), "-o", path, "./cmd/trellis")
})

const gitFaultPRD = "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n- [ ] it reads well\n"

// gitFaultRoles are agents that write a line outside of the repository at each call. The first one changes what it must not, in git and in
// the task, so that Trellis has to restore it, and its change of the program fails the check.
const gitFaultRoles = `roles:
  evaluate: [{answer: {decision: accept, category: "", details: A flag., suggestions: [], size: tiny, confidence: 0.9}}]
  research:
    - answer: |
        ## implement.jsonl
        - path: greet.sh, reason: the program
        ## check.jsonl
        - path: test.sh, reason: its test
        ## Suggested Scope
        greet
        ## Verification Plan
        - test: sh test.sh
  prd:
    - answer: {title: Say bye, summary: It says bye., requirements: [bye], acceptance: [{criterion: it says bye, verify: "sh greet.sh --bye | grep -q Bye", level: must}]}
  implement:
    - run: ["echo implement >>$TRELLIS_REPO/../calls.log", "echo x >.trellis/tasks/02-01-bye/prd.md; git checkout -q --detach"]
      files: {greet.sh: "echo Bye\n", new.txt: "new\n"}
      answer: done
  check:
    - run: ["echo check >>$TRELLIS_REPO/../calls.log"]
      answer: fine
  debug:
    - run: ["echo debug >>$TRELLIS_REPO/../calls.log"]
      files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}
      answer: mended
  accept:
    - answer: {criteria: [{id: A2, verdict: met, evidence: "greet.sh:1"}]}
`

const gitFaultConfig = "agents: {default: rehearsal}\nverify: [\"sh test.sh; c=$?; echo x >dirt; echo y >>greet.sh.log; exit $c\"]\n"

// newGitWorld creates a repository with a task that is ready and committed, so that worktrees contain it too.
func newGitWorld(t *testing.T, trellis string, initArgs ...string) *gitWorld {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gittest.Gone(t, root)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	w := &gitWorld{T: t, Dir: filepath.Join(root, "repo"), Calls: filepath.Join(root, "calls")}
	const task = ".trellis/tasks/02-01-bye/"
	for name, text := range map[string]string{
		"greet.sh": "echo \"Hello, ${1:-world}!\"\n", "test.sh": "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n",
		".trellis/.gitignore": ".runtime/\n.current-task\ntasks/.new-*\n", ".trellis/workflow.md": "# Workflow\n",
		".trellis/config.yaml": gitFaultConfig, ".trellis/rehearsal.yaml": gitFaultRoles,
		task + "prd.md": gitFaultPRD, task + "task.json": `{"status": "ready"}`,
		task + "implement.jsonl": `{"file": "greet.sh", "reason": "the program"}` + "\n", task + "check.jsonl": `{"file": "test.sh", "reason": "its test"}` + "\n",
		"../bin/shim": fmt.Sprintf(shim, git, w.Calls), "../calls/.keep": "", "../tmp/.keep": "", "../home/.gitconfig": "[user]\n\tname = Ada\n\temail = a@example.org\n",
	} {
		w.write(name, text)
	}
	if err := errors.Join(os.Chmod(filepath.Join(root, "bin", "shim"), 0o755), os.Symlink(trellis, filepath.Join(root, "bin", "trellis"))); err != nil {
		t.Fatal(err)
	}
	w.Env = []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(root, "home"), "TMPDIR=" + filepath.Join(root, "tmp"), "GIT_CONFIG_NOSYSTEM=1", "GOGC=" + os.Getenv("GOGC")}
	w.git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	return w
}

func (w *gitWorld) path(name string) string { return filepath.Join(w.Dir, filepath.FromSlash(name)) }

func (w *gitWorld) write(name, text string) {
	w.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(w.path(name)), 0o755), os.WriteFile(w.path(name), []byte(text), 0o644)); err != nil {
		w.Fatal(err)
	}
}

func (w *gitWorld) read(name string) string {
	w.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	return string(data)
}

// git runs the real git, which is not counted.
func (w *gitWorld) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.Dir, append(w.Env[1:len(w.Env):len(w.Env)], "PATH="+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// trellis runs the command and returns its exit code, or -1 if it was killed.
func (w *gitWorld) trellis(args ...string) int {
	w.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(w.Dir), "bin", "trellis"), args...)
	cmd.Dir, cmd.Env = w.Dir, w.Env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.Fatal(err)
	}
	w.said += fmt.Sprintf("$ trellis %s\n%s(%d)\n", strings.Join(args, " "), out, cmd.ProcessState.ExitCode())
	return cmd.ProcessState.ExitCode()
}

// recount puts the shim in place and begins to count calls of git.
func (w *gitWorld) recount() {
	w.Helper()
	if err := errors.Join(os.Rename(w.path("../bin/shim"), w.path("../bin/git")), os.RemoveAll(w.Calls), os.Mkdir(w.Calls, 0o755)); err != nil {
		w.Fatal(err)
	}
}

// counted returns the calls of git in order, without options that all of them have.
func (w *gitWorld) counted() (calls []string) {
	w.Helper()
	for n := 1; ; n++ {
		data, err := os.ReadFile(filepath.Join(w.Calls, strconv.Itoa(n)))
		if err != nil {
			return calls
		}
		words := strings.Fields(string(data))
		for len(words) > 1 && words[0] == "-c" {
			words = words[2:]
		}
		calls = append(calls, strings.Join(words, " "))
	}
}

// gitFaultTask is what task.json says.
type gitFaultTask struct {
	Dir, Status, Commit string
	Pipeline            struct {
		Failure struct{ Code, Detail string }
		Outcome string
	}
}

func (w *gitWorld) task() (t gitFaultTask) {
	w.Helper()
	dirs, err := filepath.Glob(w.path(".trellis/tasks/*bye"))
	if err != nil || len(dirs) > 1 {
		w.Fatalf("the tasks are %q, %v", dirs, err)
	}
	if len(dirs) == 0 {
		return t
	}
	data, err := os.ReadFile(filepath.Join(dirs[0], "task.json"))
	if errors.Is(err, os.ErrNotExist) {
		return t
	}
	if err != nil {
		w.Fatal(err)
	}
	if err := json.Unmarshal(data, &t); err != nil {
		t.Status = "broken"
	}
	t.Dir = filepath.Base(dirs[0])
	return t
}

// agents counts the calls of each role.
func (w *gitWorld) agents() map[string]int {
	n := map[string]int{}
	for _, role := range strings.Fields(w.read("../calls.log")) {
		n[role]++
	}
	return n
}

// end describes how a task ended, as far as that must not depend on faults.
func (w *gitWorld) end() string {
	w.Helper()
	var b bytes.Buffer
	t := w.task()
	fmt.Fprintf(&b, "%s %s\n", t.Status, t.Pipeline.Outcome)
	if w.git("branch", "--list", "feature/bye") != "" {
		fmt.Fprintf(&b, "tree %s in %s commits, task.json names its tip: %v\n", w.git("rev-parse", "feature/bye^{tree}"), w.git("rev-list", "--count", "main..feature/bye"), t.Commit == w.git("rev-parse", "feature/bye"))
	}
	for line := range strings.SplitSeq(w.git("worktree", "list", "--porcelain"), "\n") {
		if dir, ok := strings.CutPrefix(line, "worktree "); ok && dir != w.Dir {
			fmt.Fprintf(&b, "worktree %s: %s\n", filepath.Base(dir), w.git("-C", dir, "status", "--porcelain", "--branch"))
		}
	}
	fmt.Fprintf(&b, "main checkout: %s\n", w.git("status", "--porcelain", "--branch", "--", ":!.trellis/tasks"))
	fmt.Fprintf(&b, "locks: %q\n", w.locks())
	return b.String()
}

// locks lists the lock files that would hinder git.
func (w *gitWorld) locks() (list []string) {
	w.Helper()
	err := filepath.WalkDir(w.path(".git"), func(path string, e os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(w.path(".git"), path); err == nil && e.Name() != "trellis.lock" && (strings.HasSuffix(rel, ".lock") || e.Name() == "locked") {
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(list)
	return list
}
