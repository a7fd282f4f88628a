package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// wordy is long enough that calls are made ahead.
const wordy = "greet.sh takes the flag --bye. With it, it says Bye and nothing else; without it, all stays as it is. The README says so."

func planWordy() runner.PlanOptions {
	return runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: wordy}
}

// calls returns the last call of each role in a planning.
func (w *world) calls(dir string) map[string]journal.Entry {
	w.Helper()
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		w.Fatal(err)
	}
	last := map[string]journal.Entry{}
	for _, e := range h.Calls {
		last[e.Activity] = e
	}
	return last
}

// Research and TaskSpec are called at the same time as evaluate. With planning.speculate: false, or for a short requirement, evaluate comes
// first.
func TestAskedAheadOfTheVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*runner.Site, *runner.PlanOptions)
		ahead  bool
	}{
		"ahead":            {func(*runner.Site, *runner.PlanOptions) {}, true},
		"switched off":     {func(s *runner.Site, _ *runner.PlanOptions) { s.Config.Planning.Speculate = false }, false},
		"short":            {func(_ *runner.Site, o *runner.PlanOptions) { o.Requirement = "say bye" }, false},
		"short, explained": {func(_ *runner.Site, o *runner.PlanOptions) { o.Requirement, o.Background = "say bye", []string{wordy} }, true},
		"short, of a file": {func(_ *runner.Site, o *runner.PlanOptions) {
			o.Requirement, o.Context = "say bye", []string{"README.md"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			p := w.play("small", nil)
			if c.ahead {
				w.meet(p, trellis.Evaluate, trellis.Research, trellis.TaskSpec)
			}
			o := planWordy()
			c.change(w.Site, &o)
			res, err := w.Site.PlanRunner().Plan(context.Background(), o)
			if err != nil || res.Status != trellis.Ready || res.Report.Calls != 5 {
				t.Fatalf("got %+v, %v", res, err)
			}
			at := w.calls(res.Dir)
			for _, role := range []string{"research", "taskspec"} {
				if ahead := at[role].Started.Before(at["evaluate"].Finished) && at["evaluate"].Started.Before(at[role].Finished); ahead != c.ahead {
					t.Errorf("evaluate %s to %s, %s %s to %s", at["evaluate"].Started, at["evaluate"].Finished, role, at[role].Started, at[role].Finished)
				}
			}
			if at["plan"].Started.Before(at["evaluate"].Finished) || at["digest"].Started.Before(at["evaluate"].Finished) {
				t.Error("what needs the verdict was done before it")
			}
			understood := "# How it was understood"
			if got := strings.Contains(w.prompts(res.Dir, "research", 1)[0], understood); got == c.ahead {
				t.Errorf("research was told the verdict: %t", got)
			}
			w.holds("plan", w.prompts(res.Dir, "plan", 1)[0], understood, "A flag.", "a --bye flag", "the program")
		})
	}
}

// saidNo is an agent whose evaluate answers VERDICT once the others work, which never end. Each records its role and process ID.
const saidNo = `cat > /dev/null
cd "$TRELLIS_REPO/.."
echo "$TRELLIS_ROLE" >> calls.log
echo $$ >> "pids-$TRELLIS_ROLE"
if test "$TRELLIS_ROLE" = evaluate; then
  until test -e pids-research && test -e pids-taskspec; do sleep 0.01; done
  echo '{"type": "usage", "usage": {"input_tokens": 100, "cost_usd": 0.25}}'
  echo '{"type": "result", "text": "VERDICT"}'
  exit
fi
echo '{"type": "usage", "usage": {"input_tokens": 700, "output_tokens": 100, "cost_usd": 0.5}}'
exec sleep 3000
`

func verdict(v runnertest.Obj) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(saidNo, "VERDICT", strings.ReplaceAll(string(raw), `"`, `\"`))
}

var refusal = runnertest.Obj{"decision": "reject", "category": "unclear", "details": "what?", "suggestions": []string{"say what"}}

// over checks that no process of the agents is alive.
func (w *world) over() {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(w.Dir, "..", "pids-*"))
	if err != nil || len(files) == 0 {
		w.Fatalf("got %q, %v", files, err)
	}
	for _, file := range files {
		for pid := range strings.FieldsSeq(w.Read("../" + filepath.Base(file))) {
			n, err := strconv.Atoi(pid)
			if err != nil {
				w.Fatal(err)
			}
			if (proc.ID{PID: n}).Alive() {
				w.Errorf("process %d of %s lives", n, filepath.Base(file))
			}
		}
	}
}

// A rejection ends the calls that were made ahead, with their processes. Their usage counts everywhere, and the directory has nothing of
// their answers.
func TestRejectionEndsWhatWasAskedAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	w.Program("events", verdict(refusal))
	w.Site.Config.Limits.Idle = time.Hour // only the rejection ends them
	began := time.Now()
	res, err := w.Site.PlanRunner().Plan(context.Background(), planWordy())
	if err != nil || res.Status != trellis.Rejected || res.Report.Calls != 3 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if took := time.Since(began); took > runnertest.Hang {
		t.Errorf("it took %s", took)
	}
	w.over()
	task := w.Task(res.Dir)
	for name, used := range map[string]trellis.Usage{"the report": res.Report.Usage, "task.json": task.Pipeline.Usage} {
		if used.Tokens() != 100+2*800 || used.CostUSD == nil || *used.CostUSD != 1.25 {
			t.Errorf("%s says %+v", name, used)
		}
	}
	if today, err := w.Site.Budgets().Today(); err != nil || today.Tokens() != 1700 {
		t.Errorf("of today are %+v, %v", today, err)
	}
	if task.Status != trellis.Rejected || task.Pipeline.Rejection.Category != "unclear" {
		t.Errorf("task.json says %s, %+v", task.Status, task.Pipeline)
	}
	w.holds("REJECTED.md", w.File(res.Dir, taskdir.Rejected), "what?", "say what")
	for _, name := range []string{"research.md", "taskspec.json", "implement.jsonl", "prd.md", "plan.json"} {
		none(w, res.Dir, name)
	}
	for _, role := range []string{"research", "taskspec"} {
		w.calledOff(res.Dir, role, "the requirement was rejected")
		logged{role, find(w.log(res.Dir), role+"_finished", -1)}.says(w, "error=called_off", "tokens=800")
	}
}

// calledOff checks a call that was ended because it was not needed.
func (w *world) calledOff(dir, role, why string) {
	w.Helper()
	var r agentcall.Reply
	if err := json.Unmarshal(w.calls(dir)[role].Out, &r); err != nil {
		w.Fatal(err)
	}
	if r.Failure == nil || r.Failure.Code != string(trellis.CalledOff) || r.Failure.Detail != why || r.Usage.Tokens() != 800 {
		w.Errorf("%s came to %+v", role, r)
	}
}

// Tiny work needs no TaskSpec: a call that is running is ended, and the research is kept.
func TestTinyWorkEndsTheTaskSpec(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	hears := make(chan struct{})
	var p *played
	p = w.play("tiny", map[trellis.Role]part{
		trellis.TaskSpec: func(ctx context.Context, r agents.Request, n int) (*agents.Result, error) {
			if fail := r.Spent(trellis.Usage{InputTokens: 800}); fail != nil {
				return nil, fail
			}
			close(hears)
			<-ctx.Done()
			return &agents.Result{Usage: trellis.Usage{InputTokens: 800}}, context.Cause(ctx)
		},
		trellis.Evaluate: func(_ context.Context, _ agents.Request, _ int) (*agents.Result, error) {
			<-hears
			return said(runnertest.Accepted("tiny")["answer"]), nil
		}})
	res, err := w.Site.PlanRunner().Plan(context.Background(), planWordy())
	if err != nil || res.Status != trellis.Ready || res.Report.Calls != 4 || res.Report.TaskSpec != nil || res.Report.Usage.Tokens() != 800 {
		t.Fatalf("got %+v, %v", res, err)
	}
	w.calledOff(res.Dir, "taskspec", "the work is tiny")
	none(w, res.Dir, "taskspec.json")
	none(w, res.Dir, "plan.json")
	w.File(res.Dir, "research.md")
	if n := len(p.heard[trellis.Research]); n != 1 {
		t.Errorf("research was asked %d times", n)
	}
}

// With --quick, research is called ahead, and a TaskSpec is not.
func TestQuickAsksForResearchAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	o := planWordy()
	o.Quick = true
	res, err := w.Site.PlanRunner().Plan(context.Background(), o)
	if err != nil || res.Status != trellis.Ready || w.asked(res.Dir) != "evaluate prd research" {
		t.Fatalf("got %+v, %v", res, err)
	}
	if at := w.calls(res.Dir); at["research"].ID != "research/research#1" {
		t.Errorf("research is %s", at["research"].ID)
	}
}

// If evaluate fails, the calls that were made ahead are ended, and the planning fails with the failure of evaluate.
func TestNoVerdictEndsWhatWasAskedAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", map[trellis.Role]part{trellis.Research: waits, trellis.TaskSpec: waits})
	p.parts[trellis.Evaluate] = func(ctx context.Context, r agents.Request, n int) (*agents.Result, error) {
		w.Until("the others", func() bool { return p.hears([]trellis.Role{trellis.Research, trellis.TaskSpec}) })
		return fails(trellis.AgentAuth)(ctx, r, n)
	}
	res, err := w.Site.PlanRunner().Plan(context.Background(), planWordy())
	if err != nil || res.Status != trellis.Planning || code(res) != trellis.AgentAuth || res.Report.Calls != 3 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if task := w.Task(res.Dir); task.Pipeline.Failure.Code != trellis.AgentAuth {
		t.Errorf("task.json says %+v", task.Pipeline.Failure)
	}
}

// Calls that fail ahead do not change a rejection. After an acceptance, they are repeated by the rules of their role.
func TestFailuresOfWhatWasAskedAhead(t *testing.T) {
	soak.Only(t, "TestAskedAheadOfTheVerdict")
	t.Parallel()
	bad := runnertest.Spec()
	bad["mood"] = "fine"
	for name, c := range map[string]struct {
		script runnertest.Script
		status trellis.Status
		code   trellis.Code
		asked  string
	}{
		"rejected anyway":     {runnertest.Careful("small").With("evaluate", runnertest.Answer(refusal)).With("research", runnertest.Obj{"fail": runnertest.Obj{"code": "agent_auth", "detail": "no key"}}), trellis.Rejected, "", "evaluate research taskspec"},
		"research for good":   {runnertest.Careful("small").With("research", runnertest.Obj{"fail": runnertest.Obj{"code": "agent_auth", "detail": "no key"}}), trellis.Planning, trellis.AgentAuth, "evaluate research taskspec"},
		"both sent back":      {runnertest.Careful("small").With("research", runnertest.Answer("I don't know."), runnertest.Answer(runnertest.Found)).With("taskspec", runnertest.Answer(bad), runnertest.Answer(runnertest.Spec())), trellis.Ready, "", "evaluate judge plan research research taskspec taskspec"},
		"no TaskSpec for all": {runnertest.Careful("small").With("taskspec", runnertest.Obj{"fail": runnertest.Obj{"code": "agent_auth", "detail": "no key"}}).With("plan", runnertest.Answer(uncovered())), trellis.Ready, "", "evaluate judge plan research taskspec"},
		"evaluate sent back":  {runnertest.Careful("small").With("evaluate", runnertest.Answer("yes"), runnertest.Accepted("small")), trellis.Ready, "", "evaluate evaluate judge plan research taskspec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.script.String())
			res, err := w.Site.PlanRunner().Plan(context.Background(), planWordy())
			if err != nil || res.Status != c.status || code(res) != c.code {
				t.Fatalf("got %+v, %v", res, err)
			}
			if got := w.asked(res.Dir); got != c.asked || res.Report.Calls != len(strings.Fields(c.asked)) {
				t.Errorf("it asked %s, %d calls", got, res.Report.Calls)
			}
			if name != "both sent back" {
				return
			}
			if !res.Report.TaskSpec.Repaired {
				t.Errorf("the TaskSpec is %+v", res.Report.TaskSpec)
			}
			w.holds("the second research", w.prompts(res.Dir, "research", 1)[1], "# How it was understood")
		})
	}
}

// Calls at the same time share one budget.
func TestCallsAheadShareTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	all := []trellis.Role{trellis.Evaluate, trellis.Research, trellis.TaskSpec}
	for _, role := range all {
		do := p.parts[role]
		p.parts[role] = func(ctx context.Context, r agents.Request, n int) (*agents.Result, error) {
			w.Until("the others", func() bool { return p.hears(all) })
			if fail := r.Spent(trellis.Usage{InputTokens: 100}); fail != nil {
				return &agents.Result{Usage: trellis.Usage{InputTokens: 100}}, fail
			}
			res, err := do(ctx, r, n)
			res.Usage.InputTokens = 100
			return res, err
		}
	}
	w.Site.Config.Limits.Tokens = 250
	res, err := w.Site.PlanRunner().Plan(context.Background(), planWordy())
	if err != nil || res.Status != trellis.Planning || code(res) != trellis.BudgetTokens {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got := w.Task(res.Dir).Pipeline.Usage.Tokens(); got != 300 {
		t.Errorf("task.json says %d tokens", got)
	}
}

// An interrupt ends all three calls. A planning that resumes calls only the agents that did not answer.
func TestInterruptedAhead(t *testing.T) {
	soak.Only(t, "TestInterruptedPlanning")
	t.Parallel()
	all := []trellis.Role{trellis.Evaluate, trellis.Research, trellis.TaskSpec}
	for _, hung := range [][]trellis.Role{all, {trellis.Evaluate}, {trellis.Evaluate, trellis.Research}, {trellis.Research}} {
		t.Run(fmt.Sprint(hung), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			p := w.play("small", nil)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			whole := map[trellis.Role]part{}
			for _, role := range hung {
				whole[role], p.parts[role] = p.parts[role], waits
			}
			go func() {
				for !(p.hears(all) && slices.Equal(w.open(), hung)) && ctx.Err() == nil {
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}()
			res, err := w.Site.PlanRunner().Plan(ctx, planWordy())
			if err != nil || !res.Interrupted {
				t.Fatalf("got %+v, %v", res, err)
			}
			for role, do := range whole {
				p.parts[role] = do
			}
			again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{})
			if err != nil || again.Status != trellis.Ready || again.Report.Calls != 5 {
				t.Fatalf("again: %+v, %v", again, err)
			}
			for role, heard := range p.heard {
				if want := 1 + min(1, strings.Count(fmt.Sprint(hung), string(role))); len(heard) != want {
					t.Errorf("%s was asked %d times, want %d", role, len(heard), want)
				}
			}
		})
	}
}

// open returns the running calls of the current planning.
func (w *world) open() (roles []trellis.Role) {
	dirs, _ := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*"))
	if len(dirs) != 1 {
		return nil
	}
	h, err := journal.Read(filepath.Join(dirs[0], taskdir.Run))
	if err != nil {
		return nil
	}
	for _, e := range h.Calls {
		if !e.Done {
			roles = append(roles, trellis.Role(e.Activity))
		}
	}
	slices.Sort(roles)
	return roles
}

// A provider's limit on a call that was made ahead is waited for after the acceptance, and not after a rejection.
func TestRateLimitAhead(t *testing.T) {
	soak.Only(t, "TestRateLimitInABranch")
	t.Parallel()
	at := time.Now().Add(time.Hour)
	limited := runnertest.Careful("small").With("research", runnertest.Obj{"fail": runnertest.Obj{"code": "rate_limited", "detail": "slow down", "resume_at": at}}, runnertest.Answer(runnertest.Found))
	w := newWorld(t, limited.String())
	res, err := w.Site.PlanRunner().Plan(context.Background(), planWordy())
	if err != nil || len(res.Waits) == 0 || res.Until.Before(at.Add(-time.Minute)) {
		t.Fatalf("got %+v, %v", res, err)
	}
	w.Site.Now = func() time.Time { return at.Add(time.Minute) }
	again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{})
	if err != nil || again.Status != trellis.Ready || again.Report.Calls != 6 {
		t.Fatalf("after it: %+v, %v", again, err)
	}
	w = newWorld(t, limited.With("evaluate", runnertest.Answer(refusal)).String())
	if res, err = w.Site.PlanRunner().Plan(context.Background(), planWordy()); err != nil || res.Status != trellis.Rejected {
		t.Fatalf("rejected: %+v, %v", res, err)
	}
}

// A planning that is killed at any step while it rejects ends with the same rejection: evaluate answers once, all calls have ended, and no
// agent is left.
func TestKillRejectionAtAnyStep(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) *world {
		w := newWorld(t, "roles: {}\n")
		w.Write("../agent.sh", verdict(refusal))
		w.Env = []string{runnertest.ChildAny + "=1", childSays + "=" + wordy, childWants + "=" + string(trellis.Rejected),
			runnertest.ChildScript + "=" + filepath.Join(w.Dir, "..", "agent.sh")}
		return w
	}
	w := start(t)
	_, steps := w.Child("", 0)
	if steps < 25 {
		t.Fatalf("an undisturbed planning has %d steps", steps)
	}
	for _, at := range sample(steps, 3) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := start(t)
			if killed, took := w.Child("", at); !killed && took >= at {
				t.Fatal("it was not killed")
			}
			dirs, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "[0-9]*"))
			if err != nil {
				t.Fatal(err)
			}
			if len(dirs) == 0 {
				w.Child("", 0)
				dirs, _ = filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "[0-9]*"))
			}
			if len(dirs) != 1 || w.Task(dirs[0]).Status != trellis.Rejected {
				t.Fatalf("the tasks are %q", dirs)
			}
			w.File(dirs[0], taskdir.Rejected)
			none(w, dirs[0], "research.md")
			w.over()
			h, err := journal.Read(filepath.Join(dirs[0], taskdir.Run))
			if err != nil || !h.Ended {
				t.Fatalf("it has not ended: %v", err)
			}
			for _, e := range h.Calls {
				if !e.Done {
					t.Errorf("%s is not done", e.ID)
				}
			}
			if got := w.results(dirs[0], "evaluate"); got != 1 {
				t.Errorf("the verdict was given %d times", got)
			}
			if used := w.Task(dirs[0]).Pipeline.Usage.Tokens(); used < 100 {
				t.Errorf("it used %d tokens", used)
			}
		})
	}
	if soak.Asked() {
		t.Logf("killed at each of %d steps", steps)
	}
}
