package runner_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Orders that a person gives in another process, after a command has read a task and before it writes.

// another returns the site of another process.
func another(w *world) *runner.Site {
	w.Helper()
	s, err := runnertest.NewSite(w.Dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"))
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// onceAt calls do once, before a step on a file.
func onceAt(step, base string, do func()) *durable.Disk {
	var once sync.Once
	return &durable.Disk{Fault: func(s, path string) error {
		if s == step && filepath.Base(path) == base {
			once.Do(do)
		}
		return nil
	}}
}

const asksAnn = `{"status": "waiting", "base_branch": "main", "pipeline": {"approval": {"required": true, "approvers": 1}}}`

// If a task is cancelled, or changed by another approval, while an approval is recorded, its new status stays.
func TestApprovedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		order func(s *runner.Site, dir string) error
		want  trellis.Status
	}{
		"cancelled": {func(s *runner.Site, dir string) error { return s.Orders().Cancel(dir) }, trellis.Cancelled},
		"taken back": {func(s *runner.Site, dir string) error {
			_, err := s.Store.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
				e.Set("status", trellis.Planning)
				return nil
			})
			return err
		}, trellis.Planning},
		"run and failed": {func(s *runner.Site, dir string) error {
			if _, err := s.Approvals().Approve(dir, "bob", ""); err != nil {
				return err
			}
			_, err := s.Starter().Start(context.Background(), dir, runner.RunOptions{})
			return err
		}, trellis.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Quickly)
			dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
			w.Write(".trellis/tasks/02-01-bye/task.json", asksAnn)
			other, looks := another(w), 0
			w.Site.Now = func() time.Time {
				if looks++; looks == 2 { // task.json was read, and the approvals are about to be counted
					if err := c.order(other, dir); err != nil {
						t.Error(err)
					}
				}
				return time.Now()
			}
			if _, err := w.Site.Approvals().Approve(dir, "ann", ""); err != nil {
				t.Error(err)
			}
			if got := w.Task(dir).Status; looks < 2 || got != c.want {
				t.Errorf("after %d looks at the clock it is %s, want %s", looks, got, c.want)
			}
		})
	}
}

// A task that is cancelled meanwhile is not delivered.
func TestDeliverOfCancelled(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	w.Site.Config.Delivery.PR = false
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	w.Start(dir)
	other := another(w)
	w.Site.TrustedPrograms = func(context.Context) error { return other.Orders().Cancel(dir) }
	_, err := w.Site.Deliveries().Deliver(context.Background(), dir)
	if refused := (*runner.RefusedError)(nil); !errors.As(err, &refused) || len(gh.State(t).PRs) > 0 || w.Task(dir).Status != trellis.Cancelled {
		t.Errorf("got %v, %d pull requests of a task that is %s", err, len(gh.State(t).PRs), w.Task(dir).Status)
	}
}

// A task that is cancelled during a retry stays cancelled. A later retry works.
func TestCancelDuringRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{answer: done}]\n")
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	if res := w.Start(dir); res.Status == trellis.Review {
		t.Fatalf("got %s", res.Status)
	}
	other := another(w)
	var cancelled error
	w.Site.Disk = onceAt("write", "journal.jsonl", func() { cancelled = other.Orders().Cancel(dir) })
	err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{})
	if refused := (*runner.RefusedError)(nil); !errors.As(err, &refused) || cancelled != nil || w.Task(dir).Status != trellis.Cancelled {
		t.Errorf("the retry: %v, the cancel: %v; it is %s", err, cancelled, w.Task(dir).Status)
	}
	w.Site.Disk = nil
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil || w.Task(dir).Status != trellis.Ready {
		t.Errorf("once more: %v; it is %s", err, w.Task(dir).Status)
	}
}

// A task that is in review after a reaction, whose run has not yet recorded its end, is not run again.
func TestStartAtTheEndOfAReaction(t *testing.T) {
	t.Parallel()
	w, gh, dir := reviewed(t, strings.Replace(runnertest.Mending, "echo fixed >> more.txt", "echo false > greet.sh", 1))
	w.Site.Config.Limits.Rounds = 1
	if done := w.say(gh, runnertest.Failing("ci")); len(done.Begun) != 1 {
		t.Fatalf("%+v", done)
	}
	other := another(w)
	started, held := false, error(nil)
	w.Site.Disk = &durable.Disk{Fault: func(step, path string) error {
		if step != "write" || filepath.Base(path) != "journal.jsonl" || started {
			return nil
		}
		if task, err := w.Site.Store.Load(dir); err == nil && task.Status == trellis.Review {
			started = true
			h, err := journal.Read(filepath.Join(dir, taskdir.Run))
			if err != nil || h.Ended {
				t.Errorf("the journal: %v, %v", h.Ended, err)
			}
			ctx, end := context.WithTimeout(context.Background(), 5*time.Second) // without a *durable.HeldError, the start would wait for this run
			defer end()
			_, held = other.Starter().Start(ctx, dir, runner.RunOptions{})
		}
		return nil
	}}
	w.Start(dir)
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil || !started || held == nil || h.Number != 2 || w.Task(dir).Status != trellis.Review || w.Debugs() != 1 {
		t.Errorf("start at its end: %v, %v; it is %s in run %d after %d calls, %v", started, held, w.Task(dir).Status, h.Number, w.Debugs(), err)
	}
}

// If a person retries a task with a damaged journal meanwhile, the task stays ready.
func TestRetryOfDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Depends("02-01-x")
	if killed, _ := w.Child(dir, 40); !killed {
		t.Fatal("the run came to its end")
	}
	path := filepath.Join(dir, taskdir.Journal)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines[1] = "{}\n"
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	other, looks := another(w), 0
	w.Site.Now = func() time.Time {
		if looks++; looks == 2 { // the journal was found damaged, and its lock is about to be taken again
			if err := other.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
				t.Error(err)
			}
		}
		return time.Now()
	}
	res, err := w.Site.TaskRunner().Run(context.Background(), dir, runner.RunOptions{}, nil)
	if err != nil || looks < 2 || res.Failure != nil || w.Task(dir).Status != trellis.Ready {
		t.Errorf("after %d looks at the clock: %s, %v, %v; it is %s", looks, res.Status, res.Failure, err, w.Task(dir).Status)
	}
}

// If a task is cancelled after its run was killed during a call, the usage of that call is recorded.
func TestCancelOfKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Write("../agent.sh", hangs)
	dir := w.Ready("02-01-a")[0]
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+w.Dir, runnertest.ChildTask+"="+dir, runnertest.ChildLog+"="+os.DevNull, runnertest.ChildScript+"="+filepath.Join(w.Dir, "..", "agent.sh"),
		"GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Until("told", func() bool { return noted(dir) })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := w.Site.Orders().Cancel(dir); err != nil {
		t.Fatal(err)
	}
	if task := w.Task(dir); task.Status != trellis.Cancelled || task.Pipeline.Usage.Tokens() != 5000 {
		t.Errorf("%s, used %+v, want 5000 tokens", task.Status, task.Pipeline.Usage)
	}
}

// A clock that is days ahead for a moment removes no day's ledger.
func TestLedgerClockAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Noon(0)
	now := w.Site.Now()
	w.Write(".trellis/.runtime/spend/"+now.Format(time.DateOnly)+".jsonl", `{"used": {"input_tokens": 900}}`+"\n")
	for _, ahead := range []int{0, 15, 0} {
		w.Site.Now = func() time.Time { return now.AddDate(0, 0, ahead) }
		used, err := w.Site.Budgets().Today()
		if want := map[int]int64{0: 900, 15: 0}[ahead]; err != nil || used.Tokens() != want {
			t.Errorf("%d days ahead: %d tokens, %v", ahead, used.Tokens(), err)
		}
	}
}

// Work that continued after it was checked is not completed because its earlier commits were merged.
func TestSettleOfWhatWentOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(runnertest.Mending, "when: \"# From the pull request\"\n      ", "", 1))
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	w.Start(dir)
	w.Git("merge", "-q", "--no-ff", "-m", "merged", "feature/bye")
	clean := w.Site.PullRequests().Remote().Cleaner
	before, err := clean.LookAt(context.Background(), dir)
	if err != nil || before.Proof == "" {
		t.Fatalf("got %+v, %v", before, err)
	}
	if err := w.Site.Orders().SendBack(context.Background(), dir, "say more"); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("sent back: %s, %v", res.Status, res.Failure)
	}
	done, err := clean.Completer().CompleteMerged(context.Background(), []cleanup.Leftover{before})
	if err != nil || len(done) > 0 || w.Task(dir).Status != trellis.Review {
		t.Errorf("completed %v, %v: it is %s", done, err, w.Task(dir).Status)
	}
}
