package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// hosted is a repository with a bare remote and a fake gh.
type hosted struct {
	*gitWorld
	gh *githubtest.GH
}

// repositories returns repositories that differ from the usual ones in what git has to handle.
func repositories() map[string]struct {
	init    []string
	prepare func(h *hosted)
	holds   func(h *hosted) // once the work is delivered
} {
	files := 300
	if soak.Asked() {
		files = 20_000
	}
	return map[string]struct {
		init    []string
		prepare func(h *hosted)
		holds   func(h *hosted)
	}{
		"many-files":     {nil, func(h *hosted) { h.fill(files) }, func(h *hosted) { h.has(files) }},
		"sha256":         {[]string{"--object-format=sha256"}, func(*hosted) {}, func(h *hosted) { h.longNames() }},
		"worktreeConfig": {nil, (*hosted).perWorktree, (*hosted).keptPerWorktree},
		"submodules":     {nil, (*hosted).modular, (*hosted).modulePushed},
		"hooks":          {nil, (*hosted).hooked, (*hosted).hooksRan},
	}
}

const (
	plainRoles = `roles:
  implement: [{files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n", new.txt: "new\n"}, answer: done}]
  check: [{answer: fine}]
  accept: [{answer: {criteria: [{id: A2, verdict: met, evidence: "greet.sh:1"}]}}]
`
	plainConfig = "agents: {default: rehearsal}\ndelivery: {pr: true}\nlimits: {attempts: 1}\nverify: [sh test.sh]\n"
)

// In any kind of repository, a task goes from its start through review, pull request and merge to the archive, and nothing but the merged
// work is left.
func TestWholeLife(t *testing.T) {
	t.Parallel()
	trellis := realTrellis(t)
	for name, kind := range repositories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hosted{gitWorld: newGitWorld(t, trellis, kind.init...), gh: githubtest.Install(t, githubtest.State{})}
			h.host(kind.init, kind.prepare)
			before := h.git("status", "--porcelain", "--branch") + h.git("config", "--list", "--local")
			h.does(0, "start", "02-01-bye")
			tip := h.git("rev-parse", "feature/bye")
			if got := h.task(); got.Status != "review" || got.Commit != tip || h.remote("feature/bye") != tip {
				t.Fatalf("it is %s with %s; the branch is %s, %s in the remote\n%s", got.Status, got.Commit, tip, h.remote("feature/bye"), h.said)
			}
			if prs := h.gh.State(t).PRs; len(prs) == 0 || prs[len(prs)-1]["headRefOid"] != tip {
				t.Errorf("there are pull requests %v", prs)
			}
			kind.holds(h)
			h.does(0, "verify", "02-01-bye")
			if now := h.git("status", "--porcelain", "--branch", "--", ":!.trellis/tasks") + h.git("config", "--list", "--local"); now != before {
				t.Errorf("the main checkout was\n%s\nand is\n%s", before, now)
			}
			h.merge()
			h.does(0, "status", "--refresh")
			if got := h.task(); got.Status != "completed" || got.Pipeline.Outcome != "merged" {
				t.Fatalf("after the merge it is %s, %s\n%s", got.Status, got.Pipeline.Outcome, h.said)
			}
			h.does(0, "cleanup", "--merged")
			h.does(0, "task", "archive", "bye")
			h.does(0, "validate", "--all")
			h.nothingLeft()
		})
	}
}

func (h *hosted) host(initArgs []string, prepare func(*hosted)) {
	h.Helper()
	h.Env = append(h.Env, h.gh.Env[1:]...)
	h.Env[0] = "PATH=" + filepath.Join(filepath.Dir(h.Dir), "bin") + ":" + h.gh.Dir + ":" + os.Getenv("PATH")
	h.write(".trellis/rehearsal.yaml", plainRoles)
	h.write(".trellis/config.yaml", plainConfig)
	h.write(".trellis/.gitignore", ".runtime/\n.current-task\ntasks/\n")
	h.git("rm", "-rq", "--cached", ".trellis/tasks")
	h.git(append([]string{"init", "-q", "--bare", "-b", "main", "../origin.git"}, initArgs...)...)
	h.git("remote", "add", "origin", "../origin.git")
	prepare(h)
	h.git("add", "-A")
	h.git("commit", "-q", "-m", "chore: prepare")
	h.git("push", "-q", "-u", "origin", "main")
}

// does runs a command that has to end with this code.
func (h *hosted) does(want int, args ...string) {
	h.Helper()
	if code := h.trellis(args...); code != want {
		h.Fatalf("trellis %s ends with %d, want %d\n%s", strings.Join(args, " "), code, want, h.said)
	}
}

// remote returns the commit of a branch at the remote.
func (h *hosted) remote(branch string) string {
	h.Helper()
	sha, _, _ := strings.Cut(h.git("ls-remote", "origin", "refs/heads/"+branch), "\t")
	return sha
}

// merge merges the branch as the web page does: as one commit on the base of the remote.
func (h *hosted) merge() {
	h.Helper()
	sha := h.git("commit-tree", "feature/bye^{tree}", "-p", "origin/main", "-m", "feat: bye (#1)")
	h.git("push", "-q", "--no-verify", "origin", sha+":refs/heads/main")
	h.git("update-ref", "refs/remotes/origin/main", "main") // the clone does not know of the merge
	h.gh.Change(h.T, func(s *githubtest.State) {
		for _, pr := range s.PRs {
			pr["state"] = "MERGED"
		}
	})
}

// nothingLeft checks that the task left nothing but its archived directory.
func (h *hosted) nothingLeft() {
	h.Helper()
	if got := h.git("branch", "--list", "feature/*"); got != "" {
		h.Errorf("a branch is left: %s", got)
	}
	if got := h.git("worktree", "list"); strings.Contains(got, "\n") {
		h.Errorf("a worktree is left:\n%s", got)
	}
	if left, err := filepath.Glob(h.path("../repo-worktrees/*")); err != nil || len(left) > 0 {
		h.Errorf("left is %q, %v", left, err)
	}
	archived, err := filepath.Glob(h.path(".trellis/tasks/archive/*/02-01-bye/task.json"))
	if err != nil || len(archived) != 1 {
		h.Errorf("archived is %q, %v", archived, err)
	}
	if got := h.git("status", "--porcelain"); got != "" {
		h.Errorf("the main checkout is\n%s", got)
	}
	if locks := h.locks(); len(locks) > 0 {
		h.Errorf("locks are left: %q", locks)
	}
	h.git("fsck", "--no-dangling", "--connectivity-only")
}

// fill commits many files by fast-import.
func (h *hosted) fill(n int) {
	h.Helper()
	h.git("add", "-A")
	h.git("commit", "-q", "-m", "before")
	var stream strings.Builder
	stream.WriteString("commit refs/heads/main\ncommitter Ada <a@example.org> 1700000000 +0000\ndata 4\nmany\nfrom refs/heads/main^0\n")
	for i := range n {
		text := fmt.Sprintf("file %d\n", i)
		fmt.Fprintf(&stream, "M 644 inline many/%03d/%d.txt\ndata %d\n%s\n", i/50, i, len(text), text)
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stdin = h.Dir, append(h.Env[1:len(h.Env):len(h.Env)], "PATH="+os.Getenv("PATH")), strings.NewReader(stream.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("git fast-import: %v\n%s", err, out)
	}
	h.git("reset", "-q", "--hard")
	h.write("many/000/0.txt", "changed\n")
}

func (h *hosted) has(n int) {
	h.Helper()
	if got := strings.Count(h.git("ls-tree", "-r", "--name-only", "feature/bye", "many/"), "\n") + 1; got != n {
		h.Errorf("the branch has %d files, want %d", got, n)
	}
	if got := h.git("diff", "--name-only", "main", "feature/bye"); got != "greet.sh\nnew.txt" {
		h.Errorf("changed is %q", got)
	}
}

func (h *hosted) longNames() {
	h.Helper()
	if got := h.task().Commit; len(got) != 64 {
		h.Errorf("the commit is %s", got)
	}
}

// perWorktree gives the main checkout settings of its own and a sparse checkout. The agent works on files that this leaves out.
func (h *hosted) perWorktree() {
	h.Helper()
	h.write("left-out/old.txt", "old\n")
	h.git("add", "left-out")
	h.git("commit", "-q", "-m", "more")
	h.write(".trellis/rehearsal.yaml", strings.Replace(plainRoles, "new.txt:", `left-out/old.txt: "changed\n", left-out/new.txt: "new\n", new.txt:`, 1))
	h.git("config", "extensions.worktreeConfig", "true")
	h.git("config", "--worktree", "core.sparseCheckout", "true")
	h.git("config", "--worktree", "user.name", "Only Here")
	h.git("sparse-checkout", "set", "--no-cone", "/*", "!/left-out/")
}

func (h *hosted) keptPerWorktree() {
	h.Helper()
	if got := h.git("config", "--worktree", "user.name"); got != "Only Here" {
		h.Errorf("the main checkout's name is %q", got)
	}
	if got := h.git("show", "feature/bye:new.txt", "feature/bye:left-out/old.txt", "feature/bye:left-out/new.txt"); got != "new\nchanged\nnew" {
		h.Errorf("committed is %q", got)
	}
}

// modular makes the task one of a package that is a submodule.
func (h *hosted) modular() {
	h.Helper()
	for _, line := range []string{"init -q -b main ../lib", "-C ../lib commit -q --allow-empty -m lib", "init -q --bare -b main ../lib.git", "-C ../lib push -q ../lib.git main",
		"-c protocol.file.allow=always submodule --quiet add " + filepath.Join(filepath.Dir(h.Dir), "lib.git") + " lib"} {
		h.git(strings.Fields(line)...)
	}
	h.write(".trellis/config.yaml", plainConfig+"packages: {lib: {path: lib, type: submodule}}\n")
	h.write(".trellis/rehearsal.yaml", strings.Replace(plainRoles, "new.txt:", "lib/new.txt:", 1))
	h.write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "package": "lib"}`)
}

// modulePushed checks that the remotes match each other, and merges the branch of the submodule.
func (h *hosted) modulePushed() {
	h.Helper()
	want := h.git("rev-parse", "feature/bye:lib")
	if got := h.git("-C", "../lib.git", "rev-parse", "feature/bye"); got != want {
		h.Errorf("the submodule's remote has %s, want %s", got, want)
	}
	if got := h.git("-C", "../lib.git", "show", "feature/bye:new.txt"); got != "new" {
		h.Errorf("the submodule has %q", got)
	}
	h.git("-C", "../lib.git", "branch", "-f", "main", "feature/bye")
}

// hooked adds hooks that check their input and record that they ran.
func (h *hosted) hooked() {
	h.Helper()
	ran := "echo $(basename $0) >>" + filepath.Join(filepath.Dir(h.Dir), "ran") + "\n"
	for hook, does := range map[string]string{
		"pre-commit": "git diff --cached --check", "prepare-commit-msg": "echo 'Prepared: yes' >>$1", "commit-msg": "head -1 $1 | grep -Eq '^(feat|chore)(\\(.*\\))?: '",
		"post-commit": "true", "post-checkout": "true", "pre-push": "grep -q refs/heads/", "post-merge": "true", "reference-transaction": "cat >/dev/null",
	} {
		h.write(".git/hooks/"+hook, "#!/bin/sh\n"+ran+does+"\n")
		if err := os.Chmod(h.path(".git/hooks/"+hook), 0o755); err != nil {
			h.Fatal(err)
		}
	}
}

func (h *hosted) hooksRan() {
	h.Helper()
	ran := h.read("../ran")
	for _, hook := range []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "pre-push"} {
		if !strings.Contains(ran, hook+"\n") {
			h.Errorf("%s did not run", hook)
		}
	}
	if got := h.git("log", "-1", "--format=%B", "feature/bye"); !strings.Contains(got, "Prepared: yes") {
		h.Errorf("the message is %q", got)
	}
}
