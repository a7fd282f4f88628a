package share_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/share"
)

// A task that can't be brought, or not given, is told of once and keeps no other one. That the remote does not answer is told beside it.
func TestOneTaskKeepsNoOther(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Counted(), time.Minute)
	empty := a.Git("hash-object", "-w", "-t", "tree", "/dev/null")
	a.Git("push", "-q", "origin", a.Git("commit-tree", "-m", "trellis: no task", "-m", "Status: ready", empty)+":refs/trellis/run/02-01-empty")
	a.lay("02-02-theirs")
	b := a.beside("b", 4*time.Second) // which looks often
	var unbrought *share.UnbroughtError
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
