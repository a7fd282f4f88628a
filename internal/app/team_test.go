package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/share"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// teamed returns the project of a clone that shares its tasks through origin, and its Team.
func teamed(t *testing.T, dir string) (*Project, *Team) {
	t.Helper()
	vars := append(os.Environ(), "TRELLIS_TRUST=checkout", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	p, err := (&Env{Vars: vars, Dir: dir, Now: time.Now}).Open(t.Context())
	if err == nil {
		err = SharingOf(p).ShareThrough(t.Context(), "origin")
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

// The day's budgets are for all machines together, and metrics report what all of them spent.
func TestDayInMetricsOfATeam(t *testing.T) {
	t.Parallel()
	w := runnertest.NewWorld(t, runnertest.Quickly)
	w.Git("remote", "add", "origin", w.TempDir())
	p, _ := teamed(t, w.Dir)
	noon := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	p.Env.Now = func() time.Time { return noon }
	day := func(at time.Time) string { return at.Local().Format(time.DateOnly) }
	heard, err := json.Marshal(map[string]any{"remote": "origin", "silence": time.Minute, "spending": taskref.Spending{
		"busy": {Day: day(noon), Tokens: 900, CostUSD: 0.5}, "asleep": {Day: day(noon.AddDate(0, 0, -1)), Tokens: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	w.Write(p.Store.Rel(share.SightingsFile(w.Dir)), string(heard))
	var page bytes.Buffer
	if err := Metrics(p, "1").Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\ntrellis_day_tokens 900\n", "\ntrellis_day_cost_usd 0.5\n"} {
		if !strings.Contains(page.String(), line) {
			t.Errorf("there is no line %q in\n%s", line, &page)
		}
	}
}

// A remote that a person named is kept when the settings no longer name it; a remote that only the settings named is not.
func TestRemoteThatWasNamed(t *testing.T) {
	t.Parallel()
	for _, byHand := range []bool{true, false} {
		w := runnertest.NewWorld(t, runnertest.Quickly)
		w.Git("init", "-q", "--bare", w.Dir+"/../bare.git")
		w.Git("remote", "add", "origin", filepath.Clean(w.Dir+"/../bare.git"))
		look := func(p *Project) {
			t.Helper()
			s, err := p.Site(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			team, err := SharingOf(p).Team(s)
			if err == nil {
				_, err = team.Look(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		p, _ := teamed(t, w.Dir)
		if byHand {
			look(p)
		}
		p.sharedRemote = "" // as in another process
		w.Write(".trellis/config.yaml", "shared: {remote: origin}\n")
		look(p)
		w.Write(".trellis/config.yaml", "")
		cfg, _ := p.Config()
		if got := SharingOf(p).remote(cfg); (got == "origin") != byHand || SharingOf(p).isShared() != byHand {
			t.Errorf("named by hand %t: got %q, shared %t", byHand, got, SharingOf(p).isShared())
		}
	}
}

// An approval from another clone is for the plan as that clone has it: if the plan was changed elsewhere since, the approval is
// refused, also by the machine that works on the task.
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

	lease, err := here.Take(t.Context(), planned.Dir, func([]string) (bool, error) { return false, nil })
	if err != nil {
		t.Fatal(err)
	}
	edit()
	if done, err := p.Orders().Approve(t.Context(), dir, Decision{By: "ann"}); err != nil || done.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", done, err)
	}
	carried := make(chan struct{})
	here.Tell = func(_, said string) { close(carried); t.Log(said) }
	_, end := lease.Hold(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { here.Sync(ctx, func(string) {}); close(over) }()
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
