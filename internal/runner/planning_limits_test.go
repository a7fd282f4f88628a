package runner_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// If the TaskSpec agent times out or fails, it is not called again: a stub replaces the TaskSpec, with a warning.
func TestTaskSpecOfAgentsThatFail(t *testing.T) {
	t.Parallel()
	hang := runnertest.Careful("small").With("taskspec", runnertest.Obj{"sleep": "300s"}).With("plan", runnertest.Answer(uncovered()))
	for name, c := range soak.Rows(t, map[string]struct {
		script runnertest.Script
		change func(*runner.Site)
		code   trellis.Code
	}{
		"too long": {hang, func(s *runner.Site) { s.Config.Limits.Evaluate = 4 * time.Second }, trellis.TimeoutWall},
		"silent":   {hang, func(s *runner.Site) { s.Config.Limits.Idle = 4 * time.Second }, trellis.TimeoutIdle},
		"dead":     {hang.With("taskspec", runnertest.Obj{"exit": 137, "answer": ""}), func(*runner.Site) {}, trellis.AgentExit},
		"too much": {hang.With("taskspec", runnertest.Obj{"fail": runnertest.Obj{"code": "context_overflow", "detail": "too long"}}), func(*runner.Site) {}, trellis.ContextOverflow},
		"no key":   {hang.With("taskspec", runnertest.Obj{"fail": runnertest.Obj{"code": "agent_auth", "detail": "no key"}}), func(*runner.Site) {}, trellis.AgentAuth},
	}, "silent", "too much", "no key") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.script.String())
			c.change(w.Site)
			res := w.planned()
			if res.Status != trellis.Ready || res.Report.Calls != 5 || !res.Report.TaskSpec.Stub {
				t.Fatalf("got %s, %v, %+v", res.Status, res.Failure, res.Report)
			}
			if !strings.Contains(strings.Join(res.Report.Warnings, "\n"), string(c.code)) {
				t.Errorf("it warns of %q", res.Report.Warnings)
			}
			logged{"taskspec", find(w.log(res.Dir), "taskspec_finished", -1)}.says(w, "error="+string(c.code), "stub=true", "attempts=1")
		})
	}
}

// If a provider limits one of two calls at the same time, the other one ends and the planning sleeps. Once the time has come, it resumes
// and repeats only the limited call.
func TestRateLimitInABranch(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour)
	for _, role := range []string{"research", "taskspec"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			good := runnertest.Careful("small")[role][0]
			w := newWorld(t, runnertest.Careful("small").With(role, runnertest.Obj{"fail": runnertest.Obj{"code": "rate_limited", "detail": "slow down", "resume_at": at}}, good).String())
			res := w.planned()
			if len(res.Waits) == 0 || res.Until.Before(at.Add(-time.Minute)) || !strings.Contains(res.Dir, ".new-") {
				t.Fatalf("got %+v", res)
			}
			answered := 0
			for _, r := range []string{"evaluate", "research", "taskspec", "plan", "judge"} {
				answered += w.results(res.Dir, r)
			}
			if res.Report.Calls != answered {
				t.Errorf("it says %d calls, want %d", res.Report.Calls, answered)
			}
			if again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{}); err != nil || len(again.Waits) == 0 {
				t.Fatalf("before the time: %+v, %v", again, err)
			}
			w.Site.Now = func() time.Time { return at.Add(time.Second) }
			again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{})
			if err != nil || again.Status != trellis.Ready {
				t.Fatalf("after it: %+v, %v", again, err)
			}
			for r, n := range map[string]int{"evaluate": 1, "research": 1, "taskspec": 1, "plan": 1, "judge": 1} {
				if r == role {
					n = 2
				}
				if got := w.results(again.Dir, r); got != n {
					t.Errorf("%s was asked %d times, want %d", r, got, n)
				}
			}
		})
	}
}

// spending makes each call use tokens and dollars.
func spending(p *played, tokens int64, usd float64) {
	for role, do := range p.parts {
		p.parts[role] = func(ctx context.Context, r agents.Request, n int) (*agents.Result, error) {
			res, err := do(ctx, r, n)
			if res != nil {
				res.Usage = trellis.Usage{InputTokens: tokens, CostUSD: &usd}
			}
			return res, err
		}
	}
}

// A budget ends a planning between two calls: no agent is called any more, and the usage is recorded. After the budget is raised, the
// planning resumes, and repeats no call.
func TestBudgetBetweenPlanningCalls(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		limits func(*runner.Site)
		code   trellis.Code
		asked  int
		left   int64 // tokens of the research
	}{
		"after evaluate":    {func(s *runner.Site) { s.Config.Limits.Tokens = 100 }, trellis.BudgetTokens, 1, 0},
		"after two at once": {func(s *runner.Site) { s.Config.Limits.Tokens = 250 }, trellis.BudgetTokens, 3, 150},
		"before the judge":  {func(s *runner.Site) { s.Config.Limits.Tokens = 400 }, trellis.BudgetTokens, 4, 300},
		"by cost":           {func(s *runner.Site) { s.Config.Limits.CostUSD = 0.7 }, trellis.BudgetCost, 3, 0},
	}, "by cost", "after two at once") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			p := w.play("small", nil)
			spending(p, 100, 0.25)
			limits := w.Site.Config.Limits
			c.limits(w.Site)
			res := w.planned()
			asked := 0
			for _, heard := range p.heard {
				asked += len(heard)
			}
			if code(res) != c.code || res.Status != trellis.Planning || asked != c.asked {
				t.Fatalf("got %s, %v after %d calls, want %d", res.Status, res.Failure, asked, c.asked)
			}
			if heard := p.heard[trellis.Research]; c.left > 0 && heard[0].Limits.Tokens != c.left {
				t.Errorf("research may use %d tokens, want %d", heard[0].Limits.Tokens, c.left)
			}
			task := w.Task(res.Dir)
			if got := task.Pipeline.Usage.Tokens(); got != int64(100*asked) || task.Pipeline.Failure.Code != c.code {
				t.Errorf("task.json says %d tokens, %+v", got, task.Pipeline.Failure)
			}
			none(w, res.Dir, "prd.md")
			w.Site.Config.Limits = limits
			w.Write(".trellis/config.yaml", "limits: {tokens: 1000000}\n")
			again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{})
			if err != nil || again.Status != trellis.Ready {
				t.Errorf("raised: %s, %v, %v", again.Status, again.Failure, err)
			}
			for role, heard := range p.heard {
				if len(heard) != 1 {
					t.Errorf("%s was asked %d times", role, len(heard))
				}
			}
			if got := again.Report.Usage.Tokens(); got != 500 {
				t.Errorf("all of it took %d tokens, want 500", got)
			}
		})
	}
}

// An interrupt ends the running calls, also two at the same time. A planning that resumes calls only agents that did not answer.
func TestInterruptedPlanning(t *testing.T) {
	t.Parallel()
	for _, hung := range [][]trellis.Role{{trellis.Evaluate}, {trellis.Research, trellis.TaskSpec}, {trellis.Research}, {trellis.TaskSpec}, {trellis.Plan}, {trellis.Judge}} {
		t.Run(fmt.Sprint(hung), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			p := w.play("small", nil)
			spending(p, 100, 0.25)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			whole := map[trellis.Role]part{}
			for _, role := range hung {
				whole[role], p.parts[role] = p.parts[role], waits
			}
			go func() {
				for !(p.hears(hung) && w.underWay(hung)) && ctx.Err() == nil {
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}()
			res, err := w.Site.PlanRunner().Plan(ctx, runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye"})
			if err != nil || !res.Interrupted || !strings.Contains(res.Dir, ".new-") {
				t.Fatalf("got %+v, %v", res, err)
			}
			if _, held := runner.Held(res.Dir); held {
				t.Error("it is still held")
			}
			answered := -len(hung)
			for _, heard := range p.heard {
				answered += len(heard)
			}
			if rep := res.Report; rep.Calls != answered || rep.Usage.Tokens() != int64(100*answered) {
				t.Errorf("when interrupted it says %d calls and %d tokens, want %d", rep.Calls, rep.Usage.Tokens(), answered)
			}
			for role, do := range whole {
				p.parts[role] = do
			}
			again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{})
			if err != nil || again.Status != trellis.Ready || strings.Contains(again.Dir, ".new-") {
				t.Fatalf("again: %+v, %v", again, err)
			}
			for role, heard := range p.heard {
				if want := 1 + min(1, strings.Count(fmt.Sprint(hung), string(role))); len(heard) != want {
					t.Errorf("%s was asked %d times, want %d", role, len(heard), want)
				}
			}
			if again.Report.Calls != 5 {
				t.Errorf("it says %d calls", again.Report.Calls)
			}
			w.log(again.Dir)
		})
	}
}

// hears reports whether these roles were called.
func (p *played) hears(roles []trellis.Role) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(roles, func(r trellis.Role) bool { return len(p.heard[r]) == 0 })
}

// underWay reports whether exactly these roles are being called, and everything beside them is done.
func (w *world) underWay(roles []trellis.Role) bool {
	dirs, _ := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*"))
	if len(dirs) != 1 {
		return false
	}
	h, err := journal.Read(filepath.Join(dirs[0], taskdir.Run))
	if err != nil {
		return false
	}
	var open []trellis.Role
	acts := map[string]bool{}
	for _, e := range h.Calls {
		if acts[e.Activity] = true; !e.Done {
			open = append(open, trellis.Role(e.Activity))
		}
	}
	slices.Sort(open)
	if !slices.Equal(open, roles) {
		return false
	}
	switch { // a branch ends in an activity of Trellis
	case roles[0] == trellis.Research && len(roles) == 1:
		return acts["settle"]
	case roles[0] == trellis.TaskSpec:
		return acts["digest"]
	}
	return true
}
