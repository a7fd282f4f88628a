package taskref_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/taskref"
)

// sham is a commit message that a state can have.
const sham = "trellis: sham\n\nStatus: ready\n"

// A state that contains anything but plain files of a task is refused, and nothing changes on this machine.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	a.create()
	blob := strings.Fields(a.Git("ls-tree", "HEAD", "a.txt"))[2]
	tree, commit := a.Git("rev-parse", "HEAD^{tree}"), a.Git("rev-parse", "HEAD")
	task1 := "100644 blob " + blob + "\ttask.json"
	before := content(t, a.remote.Store.Tasks())
	for name, entries := range map[string][]string{
		"a link":                 {task1, "120000 blob " + blob + "\tprd.md"},
		"a link for a folder":    {task1, "120000 blob " + blob + "\trun"},
		"a submodule":            {task1, "160000 commit " + commit + "\tmod"},
		"a folder above":         {task1, "040000 tree " + tree + "\t.."},
		"git's folder":           {task1, "040000 tree " + tree + "\t.git"},
		"git's folder otherwise": {task1, "040000 tree " + tree + "\t.GiT"},
		"git's short name":       {task1, "040000 tree " + tree + "\tgit~1"},
		"a dot":                  {task1, "040000 tree " + tree + "\t."},
		"a backslash":            {task1, "100644 blob " + blob + "\ta\\b"},
		"a line break":           {task1, "100644 blob " + blob + "\t\"a\\nb\""},
		"a file of one machine":  {task1, "100644 blob " + blob + "\t.tmp-x"},
		"twice the same":         {task1, "100644 blob " + blob + "\tprd.md", "040000 tree " + tree + "\tprd.md"},
		"no task.json":           {"100644 blob " + blob + "\tprd.md"},
	} {
		a.pushTree("refs/trellis/run/"+task, sham, entries...)
		states, _, err := a.remote.Fetch(t.Context())
		if err != nil || len(states) != 1 {
			t.Fatalf("%s: %+v, %v", name, states, err)
		}
		if _, err := a.remote.Import(t.Context(), states[0]); err == nil {
			t.Errorf("%s was brought", name)
		}
		after := content(t, a.remote.Store.Tasks())
		if len(after) != len(before) || after[task+"/task.json"] != before[task+"/task.json"] {
			t.Errorf("%s: tasks hold %q now", name, after)
		}
	}
	if left, err := filepath.Glob(filepath.Join(a.remote.Store.Tasks(), ".tmp*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// A file that is larger than any file of a task may be is neither brought nor saved.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	a.create()
	large := filepath.Join(a.taskDir(), "run", "large")
	a.file("run/large", "")
	if err := os.Truncate(large, durable.MaxJournal+1); err != nil {
		t.Fatal(err)
	}
	if _, err := a.remote.Save(t.Context(), a.taskDir(), "", taskref.SaveAs{Work: true}); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("saved: %v", err)
	}
	blob := a.Git("hash-object", "-w", "--no-filters", large)
	a.pushTree("refs/trellis/run/"+task, sham, "100644 blob "+blob+"\ttask.json")
	if _, err := a.remote.Import(t.Context(), a.fetch()); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("brought: %v", err)
	}
}

// Refs that do not name a task, and commits that are not states, are not returned as states.
func TestOddRefs(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	blob := strings.Fields(a.Git("ls-tree", "HEAD", "a.txt"))[2]
	file := "100644 blob " + blob + "\ttask.json"
	sha := a.Git("rev-parse", "HEAD")
	for ref, message := range map[string]string{
		"run/archive": sham, "run/a/b": sham, "run/a b": "", "run/-x": sham, "run/02-01-said": "somebody's commit\n",
		"run/02-01-branch": sham + "Branch: a..b\nHead: " + sha + "\nWork: " + sha + "\n", "run/02-01-head": sham + "Branch: b\nHead: --output=x\nWork: " + sha + "\n",
		"run/02-01-forged": sham + "\n\x1b[2JHost: h\n", "order/02-01-x/y": "trellis: stop\n\n{}", "order/02-01-x/z": "trellis: stop\n\n" + `{"id":"z","task":"02-01-y","what":"stop"}`,
		"order/x": sham,
	} {
		if message != "" && !strings.Contains(ref, " ") {
			a.pushTree("refs/trellis/"+ref, message, file)
		}
	}
	a.Git("push", "-q", "origin", blob+":refs/trellis/run/02-01-blob")
	states, orders, err := a.remote.Fetch(t.Context())
	if err != nil || len(orders) != 0 || len(states) != 1 || states[0].Task != "02-01-forged" || states[0].Claim.Host != "" {
		t.Errorf("got %+v, %+v, %v", states, orders, err)
	}
	for _, name := range []string{"../x", "archive", "", "a/b", ".git"} {
		if _, err := a.remote.Import(t.Context(), taskref.State{Task: name, Commit: states[0].Commit}); err == nil {
			t.Errorf("%q was brought", name)
		}
	}
	if _, err := a.remote.Import(t.Context(), taskref.State{Task: task, Commit: blob}); err == nil {
		t.Error("a blob was brought")
	}
}

// Work whose history lacks the head of its branch, or that is not on the remote, is refused.
func TestHostileWork(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	s := taskref.State{Task: task, Branch: "feature/greet", Head: a.Git("rev-parse", "HEAD"), Work: a.Git("commit-tree", "-m", "x", "HEAD^{tree}")}
	if err := a.remote.ImportWork(t.Context(), s, a.tree()); err == nil {
		t.Error("work of another branch was brought")
	}
	s.Work = strings.Repeat("1", len(s.Head))
	if err := a.remote.ImportWork(t.Context(), s, a.tree()); err == nil {
		t.Error("work that is nowhere was brought")
	}
	if _, err := os.Lstat(a.tree()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a worktree: %v", err)
	}
}

// Files below run/ are accessible to their owner alone, and locks stay held.
func TestPermissionsAndLocks(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.create()
	a.file("check.sh", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(a.taskDir(), "check.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := a.save("")
	b.file("run/lock", "")
	b.file("task.json", "{}")
	held, err := durable.TryLock(filepath.Join(b.taskDir(), "run", "lock"), durable.Holder{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()
	if kept := b.bring(b.fetch()); kept == "" {
		t.Error("what was there was not kept")
	}
	if !held.StillInPlace() || !durable.Held(filepath.Join(b.taskDir(), "run", "lock")) {
		t.Error("the lock was lost")
	}
	for name, want := range map[string]fs.FileMode{
		".": 0o755, "task.json": 0o644, "check.sh": 0o755, "run": 0o700, "run/journal.jsonl": 0o600, "run/1/implement#1": 0o700, "run/1/implement#1/1/answer.md": 0o600,
	} {
		if st, err := os.Stat(filepath.Join(b.taskDir(), name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, st.Mode(), err, want)
		}
	}
	if b.differs(s) {
		t.Error("permissions are a difference")
	}
}

// A directory does not count as changed if a text in it names a folder that happens to be this machine's main checkout.
func TestOthersFolderIsOurs(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.create()
	a.file("report.md", "look into "+b.Dir+" and "+a.Dir+"\n")
	s := a.save("")
	b.bring(b.fetch())
	if b.differs(s) {
		t.Error("it differs from what it was made of")
	}
	if got, want := b.read("report.md"), "look into "+b.Dir+" and "+b.Dir+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if kept := b.bring(b.fetch()); kept != "" {
		t.Errorf("kept: %s", kept)
	}
}
