package taskref_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/taskref"
)

var errKilled = errors.New("killed")

// failAt returns a disk that fails after n operations, as if the process were killed, and a func that reports whether it failed.
func failAt(n int) (disk *durable.Disk, failed func() bool) {
	steps := 0
	return &durable.Disk{Fault: func(string, string) error {
		if steps++; steps > n {
			return errKilled
		}
		return nil
	}}, func() bool { return steps > n }
}

func (m *machine) with(disk *durable.Disk) taskref.Remote {
	r := m.remote
	r.Disk, r.Store.Disk = disk, disk
	return r
}

// A process killed while it brings a state leaves the old directory or the new one, and the next call makes it the new one.
func TestKilledWhileBringing(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.file("task.json", "{}")
	first := a.save("")
	b.fetch()
	a.file("report.md", "second\n")
	a.file("run/2/check#1/1/answer.md", "new\n")
	second := a.save(first.Commit)
	b.fetch()
	b.bring(first)
	old := content(t, b.taskDir())
	b.bring(second)
	now := content(t, b.taskDir())
	for i := 0; ; i += soak.Every(3) {
		b.bring(first)
		disk, failed := failAt(i)
		_, err := b.with(disk).Import(t.Context(), second)
		got := content(t, b.taskDir())
		if !maps.Equal(got, old) && !maps.Equal(got, now) {
			t.Fatalf("killed at step %d: it holds %q", i, got)
		}
		if _, err := b.remote.Import(t.Context(), second); err != nil {
			t.Fatalf("killed at step %d: %v", i, err)
		}
		if got := content(t, b.remote.Store.Tasks()); len(got) != len(now) || !maps.Equal(content(t, b.taskDir()), now) {
			t.Fatalf("killed at step %d: tasks hold %q in the end", i, got)
		}
		if !failed() {
			if err != nil || i < 20 {
				t.Errorf("%d steps, %v", i, err)
			}
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// A process killed while it brings work loses nothing, and the next call repairs what it left.
func TestKilledWhileBringingWork(t *testing.T) {
	t.Parallel()
	a, b := withWork(t)
	for i := 0; ; i += soak.Every(3) {
		b.Git("worktree", "prune")
		if i > 0 {
			b.Git("worktree", "remove", "--force", b.tree())
			b.Git("branch", "-D", "feature/greet")
		}
		b.Git("worktree", "add", "-q", "-b", "feature/greet", b.tree(), "main")
		b.Git("worktree", "remove", b.tree())
		b.addTree()
		b.Write(b.tree()+"/mine.txt", "mine\n")
		b.Git("update-ref", "-d", "refs/trellis/wip/"+task)
		disk, failed := failAt(i)
		err := b.with(disk).ImportWork(t.Context(), b.fetch(), b.tree())
		b.bringWork("after a kill")
		same(t, b.tree(), a.tree())
		if b.Git("log", "--all", "--format=%H", "--", "mine.txt") == "" {
			t.Fatalf("step %d: what was there is lost", i)
		}
		for ref := range strings.FieldsSeq(b.backups()) {
			b.Git("update-ref", "-d", ref)
		}
		if !failed() {
			if err != nil || i < 3 {
				t.Errorf("%d steps, %v", i, err)
			}
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// A process killed while it saves a state leaves the old or the new state on the remote.
func TestKilledWhileSaving(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.create()
	s := a.save("")
	for i := 0; ; i += soak.Every(2) {
		a.file("report.md", string(rune('a'+i)))
		disk, failed := failAt(i)
		_, err := a.with(disk).Save(t.Context(), a.taskDir(), s.Commit, taskref.SaveAs{Work: true, Claim: a.claim()})
		if got := b.fetch(); got.Commit != s.Commit {
			b.bring(got)
			if b.read("report.md") != a.read("report.md") {
				t.Errorf("step %d: the remote has neither", i)
			}
		}
		s = a.save(s.Commit)
		if !failed() {
			if err != nil || i < 2 {
				t.Errorf("%d steps, %v", i, err)
			}
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}
