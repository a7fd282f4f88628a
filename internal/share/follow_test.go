package share_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/share"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A task that can't be fetched or published is reported once and does not hold up the others. An unreachable remote is reported separately.
func TestOneTaskKeepsNoOther(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Counted(), time.Minute)
	empty := a.Git("hash-object", "-w", "-t", "tree", "/dev/null")
	a.Git("push", "-q", "origin", a.Git("commit-tree", "-m", "trellis: no task", "-m", "Status: ready", empty)+":refs/trellis/run/02-01-empty")
	a.lay("02-02-theirs")
	b := a.beside("b", 4*time.Second) // asks the remote often
	var unbrought *share.SyncError
	changed, err := b.team.Pull(t.Context())
	if !errors.As(err, &unbrought) || len(unbrought.Of) != 1 || !strings.Contains(err.Error(), "02-01-empty is not the same here and on other machines: ") || !strings.Contains(err.Error(), "it has no task.json") {
		t.Errorf("got %v", err)
	}
	if len(changed) != 1 || filepath.Base(changed[0]) != "02-02-theirs" {
		t.Errorf("brought %v", changed)
	}

	for _, id := range []string{"02-03-linked", "02-04-ours"} {
		if err := runnertest.Lay(filepath.Join(b.Site.Store.Tasks(), id), "ready"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(b.Site.Store.Tasks(), "02-03-linked", "more.md")); err != nil {
		t.Fatal(err)
	}
	over, end := follow(b)
	defer func() { end(); <-over }()
	until(t, "the other one to be offered", func() bool { return strings.Contains(a.Git("ls-remote", "origin"), "02-04-ours") })
	until(t, "what can't be given to be told", func() bool { return b.Heard("02-03-linked is not the same here and on other machines: ") > 0 })
	bare := filepath.Join(a.Dir, "../bare.git")
	if err := os.Rename(bare, bare+".away"); err != nil {
		t.Fatal(err)
	}
	until(t, "the remote to be missed", func() bool { return b.Heard("nothing new is begun until it answers") > 0 })
	if err := os.Rename(bare+".away", bare); err != nil {
		t.Fatal(err)
	}
	until(t, "the remote to answer", func() bool { return b.Heard("origin answers again") > 0 })
	if n := b.Heard("02-01-empty is not the same"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
}

// If the lock of a task can't be taken although nobody holds it, that is reported.
func TestLockThatCantBeTaken(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	a.lay("02-01-first")
	b := a.beside("b", time.Minute)
	if err := os.MkdirAll(filepath.Join(filepath.Dir(share.SightingsFile(b.Dir)), "02-01-first.lock"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := b.team.Pull(t.Context()); !errors.As(err, new(*share.SyncError)) || !strings.Contains(err.Error(), "02-01-first.lock") {
		t.Errorf("got %v", err)
	}
}

// done makes tasks and runs them here to their review.
func (m *machine) done(ids ...string) {
	m.Helper()
	for _, id := range ids {
		if res, err := m.Site.TaskRunner().Run(m.Context(), m.lay(id), runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
			m.Fatalf("got %+v, %v", res, err)
		}
	}
}

// A pull asks the remote twice, however many tasks others changed: once for the states, once for the work.
func TestPullAsksForAllAtOnce(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	b := a.beside("b", time.Minute)
	asked, program := filepath.Join(b.Dir, "../asked"), filepath.Join(b.Dir, "../upload-pack")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho x >>"+asked+"\nexec git-upload-pack \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Git("config", "remote.origin.uploadpack", program)
	a.done("02-01-first", "02-02-second", "02-03-third")
	if got := b.pull(); len(got) != 3 {
		t.Errorf("brought %v", got)
	}
	if data, err := os.ReadFile(asked); err != nil || strings.Count(string(data), "x") != 2 {
		t.Errorf("asked %q, %v", data, err)
	}
	if got := b.Git("for-each-ref", "refs/heads/feature"); strings.Count(got, "\n") != 2 {
		t.Errorf("branches:\n%s", got)
	}
}

// A branch that could not be fetched with its task is fetched as soon as the remote has it.
func TestBranchThatComesLater(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	b := a.beside("b", 4*time.Second) // asks the remote often
	a.done("02-01-first")
	bare, wip := filepath.Join(a.Dir, "../bare.git"), "refs/trellis/wip/02-01-first"
	work := a.Git("--git-dir="+bare, "rev-parse", wip)
	a.Git("--git-dir="+bare, "update-ref", "-d", wip)
	over, end := follow(b)
	defer func() { end(); <-over }()
	until(t, "it is told", func() bool {
		return b.Heard("02-01-first is not the same here and on other machines: bringing the branch") > 0
	})
	a.Git("--git-dir="+bare, "update-ref", wip, work)
	until(t, "the branch", func() bool { return b.Git("for-each-ref", "refs/heads/feature") != "" })
}
