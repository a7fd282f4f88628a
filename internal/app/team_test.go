package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// teamed is the project of a clone that shares its tasks with those of origin.
func teamed(t *testing.T, dir string) (*Project, *Team) {
	t.Helper()
	vars := append(os.Environ(), "TRELLIS_TRUST=checkout", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	p, err := (&Env{Vars: vars, Dir: dir, Now: time.Now}).Open(t.Context())
	if err == nil {
		err = SharingOf(p).With("origin")
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Site(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	team, err := SharingOf(p).Team(s)
	if err != nil {
		t.Fatal(err)
	}
	return p, team
}

// A yes from another clone is for the plan as that clone has it: of one that was changed elsewhere since it is refused, also by the machine that
// is at work on the task.
func TestApprovalOfWhatThisCloneHas(t *testing.T) {
	t.Parallel()
	w := runnertest.NewWorld(t, runnertest.Careful("large").String())
	planned, err := w.Plan("bye", "say bye")
	if err != nil || planned.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", planned, err)
	}
	there := filepath.Join(w.TempDir(), "there")
	w.Git("clone", "-q", "--bare", w.Dir, w.Dir+"/../bare.git")
	w.Git("remote", "add", "origin", filepath.Clean(w.Dir+"/../bare.git"))
	w.Git("clone", "-q", filepath.Clean(w.Dir+"/../bare.git"), there)
	_, here := teamed(t, w.Dir)
	p, team := teamed(t, there)
	dir := filepath.Join(p.Store.Tasks(), filepath.Base(planned.Dir))
	edit := func() {
		t.Helper()
		prd := filepath.Join(".trellis", "tasks", filepath.Base(dir), "prd.md")
		w.Write(prd, w.Read(prd)+"\n## Notes\n\n- more\n")
	}
	if _, err := here.Submit(t.Context(), planned.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := team.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	edit()
	if _, err := here.Submit(t.Context(), planned.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Orders().Approve(t.Context(), dir, Decision{By: "ann"}); !errors.Is(err, runner.ErrPlanChanged) || len(HintsOf(err)) == 0 {
		t.Errorf("of a plan that was changed elsewhere: %v, next: %v", err, HintsOf(err))
	}

	lease, err := here.team.Take(t.Context(), planned.Dir, func([]string) (bool, error) { return false, nil })
	if err != nil {
		t.Fatal(err)
	}
	edit()
	if done, err := p.Orders().Approve(t.Context(), dir, Decision{By: "ann"}); err != nil || done.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", done, err)
	}
	carried := make(chan struct{})
	here.team.Tell = func(_, said string) { close(carried); t.Log(said) }
	_, end := lease.Hold(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { here.Follow(ctx, func(string) {}); close(over) }()
	<-carried
	stop()
	<-over
	if err := end(runner.Result{Status: trellis.Waiting}); err != nil {
		t.Fatal(err)
	}
	if got := w.Task(planned.Dir).Status; got != trellis.Waiting {
		t.Errorf("it is %s", got)
	}

	if _, err := team.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := p.Orders().Approve(t.Context(), dir, Decision{By: "ann"}); err != nil || done.Status != trellis.Ready {
		t.Errorf("of the plan that is there: %+v, %v", done, err)
	}
}
