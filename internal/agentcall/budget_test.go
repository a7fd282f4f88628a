package agentcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// spender is an agent that reports usage and then returns, or is cut off.
type spender struct {
	totals []int64 // running totals of tokens, reported one after the other
	cost   float64 // reported with the result
	cut    context.CancelFunc
	asked  []agents.Request
}

func (s *spender) Run(ctx context.Context, r agents.Request, _ func(agents.Event)) (*agents.Result, error) {
	s.asked = append(s.asked, r)
	res := &agents.Result{Text: "done", ToolCalls: -1}
	for _, n := range s.totals {
		res.Usage.InputTokens = n
		if f := r.Spent(res.Usage); f != nil {
			return res, f
		}
	}
	if s.cut != nil {
		s.cut()
		return res, context.Cause(ctx)
	}
	if s.cost > 0 {
		res.Usage.CostUSD = &s.cost
	}
	return res, nil
}

func spending(dir string, agent agents.Agent) *Caller {
	return &Caller{RunDir: filepath.Join(dir, "run"),
		Slots: func(context.Context, flow.Call, Request) (map[string]string, []string, error) { return nil, nil, nil },
		Agents: Agents{Open: func(string) (agents.Agent, error) { return agent, nil },
			Render: func(string, map[string]string) (templates.Prompt, error) { return templates.Prompt{Text: "work"}, nil }}}
}

func (a *Caller) call(ctx context.Context, attempt int, l Limits) (Reply, error) {
	return a.perform(ctx, flow.Call{Run: "02-01-x/1", ID: "implement#1", Attempt: attempt}, Request{Role: trellis.Implement, Permission: trellis.PermitEdit, Limits: l})
}

// The usage of a call that was cut off counts when the call is made again: in what it may use, and in its total.
// A call that was cut off too often is not made again.
func TestCutOffCallsCount(t *testing.T) {
	s := &spender{totals: []int64{100, 400}}
	a := spending(t.TempDir(), s)
	limits := Limits{Tokens: 1000, CostUSD: 3}
	for attempt := 1; attempt <= 2; attempt++ {
		ctx, cancel := context.WithCancel(context.Background())
		s.cut = cancel
		if _, err := a.call(ctx, attempt, limits); !errors.Is(err, context.Canceled) {
			t.Fatalf("entry %d: got %v", attempt, err)
		}
	}
	s.cut, s.totals, s.cost = nil, []int64{50}, 1
	reply, err := a.call(context.Background(), 3, limits)
	if err != nil || reply.Failure != nil || reply.Usage.Tokens() != 850 || reply.Usage.CostUSD == nil || *reply.Usage.CostUSD != 1 {
		t.Fatalf("got %+v, %v, want all of three entries", reply, err)
	}
	if got := s.asked[2].Limits.Tokens; got != 200 {
		t.Errorf("the third entry could use %d tokens, want 200", got)
	}
	reply, err = a.call(context.Background(), 4, Limits{Tokens: 800})
	if err != nil || reply.Usage.Tokens() != 850 || len(s.asked) != 3 {
		t.Fatalf("an entry that is at its end: %+v, %v", reply, err)
	}
	b := spending(t.TempDir(), s)
	ctx, cancel := context.WithCancel(context.Background())
	s.cut, s.totals = cancel, []int64{1000}
	if _, err := b.call(ctx, 1, limits); err == nil {
		t.Fatal("it was not cut off")
	}
	reply, err = b.call(context.Background(), 2, limits)
	if err != nil || reply.Failure == nil || reply.Failure.Code != string(trellis.BudgetTokens) || !reply.Failure.ResumeAt.IsZero() || reply.Usage.Tokens() != 1000 || len(s.asked) != 4 {
		t.Errorf("nothing is left: %+v, %v after %d calls", reply, err, len(s.asked))
	}
}

// All calls together have a budget: a call that finds nothing left is not made, and one that uses the budget up is ended, each
// until the time at which there is more. A call whose cost is limited by the budget fails for that reason.
func TestSpend(t *testing.T) {
	midnight := time.Now().Add(time.Hour)
	over := func() *flow.Failure {
		f := flow.Fail(string(trellis.BudgetTokens), "the day's")
		f.ResumeAt = midnight
		return f
	}
	s := &spender{totals: []int64{100, 250, 300}}
	a := spending(t.TempDir(), s)
	var used int64
	a.Spend = func(c flow.Call, more trellis.Usage) (Budget, error) {
		if used += more.Tokens(); used >= 250 {
			return Budget{Exhausted: over(), Until: midnight}, nil
		}
		return Budget{CostUSD: 2, Until: midnight}, nil
	}
	reply, err := a.call(context.Background(), 1, Limits{})
	if err != nil || reply.Failure == nil || !reply.Failure.ResumeAt.Equal(midnight) || reply.Usage.Tokens() != 250 || used != 250 {
		t.Fatalf("got %+v, %v, %d counted", reply, err, used)
	}
	if got := s.asked[0].Limits.CostUSD; got != 2 {
		t.Errorf("it may cost %v, want what is left of the day", got)
	}
	if reply, err = a.call(context.Background(), 2, Limits{}); err != nil || reply.Failure == nil || len(s.asked) != 1 {
		t.Errorf("the reply is kept: %+v, %v", reply, err)
	}
	b := spending(t.TempDir(), s)
	b.Spend = a.Spend
	if reply, err = b.call(context.Background(), 1, Limits{}); err != nil || reply.Failure == nil || reply.Failure.ResumeAt.IsZero() || reply.Failure.At.IsZero() || len(s.asked) != 1 {
		t.Errorf("nothing is left: %+v, %v after %d calls", reply, err, len(s.asked))
	}
	b.Known = func(_ Request, prompt string) (Reply, bool) {
		return Reply{Text: Ref{Path: "then"}, Known: true}, len(prompt) == 64
	}
	b.RunDir = t.TempDir()
	for _, attempt := range []int{1, 2} {
		if reply, err = b.call(context.Background(), attempt, Limits{}); err != nil || reply.Failure != nil || reply.Text.Path != "then" || len(s.asked) != 1 {
			t.Errorf("an answer that is known costs nothing: %+v, %v after %d calls", reply, err, len(s.asked))
		}
		b.Known = func(Request, string) (Reply, bool) { t.Error("it was kept"); return Reply{}, false }
	}
	b.Known = nil
	b.Spend = func(flow.Call, trellis.Usage) (Budget, error) { return Budget{}, flow.ErrSuspended }
	if _, err = b.call(context.Background(), 1, Limits{}); !errors.Is(err, flow.ErrSuspended) || len(s.asked) != 1 {
		t.Errorf("nobody can tell what is left: %v", err)
	}
	for cost, want := range map[float64]bool{1: false, 5: true} {
		c := spending(t.TempDir(), failing{flow.Fail(string(trellis.BudgetCost), "$2.01 spent of $2.00")})
		c.Spend = func(flow.Call, trellis.Usage) (Budget, error) { return Budget{CostUSD: 2, Until: midnight}, nil }
		reply, err := c.call(context.Background(), 1, Limits{CostUSD: cost})
		if err != nil || reply.Failure == nil || reply.Failure.ResumeAt.Equal(midnight) != want {
			t.Errorf("a task's rest of $%v beside the day's of $2: %+v, %v", cost, reply.Failure, err)
		} else if setting := map[bool]string{false: "limits.cost_usd", true: "limits.day_cost_usd"}[want]; !strings.HasSuffix(reply.Failure.Detail, " of "+setting) {
			t.Errorf("%q does not name %s, which is to be raised", reply.Failure.Detail, setting)
		}
	}
}

type failing struct{ fail *flow.Failure }

func (f failing) Run(context.Context, agents.Request, func(agents.Event)) (*agents.Result, error) {
	copied := *f.fail
	return &agents.Result{ToolCalls: -1}, &copied
}

// A running total of usage and costs that an agent reports is passed on as differences, also when the last report corrects it.
func TestSpendIsToldDifferences(t *testing.T) {
	s := &spender{totals: []int64{100, 100, 400, 350}, cost: 0.5}
	a := spending(t.TempDir(), s)
	var told []string
	a.Spend = func(c flow.Call, more trellis.Usage) (Budget, error) {
		raw, _ := json.Marshal(more.CostUSD)
		told = append(told, fmt.Sprint(c.Key(), " ", more.Tokens(), " ", string(raw)))
		return Budget{}, nil
	}
	if _, err := a.call(context.Background(), 1, Limits{}); err != nil {
		t.Fatal(err)
	}
	const call = "02-01-x/1/implement#1 "
	want := []string{call + "0 null", call + "100 null", call + "300 null", call + "-50 null", call + "0 0.5"}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", told, want)
	}
	if _, err := os.Stat(filepath.Join(a.RunDir, Folder(flow.Call{Run: "02-01-x/1", ID: "implement#1"}), "1", usageFile)); err != nil {
		t.Error(err)
	}
}

// Edge F11: a result that a power cut damaged, since it is not synced, is not used: the call is made again.
func TestResultThatAPowerCutTook(t *testing.T) {
	for name, left := range map[string]string{"empty": "", "zeros": "\x00\x00\x00\x00", "half": `{"text": "do`} {
		s := &spender{totals: []int64{1}}
		a := spending(t.TempDir(), s)
		if _, err := a.call(t.Context(), 1, Limits{}); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(a.RunDir, "1", "implement#1", "1", ResultFile)
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		if reply, err := a.call(t.Context(), 2, Limits{}); err != nil || reply.Failure != nil || len(s.asked) != 2 {
			t.Errorf("%s: got %+v, %v after %d calls, want another call", name, reply, err, len(s.asked))
		}
	}
}

// The time of calls that were cut off counts too, even of an agent that reports nothing: in the time of the call, and in what is
// left of the task's. A call that used all of that was ended by the limit of the task, and not by that of its phase.
func TestTimeOfCutOffCalls(t *testing.T) {
	now := time.Now()
	s := &spender{}
	a := spending(t.TempDir(), s)
	a.Now = func() time.Time { now = now.Add(10 * time.Second); return now } // called once when a call begins, and once when it ends
	limits := Limits{Wall: time.Minute, Seconds: 25}
	for attempt := 1; attempt <= 2; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		s.cut = cancel
		if _, err := a.call(ctx, attempt, limits); !errors.Is(err, context.Canceled) {
			t.Fatalf("entry %d: got %v", attempt, err)
		}
	}
	if first, second := s.asked[0].Limits.Wall, s.asked[1].Limits.Wall; first != 25*time.Second || second != 15*time.Second {
		t.Errorf("the entries could take %s and %s", first, second)
	}
	s.cut = nil
	reply, err := a.call(t.Context(), 3, limits)
	if err != nil || reply.Failure != nil || reply.Usage.Seconds != 30 || s.asked[2].Limits.Wall != 5*time.Second {
		t.Fatalf("got %+v, %v, asked with %+v", reply, err, s.asked[2].Limits)
	}
	b := spending(t.TempDir(), s)
	b.Now = a.Now
	ctx, cancel := context.WithCancel(t.Context())
	s.cut = cancel
	if _, err := b.call(ctx, 1, limits); err == nil {
		t.Fatal("it was not cut off")
	}
	if reply, err = b.call(t.Context(), 2, Limits{Seconds: 10}); err != nil || reply.Failure == nil || reply.Failure.Code != string(trellis.BudgetTime) || len(s.asked) != 4 {
		t.Errorf("nothing is left: %+v, %v after %d calls", reply, err, len(s.asked))
	}
	for wall, want := range map[time.Duration]trellis.Code{time.Second: trellis.TimeoutWall, time.Hour: trellis.BudgetTime, 0: trellis.BudgetTime} {
		c := spending(t.TempDir(), failing{flow.Fail(string(trellis.TimeoutWall), "the agent took longer")})
		if reply, err := c.call(t.Context(), 1, Limits{Wall: wall, Seconds: 60}); err != nil || reply.Failure == nil || reply.Failure.Code != string(want) {
			t.Errorf("with %s for the phase and a minute for the task: %+v, %v", wall, reply.Failure, err)
		}
	}
}

func TestLimitIsNamed(t *testing.T) {
	for said, r := range map[string]Request{
		"limits.check is 2s":     {Role: trellis.Check},
		"limits.debug is 2s":     {Role: trellis.Heal, Template: "heal"},
		"limits.evaluate is 2s":  {Role: trellis.Grade, Template: "grade"},
		"limits.implement is 2s": {Role: trellis.Implement},
		"limits.implement, or timeout_seconds of the step, is 2s": {Role: trellis.Implement, Template: "step"},
	} {
		r.Limits.Wall = 2 * time.Second
		f := flow.Fail(string(trellis.TimeoutWall), "the agent took longer than 2s")
		if r.explain(f); f.Detail != "the agent took longer than 2s; "+said {
			t.Errorf("%s: %s", r.Role, f.Detail)
		}
	}
}
