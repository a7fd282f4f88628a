package dispatch_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Variables of a child whose agent is a script, and counts against a day's budget.
const (
	childScript = "TRELLIS_TEST_SCRIPT"
	childDay    = "TRELLIS_TEST_DAY_TOKENS"
)

// spends is an agent of all roles whose every call reports 800 tokens, and a cost when it is given one. A file says in
// which of its calls it goes on after that, until it is ended.
const spends = `cat > /dev/null
test "$TRELLIS_ROLE" = accept || echo x >> notes.txt
echo "$TRELLIS_TASK_ID $TRELLIS_ROLE" >> "$TRELLIS_REPO/../calls.log"
hangs=; rm "$TRELLIS_REPO/../hang-$TRELLIS_TASK_ID-$TRELLIS_ROLE" 2> /dev/null && hangs=yes
echo '{"type": "usage", "usage": {"input_tokens": 700, "output_tokens": 100, "cost_usd": %s}}'
test -z "$hangs" || exec sleep 60
test "$TRELLIS_ROLE" = accept && echo '{"type": "result", "text": "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"notes.txt\"}]}"}'
test "$TRELLIS_ROLE" = accept || echo '{"type": "result", "text": "done"}'
`

// noon sets the site's clock to noon, days from today.
func (w *world) noon(days int) {
	began := time.Now()
	y, m, d := began.Date()
	noon := time.Date(y, m, d+days, 12, 0, 0, 0, time.Local)
	w.Site.Now = func() time.Time { return noon.Add(time.Since(began)) }
}

func (w *world) ready(names ...string) (dirs []string) {
	w.Helper()
	for _, name := range names {
		dir := filepath.Join(w.Site.Store.Tasks(), name)
		if err := lay(dir, "ready"); err != nil {
			w.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func (w *world) watchOnce(parallel int) map[string]dispatch.Result {
	w.Helper()
	all, err := w.Site.Watch(context.Background(), dispatch.WatchOptions{Once: true, Parallel: parallel, Rescan: time.Hour})
	if err != nil {
		w.Fatal(err)
	}
	byDir := map[string]dispatch.Result{}
	for _, r := range all {
		byDir[r.Dir] = r
	}
	return byDir
}

// The day's budget ends the agent that uses it up within its turn, and pauses the task until midnight, without an
// attempt; nothing else is begun until then. The next day all goes on by itself, with a budget of its own.
func TestDayBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.program("events", fmt.Sprintf(spends, "null"))
	w.Site.Config.Limits.DayTokens = 4100
	w.noon(0)
	dirs := w.ready("02-01-a", "02-02-b", "02-03-c")
	w.write("../hang-02-02-b-accept", "")
	got := w.watchOnce(1)
	y, m, d := w.Site.Now().Date()
	midnight := time.Date(y, m, d+1, 0, 0, 0, 0, time.Local)
	b := w.task(dirs[1])
	if got[dirs[0]].Status != trellis.Review || b.Status != trellis.Paused || w.task(dirs[2]).Status != trellis.Ready {
		t.Fatalf("got %+v", got)
	}
	if p := b.Pipeline; p.Failure.Code != trellis.BudgetTokens || !strings.Contains(p.Failure.Detail, "day") || !p.ResumeAt.Equal(midnight) || p.Usage.Tokens() != 2400 {
		t.Errorf("task.json says %+v", p)
	}
	if c := got[dirs[2]]; c.Status != trellis.Waiting || !c.Until.Equal(midnight) || len(c.Waits) != 1 || !strings.Contains(c.Waits[0], "day") {
		t.Errorf("what was not begun: %+v", c)
	}
	if got := w.watchOnce(1); got[dirs[1]].Status != trellis.Paused || strings.Count(w.read("../calls.log"), "\n") != 6 {
		t.Errorf("the same day: %+v, %s", got, w.read("../calls.log"))
	}
	w.noon(1)
	got = w.watchOnce(1)
	for _, dir := range dirs {
		if w.task(dir).Status != trellis.Review || w.task(dir).Pipeline.Attempt != 1 {
			t.Errorf("the next day: %+v", got[dir])
		}
	}
	if used, err := w.Site.Today(); err != nil || used.Tokens() != 3200 || used.CostUSD != nil {
		t.Errorf("the next day's ledger says %+v, %v", used, err)
	}
}

// Who raises the day's budget and says start goes on at once; a watcher does so by itself when it looks again.
func TestDayBudgetRaised(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.program("events", fmt.Sprintf(spends, "0.25"))
	w.noon(0)
	w.Site.Config.Limits.DayCostUSD = 0.5
	dir := w.ready("02-01-a")[0]
	w.write("../hang-02-01-a-check", "")
	w.write("../hang-02-01-a-accept", "")
	res := w.start(dir)
	if res.Status != trellis.Paused || res.Until.IsZero() || res.Failure == nil || res.Failure.Code != string(trellis.BudgetCost) {
		t.Fatalf("got %+v", res)
	}
	if res = w.start(dir); res.Status != trellis.Paused {
		t.Fatalf("started again: %+v", res)
	}
	w.Site.Config.Limits.DayCostUSD = 0.8 // the check is made again, and the acceptance ends on it
	if res = w.start(dir); res.Status != trellis.Paused || w.task(dir).Pipeline.Phase != "accept" {
		t.Fatalf("raised: %+v, %+v", res, w.task(dir).Pipeline)
	}
	w.Site.Config.Limits.DayCostUSD = 0
	if got := w.watchOnce(1); got[dir].Status != trellis.Review {
		t.Errorf("without a limit: %+v", got)
	}
}

// A cost that nobody tells limits nothing.
func TestDayBudgetOfUnknownCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.program("events", fmt.Sprintf(spends, "null"))
	w.Site.Config.Limits.DayCostUSD = 0.01
	if res := w.start(w.ready("02-01-a")[0]); res.Status != trellis.Review {
		t.Fatalf("got %+v", res)
	}
	if used, err := w.Site.Today(); err != nil || used.Tokens() != 2400 || used.CostUSD != nil {
		t.Errorf("got %+v, %v", used, err)
	}
}

// Two processes share a day's budget: each sees what the other uses, and both end within the turn.
func TestDayBudgetOfTwoProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.write("../agent.sh", `cat > /dev/null
echo x >> notes.txt
n=0
while n=$((n+1)); do echo "{\"type\": \"usage\", \"usage\": {\"input_tokens\": ${n}0}}"; sleep 0.05; done
`)
	dirs := w.ready("02-01-a", "02-02-b")
	var children []*exec.Cmd
	for _, dir := range dirs {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+w.Dir, childTask+"="+dir, childLog+"="+os.DevNull, childScript+"="+filepath.Join(w.Dir, "..", "agent.sh"),
			childDay+"=600", "GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		_ = cmd.Wait() // it ends with 1, since its task is paused
	}
	var sum int64
	for _, dir := range dirs {
		p := w.task(dir)
		if p.Status != trellis.Paused || p.Pipeline.Failure.Code != trellis.BudgetTokens || p.Pipeline.ResumeAt.IsZero() || p.Pipeline.Usage.Tokens() == 0 {
			t.Errorf("%s: %s, %+v", p.ID, p.Status, p.Pipeline)
		}
		sum += p.Pipeline.Usage.Tokens()
	}
	if sum < 600 || sum > 1000 { // a turn is 10, and ending a program takes some of them
		t.Errorf("both used %d tokens of 600", sum)
	}
}

// What an agent used before its call was killed counts for the task when the call is made again.
func TestUsageOfKilledCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.write("../agent.sh", fmt.Sprintf(strings.Replace(spends, "echo '{\"type\": \"usage\"", `if mkdir "$TRELLIS_REPO/../first" 2> /dev/null; then
 echo '{"type": "usage", "usage": {"input_tokens": 5000}}'; exec sleep 60
fi
echo '{"type": "usage"`, 1), "null"))
	dir := w.ready("02-01-a")[0]
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+w.Dir, childTask+"="+dir, childLog+"="+os.DevNull, childScript+"="+filepath.Join(w.Dir, "..", "agent.sh"),
		"GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "run", "1", "implement#1", "1", "usage.json"))
		return len(files) == 1
	}
	for end := time.Now().Add(time.Minute); !told() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	commanded(w.Site, filepath.Join(w.Dir, "..", "agent.sh"), "events")
	if res := w.start(dir); res.Status != trellis.Review || res.Report.Usage.Tokens() != 5000+3*800 {
		t.Errorf("got %s, %v, %d tokens", res.Status, res.Failure, res.Report.Usage.Tokens())
	}
	if used, err := w.Site.Today(); err != nil || used.Tokens() != 5000+3*800 {
		t.Errorf("the day's ledger says %+v, %v", used, err)
	}
}

// The day's ledger is what all processes wrote to it: torn and foreign lines mean nothing, what is old goes.
func TestLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.program("events", fmt.Sprintf(spends, "0.5"))
	w.noon(0)
	day := w.Site.Now().Format(time.DateOnly)
	today := ".trellis/.runtime/spend/" + day + ".jsonl"
	old := ".trellis/.runtime/spend/" + w.Site.Now().AddDate(0, 0, -40).Format(time.DateOnly) + ".jsonl"
	w.write(old, "")
	w.write(today, `{"task": "02-09-z", "call": "x", "used": {"input_tokens": 40, "cost_usd": 1}}
{"hello": "world"}
not json
`+`{"task": "02-09-z", "call": "x", "used": {"input_tok`)
	if used, err := w.Site.Today(); err != nil || used.Tokens() != 40 || *used.CostUSD != 1 {
		t.Fatalf("got %+v, %v", used, err)
	}
	if res := w.start(w.ready("02-01-a")[0]); res.Status != trellis.Review {
		t.Fatalf("got %+v", res)
	}
	if used, err := w.Site.Today(); err != nil || used.Tokens() != 40+3*800 || *used.CostUSD != 2.5 {
		t.Errorf("behind a torn line: %+v, %v\n%s", used, err, w.read(today))
	}
	if _, err := os.Stat(filepath.Join(w.Dir, old)); err == nil {
		t.Error("the ledger of a day 40 days ago is still there")
	}
	w.write(today, "") // somebody made it anew
	if used, err := w.Site.Today(); err != nil || used.Tokens() != 0 {
		t.Errorf("emptied: %+v, %v", used, err)
	}
}

// A planning that finds the day's budget used up sleeps until midnight, like one that a provider limits, and goes on
// when there is some again.
func TestDayBudgetWhilePlanning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	spending(p, 100, 0.25)
	w.noon(0)
	w.Site.Config.Limits.DayTokens = 250
	res := w.planned()
	if len(res.Waits) == 0 || res.Until.Hour() != 0 || res.Failure == nil || res.Failure.Code != string(trellis.BudgetTokens) || !strings.Contains(res.Dir, ".new-") {
		t.Fatalf("got %+v", res)
	}
	again, err := w.Site.Replan(context.Background(), res.Dir, dispatch.PlanOptions{})
	if err != nil || len(again.Waits) == 0 {
		t.Fatalf("the same day: %+v, %v", again, err)
	}
	w.Site.Config.Limits.DayTokens = 10_000
	again, err = w.Site.Replan(context.Background(), res.Dir, dispatch.PlanOptions{})
	if err != nil || again.Status != trellis.Ready {
		t.Fatalf("raised: %+v, %v", again, err)
	}
	for role, heard := range p.heard {
		if len(heard) != 1 {
			t.Errorf("%s was asked %d times", role, len(heard))
		}
	}
}
