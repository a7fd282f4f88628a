package runner_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A budget in dollars does not limit an agent that reports no cost.
func TestDayBudgetOfUnknownCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("events", fmt.Sprintf(runnertest.Spends, "null"))
	w.Site.Config.Limits.DayCostUSD = 0.01
	if res := w.Start(w.Ready("02-01-a")[0]); res.Status != trellis.Review {
		t.Fatalf("got %+v", res)
	}
	if used, err := w.Site.Budgets().Today(); err != nil || used.Tokens() != 2400 || used.CostUSD != nil {
		t.Errorf("got %+v, %v", used, err)
	}
}

// Two processes share a day's budget: each counts what the other uses, and both end soon after it is used up.
func TestDayBudgetOfTwoProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Write("../agent.sh", `cat > /dev/null
echo x >> notes.txt
n=0
while n=$((n+1)); do
  echo "{\"type\": \"usage\", \"usage\": {\"input_tokens\": ${n}0}}"
  until [ "$(cat "$TRELLIS_REPO"/.trellis/.runtime/spend/*.jsonl 2> /dev/null | grep -c "$TRELLIS_TASK_ID")" -ge $n ]; do sleep 0.02; done
done
`) // reports more only after the last report was recorded, also on a busy machine
	dirs := w.Ready("02-01-a", "02-02-b")
	var children []*exec.Cmd
	for _, dir := range dirs {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+w.Dir, runnertest.ChildTask+"="+dir, runnertest.ChildLog+"="+os.DevNull, runnertest.ChildScript+"="+filepath.Join(w.Dir, "..", "agent.sh"),
			runnertest.ChildDay+"=600", "GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		_ = cmd.Wait() // exits with 1, since its task is paused
	}
	var sum int64
	for _, dir := range dirs {
		p := w.Task(dir)
		if p.Status != trellis.Paused || p.Pipeline.Failure.Code != trellis.BudgetTokens || p.Pipeline.ResumeAt.IsZero() || p.Pipeline.Usage.Tokens() == 0 {
			t.Errorf("%s: %s, %+v", p.ID, p.Status, p.Pipeline)
		}
		sum += p.Pipeline.Usage.Tokens()
	}
	if sum < 600 || sum > 1000 { // a report is 10 tokens and more, and ending a program takes time
		t.Errorf("both used %d tokens of 600", sum)
	}
}

// What an agent used before its call was killed counts for the task when the call is repeated.
func TestUsageOfKilledCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Write("../agent.sh", fmt.Sprintf(strings.Replace(runnertest.Spends, "echo '{\"type\": \"usage\"", `if mkdir "$TRELLIS_REPO/../first" 2> /dev/null; then
 echo '{"type": "usage", "usage": {"input_tokens": 5000}}'; exec sleep 3000
fi
echo '{"type": "usage"`, 1), "null"))
	dir := w.Ready("02-01-a")[0]
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+w.Dir, runnertest.ChildTask+"="+dir, runnertest.ChildLog+"="+os.DevNull, runnertest.ChildScript+"="+filepath.Join(w.Dir, "..", "agent.sh"),
		"GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "run", "1", "implement#1", "1", "usage.json"))
		return len(files) == 1
	}
	for end := time.Now().Add(15 * time.Minute); !told() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	runnertest.Commanded(w.Site, filepath.Join(w.Dir, "..", "agent.sh"), "events")
	if res := w.Start(dir); res.Status != trellis.Review || res.Report.Usage.Tokens() != 5000+3*800 {
		t.Errorf("got %s, %v, %d tokens", res.Status, res.Failure, res.Report.Usage.Tokens())
	}
	if used, err := w.Site.Budgets().Today(); err != nil || used.Tokens() != 5000+3*800 {
		t.Errorf("the day's ledger says %+v, %v", used, err)
	}
}

// The day's ledger has what all processes wrote. Torn and foreign lines are ignored, and old ledgers are removed.
func TestLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("events", fmt.Sprintf(runnertest.Spends, "0.5"))
	w.Noon(0)
	day := w.Site.Now().Format(time.DateOnly)
	today := ".trellis/.runtime/spend/" + day + ".jsonl"
	old := func(days int) string {
		return ".trellis/.runtime/spend/" + w.Site.Now().AddDate(0, 0, -days).Format(time.DateOnly) + ".jsonl"
	}
	for days := 27; days < 41; days++ {
		w.Write(old(days), "")
	}
	w.Write(today, `{"task": "02-09-z", "call": "x", "used": {"input_tokens": 40, "cost_usd": 1}}
{"hello": "world"}
not json
`+`{"task": "02-09-z", "call": "x", "used": {"input_tok`)
	if used, err := w.Site.Budgets().Today(); err != nil || used.Tokens() != 40 || *used.CostUSD != 1 {
		t.Fatalf("got %+v, %v", used, err)
	}
	if res := w.Start(w.Ready("02-01-a")[0]); res.Status != trellis.Review {
		t.Fatalf("got %+v", res)
	}
	if used, err := w.Site.Budgets().Today(); err != nil || used.Tokens() != 40+3*800 || *used.CostUSD != 2.5 {
		t.Errorf("behind a torn line: %+v, %v\n%s", used, err, w.Read(today))
	}
	for days, kept := range map[int]bool{39: true, 40: false} { // of 15 days
		if _, err := os.Stat(filepath.Join(w.Dir, old(days))); (err == nil) != kept {
			t.Errorf("the ledger of %d days ago: %v", days, err)
		}
	}
	w.Write(today, "") // somebody emptied it
	if used, err := w.Site.Budgets().Today(); err != nil || used.Tokens() != 0 {
		t.Errorf("emptied: %+v, %v", used, err)
	}
}

// A planning that finds the day's budget used up sleeps until midnight, and resumes earlier if the budget is raised.
func TestDayBudgetWhilePlanning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	spending(p, 100, 0.25)
	w.Noon(0)
	w.Site.Config.Limits.DayTokens = 250
	res := w.planned()
	if len(res.Waits) == 0 || res.Until.Hour() != 0 || res.Failure == nil || res.Failure.Code != string(trellis.BudgetTokens) || !strings.Contains(res.Dir, ".new-") {
		t.Fatalf("got %+v", res)
	}
	again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{})
	if err != nil || len(again.Waits) == 0 {
		t.Fatalf("the same day: %+v, %v", again, err)
	}
	w.Site.Config.Limits.DayTokens = 10_000
	again, err = w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{})
	if err != nil || again.Status != trellis.Ready {
		t.Fatalf("raised: %+v, %v", again, err)
	}
	for role, heard := range p.heard {
		if len(heard) != 1 {
			t.Errorf("%s was asked %d times", role, len(heard))
		}
	}
}

// The attempts of one call share the task's budget.
func TestTriesShareTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("events", `cat > /dev/null
echo x >> notes.txt
echo '{"type": "usage", "usage": {"input_tokens": 900}}'
exit 3
`)
	w.Site.Config.Limits.Tokens = 1000
	dir := w.Ready("02-01-a")[0]
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.BudgetTokens) {
		t.Fatalf("got %+v", res)
	}
	if used := w.Task(dir).Pipeline.Usage.Tokens(); used != 1800 { // an agent is ended only when it reports its usage
		t.Errorf("it used %d tokens", used)
	}
}

// hangs is a program that reports its usage and then hangs in its first call.
const hangs = `cat > /dev/null
test "$TRELLIS_ROLE" = accept || echo x >> notes.txt
if mkdir "$TRELLIS_REPO/../first" 2> /dev/null; then
 echo '{"type": "usage", "usage": {"input_tokens": 5000, "cost_usd": 0.5}}'; exec sleep 3000
fi
echo '{"type": "usage", "usage": {"input_tokens": 100}}'
test "$TRELLIS_ROLE" = accept && exec echo '{"type": "result", "text": "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"notes.txt\"}]}"}'
echo '{"type": "result", "text": "done"}'
`

// noted reports whether the usage of a run's first call is recorded.
func noted(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "run", "1", "implement#1", "1", "usage.json"))
	return len(files) == 1
}

// What an agent used counts if the task is cancelled while it works, in this run and in later ones.
func TestUsageOfCancelledCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("events", hangs)
	dir := w.Ready("02-01-a")[0]
	ended := make(chan runner.Result)
	go func() { ended <- w.Start(dir) }()
	w.Until("the agent has told what it used", func() bool { return noted(dir) })
	if err := w.Site.Orders().Cancel(dir); err != nil {
		t.Fatal(err)
	}
	res := <-ended
	if u := w.Task(dir).Pipeline.Usage; res.Status != trellis.Cancelled || u.Tokens() != 5000 || u.CostUSD == nil || *u.CostUSD != 0.5 {
		t.Fatalf("got %s, %v, used %+v", res.Status, res.Failure, u)
	}
	if report := w.Read(".trellis/tasks/02-01-a/report.md"); !strings.Contains(report, "5000 tokens in (0 cached), 0 out, 0.5000 USD") {
		t.Errorf("the report says:\n%s", report)
	}
	if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res = w.Start(dir); res.Status != trellis.Review || res.Report.Usage.Tokens() != 5000+3*100 {
		t.Errorf("got %s, %v, %d tokens", res.Status, res.Failure, res.Report.Usage.Tokens())
	}
}

// What a killed run used counts in later runs if it is not resumed: the usage of calls that had ended, and of one that had not.
func TestUsageOfRunsThatWereKilled(t *testing.T) {
	soak.Only(t, "TestUsageOfKilledCalls")
	for name, script := range map[string]string{"within a call": hangs, "between tries": strings.Replace(hangs, "exec sleep 3000", "exit 3", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Quickly)
			w.Write("../agent.sh", script)
			dir := w.Ready("02-01-a")[0]
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+w.Dir, runnertest.ChildTask+"="+dir, runnertest.ChildLog+"="+os.DevNull, runnertest.ChildScript+"="+filepath.Join(w.Dir, "..", "agent.sh"),
				"GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Until("the agent has told what it used", func() bool {
				return noted(dir) && (name == "within a call" || strings.Contains(w.Read(".trellis/tasks/02-01-a/run/journal.jsonl"), `"id":"sleep#1"`))
			})
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			runnertest.Commanded(w.Site, filepath.Join(w.Dir, "..", "agent.sh"), "events")
			if err := w.Site.Orders().Cancel(dir); err != nil {
				t.Fatal(err)
			}
			if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			if res := w.Start(dir); res.Status != trellis.Review || res.Report.Usage.Tokens() != 5000+3*100 {
				t.Errorf("got %s, %v, %d tokens", res.Status, res.Failure, res.Report.Usage.Tokens())
			}
		})
	}
}
