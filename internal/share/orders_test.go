package share_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// slow returns a script whose implement runs until the file quick exists.
func slow() string {
	return strings.Replace(runnertest.Counted(), "    - run: [\"echo implement >> $TRELLIS_REPO/../calls.log\"", "    - run: [\"echo implement >> $TRELLIS_REPO/../calls.log; touch $TRELLIS_REPO/../at-work; while ! test -e $TRELLIS_REPO/../quick; do sleep 0.05; done\"", 1)
}

// until waits for a condition that causes no event here.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func (m *machine) has(name string) bool {
	_, err := os.Stat(filepath.Join(m.Dir, name))
	return err == nil
}

// orders returns the orders on the remote that are not yet carried out.
func (m *machine) orders() []taskref.Order {
	m.Helper()
	_, list, err := m.team.Remote.Fetch(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	return list
}

func order(what string) taskref.Order {
	return taskref.Order{ID: what + "-1", Task: task, What: what, By: "bob", At: time.Now()}
}

// The machine that works on a task carries out an order that was given at another machine, and removes it from the remote.
func TestOrderToTheMachineAtWork(t *testing.T) {
	t.Parallel()
	const silence = 2 * time.Second
	a := net(t, slow(), silence)
	a.Hand(task, runnertest.ProvenPRD)
	done := make(chan runner.Result)
	go func() {
		res, err := a.Site.TaskRunner().Run(t.Context(), a.dir(), runner.RunOptions{}, nil)
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	until(t, "an agent at work", func() bool { return a.has("../at-work") })
	b := a.beside("b", silence)
	b.pull()
	if err := b.team.Ask(t.Context(), order("stop")); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.Status != trellis.Paused {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if list := b.orders(); len(list) > 0 {
		t.Errorf("still to be done: %v", list)
	}
	b.pull()
	if got := b.Task(b.dir()); got.Status != trellis.Paused {
		t.Errorf("the other machine has it as %s", got.Status)
	}
}

// An order to a machine that died is carried out by a machine that can take the task.
func TestOrderToADeadMachine(t *testing.T) {
	t.Parallel()
	const silence = 2 * time.Second
	a := net(t, slow(), silence)
	a.Hand(task, runnertest.ProvenPRD)
	cmd, said := a.begin(silence, 0)
	until(t, "an agent at work: "+said.String(), func() bool { return a.has("../at-work") })
	b := a.beside("b", silence)
	b.pull()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	a.Write("../quick", "")
	if err := b.team.Ask(t.Context(), order("stop")); err != nil {
		t.Fatal(err)
	}
	c := a.beside("c", silence)
	until(t, "the task is free", func() bool { c.pull(); return c.team.Elsewhere(c.dir()) == nil })
	ctx, end := follow(c)
	until(t, "the order is carried out", func() bool { return len(b.orders()) == 0 })
	end()
	<-ctx
	if got := c.Task(c.dir()); got.Status != trellis.Paused {
		t.Errorf("it is %s", got.Status)
	}
	b.pull()
	if got := b.Task(b.dir()); got.Status != trellis.Paused {
		t.Errorf("the other machine has it as %s", got.Status)
	}
}

// If two people approve a plan at the same moment, each in their own clone, both approvals count.
func TestTwoPeopleApprove(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	dir := a.Hand(task, runnertest.ProvenPRD)
	a.Write(".trellis/tasks/"+task+"/task.json", `{"status": "waiting", "pipeline": {"approval": {"required": true, "approvers": 2}}}`)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", silence)
	b.pull()
	said := make(chan error)
	for by, m := range map[string]*machine{"ann": a, "bob": b} {
		go func() {
			said <- m.team.Change(t.Context(), m.dir(), func() error {
				_, err := m.Site.Approvals().Approve(m.dir(), by, "")
				return err
			})
		}()
	}
	if err := errors.Join(<-said, <-said); err != nil {
		t.Fatal(err)
	}
	a.pull()
	b.pull()
	for _, m := range []*machine{a, b} {
		if got := m.Task(m.dir()); got.Status != trellis.Ready {
			t.Errorf("it is %s, by %s", got.Status, m.Read(".trellis/tasks/"+task+"/approvals.jsonl"))
		}
	}
}

// If the remote does not answer, the run is suspended. Once the remote answers again, the run resumes and repeats no call.
func TestRemoteIsGone(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, slow(), silence)
	var ahead atomic.Int64
	a.Site.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	a.Hand(task, runnertest.ProvenPRD)
	ended := make(chan error)
	go func() {
		_, err := a.Site.TaskRunner().Run(t.Context(), a.dir(), runner.RunOptions{}, nil)
		ended <- err
	}()
	until(t, "an agent at work", func() bool { return a.has("../at-work") })
	bare := filepath.Join(a.Dir, "../bare.git")
	if err := os.Rename(bare, bare+".away"); err != nil {
		t.Fatal(err)
	}
	a.Write("../quick", "")
	until(t, "what the agent did", func() bool {
		found, err := filepath.Glob(filepath.Join(a.dir(), "run/*/implement#1/*/result.json"))
		return err == nil && len(found) > 0
	})
	ahead.Store(int64(2 * silence)) // now this machine was silent for too long
	if err := <-ended; !errors.Is(err, flow.ErrSuspended) && !strings.Contains(err.Error(), "were told nothing") {
		t.Errorf("got %v", err)
	}
	if got := a.Task(a.dir()); got.Status != trellis.InProgress {
		t.Errorf("it is %s", got.Status)
	}
	if _, err := a.Site.TaskRunner().Run(t.Context(), a.dir(), runner.RunOptions{}, nil); !errors.Is(err, flow.ErrSuspended) {
		t.Errorf("begun without the remote: %v", err)
	}
	if err := os.Rename(bare+".away", bare); err != nil {
		t.Fatal(err)
	}
	if res := a.run(); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	for role, n := range calls(a) {
		if n != 1 {
			t.Errorf("%s was asked %d times", role, n)
		}
	}
}

// follow runs Sync until end is called; then over is closed.
func follow(m *machine) (over chan struct{}, end func()) {
	over = make(chan struct{})
	ctx, cancel := context.WithCancel(m.Context())
	go func() {
		defer close(over)
		m.team.Sync(ctx, func(string) {})
	}()
	return over, cancel
}

// What can't be published, here a repository within the worktree, fails the task. That failure is published.
func TestWhatCantBeGiven(t *testing.T) {
	t.Parallel()
	script := strings.Replace(runnertest.Counted(), "echo implement >> $TRELLIS_REPO/../calls.log", "echo implement >> $TRELLIS_REPO/../calls.log; git init -q inner; echo x > inner/x; git -C inner add -A; git -C inner -c user.name=x -c user.email=x@x commit -qm x", 1)
	a := net(t, script, 20*time.Second) // longer than any push takes, also on a busy machine
	a.Hand(task, runnertest.ProvenPRD)
	res := a.run()
	if res.Status != trellis.Failed || res.Failure == nil || res.Failure.Code != string(trellis.WorktreeFailed) || !strings.Contains(res.Failure.Detail, "inner") {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	b := a.beside("b", time.Minute)
	b.pull()
	if got := b.Task(b.dir()); got.Status != trellis.Failed {
		t.Errorf("others have it as %s", got.Status)
	}
}

// A machine without the task's agent does not take the task, and publishes nothing.
func TestUnfitMachine(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Counted(), time.Minute)
	dir := a.Hand(task, runnertest.ProvenPRD)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", time.Minute)
	b.pull()
	a.Write(".trellis/tasks/"+task+"/task.json", `{"status": "ready", "pipeline": {"agent": "claude"}}`)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b.Site.Available = func(_ context.Context, name string) error {
		if name == "claude" {
			return flow.Fail(string(trellis.AgentMissing), "there is no claude here")
		}
		return nil
	}
	before := b.Git("ls-remote", "origin")
	_, err := b.Site.TaskRunner().Run(t.Context(), b.dir(), runner.RunOptions{}, nil)
	if fail := (*flow.Failure)(nil); !errors.As(err, &fail) || fail.Code != string(trellis.AgentMissing) || errors.Is(err, flow.ErrSuspended) {
		t.Errorf("got %v", err)
	}
	if after := b.Git("ls-remote", "origin"); after != before {
		t.Errorf("the remote had\n%s\nand has\n%s", before, after)
	}
}

// A push that reached the remote without an answer does not make the machine lose its task, even if the next push fails.
func TestUnheardPush(t *testing.T) {
	t.Parallel()
	a := net(t, slow(), 4*time.Second) // pushes every second
	now := time.Now()
	a.Site.Now = func() time.Time { return now } // is never silent for too long by this clock
	a.Hand(task, runnertest.ProvenPRD)
	hook := filepath.Join(a.Dir, "../bare.git/hooks/post-receive")
	done := make(chan error)
	go func() {
		_, err := a.Site.TaskRunner().Run(t.Context(), a.dir(), runner.RunOptions{}, nil)
		done <- err
	}()
	until(t, "an agent at work", func() bool { return a.has("../at-work") })
	bare := filepath.Join(a.Dir, "../bare.git")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nmv "+bare+" "+bare+".away\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	until(t, "a push that is not heard of", func() bool { return a.has("../bare.git.away") })
	until(t, "another one that fails", func() bool {
		return a.Git("rev-parse", "refs/trellis/pending/"+task) != a.Git("--git-dir="+bare+".away", "rev-parse", "refs/trellis/run/"+task)
	})
	if err := errors.Join(os.Remove(filepath.Join(bare+".away", "hooks/post-receive")), os.Rename(bare+".away", bare)); err != nil {
		t.Fatal(err)
	}
	a.Write("../quick", "")
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
	if got := a.Task(a.dir()); got.Status != trellis.Review {
		t.Errorf("it is %s", got.Status)
	}
}

// A machine does not carry out an order that it fetched before another machine carried the order out and took the task.
func TestOrderThatWasCarriedOut(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Counted(), time.Minute)
	if _, err := a.team.Submit(t.Context(), a.Hand(task, runnertest.ProvenPRD)); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", 4*time.Second) // asks the remote often
	if err := b.team.Ask(t.Context(), order("approve")); err != nil {
		t.Fatal(err)
	}
	var lease runner.Lease
	looks, heard := 0, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		b.team.Sync(ctx, func(string) { // b has fetched the order, and a task that nobody has
			if looks++; looks == 2 {
				close(heard)
			}
			if looks > 1 {
				return
			}
			done, end := follow(a)
			until(t, "a carries it out", func() bool { return len(a.orders()) == 0 })
			end()
			<-done
			var err error
			if lease, err = a.team.Take(t.Context(), a.dir(), fits); err != nil {
				t.Error(err)
			}
		})
	}()
	<-heard
	cancel()
	<-over
	if lease == nil {
		return
	}
	if err := lease.Save(t.Context(), "at work"); err != nil {
		t.Errorf("it was taken from the machine that had it: %v", err)
	}
	if n := b.Heard("approve of " + task); n > 0 {
		t.Errorf("it was carried out by b as well, %d times", n)
	}
}

// An order stays on the remote until the state there has its result: if the machine dies in between, the order is not lost.
func TestOrderStandsUntilItIsCarriedOut(t *testing.T) {
	t.Parallel()
	const silence = 2 * time.Second
	a := net(t, runnertest.Counted(), silence)
	a.Hand(task, runnertest.ProvenPRD)
	b := a.beside("b", silence)
	saved, carried := make(chan error, 1), make(chan struct{})
	var lease runner.Lease
	a.team.Apply = func(string, taskref.Order) error {
		defer close(carried)
		go func() { saved <- lease.Save(t.Context(), "meanwhile") }()
		select {
		case err := <-saved: // the step of the run ended first
			saved <- err
			if len(b.orders()) == 0 {
				t.Error("it is off the remote, and nothing came of it yet")
			}
		case <-time.After(time.Second): // the step waits
		}
		return nil
	}
	var err error
	if lease, err = a.team.Take(t.Context(), a.dir(), fits); err != nil {
		t.Fatal(err)
	}
	_, end := lease.Hold(t.Context())
	if err := b.team.Ask(t.Context(), order("approve")); err != nil {
		t.Fatal(err)
	}
	<-carried
	until(t, "the order is off the remote", func() bool { return len(b.orders()) == 0 })
	if err := errors.Join(<-saved, end(runner.Result{Status: trellis.Ready})); err != nil {
		t.Error(err)
	}
}

// A machine whose task directory a person removed does not carry out orders for that task, and reports nothing.
func TestOrderToATaskThatIsNotHere(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Counted(), time.Minute)
	if _, err := a.team.Submit(t.Context(), a.Hand(task, runnertest.ProvenPRD)); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", 4*time.Second) // asks the remote often
	b.pull()
	if err := os.RemoveAll(b.dir()); err != nil {
		t.Fatal(err)
	}
	if err := a.team.Ask(t.Context(), order("approve")); err != nil {
		t.Fatal(err)
	}
	over, end := follow(b)
	if err := runnertest.Lay(filepath.Join(b.Site.Store.Tasks(), "02-02-after"), "ready"); err != nil {
		t.Fatal(err)
	}
	until(t, "b looked several times", func() bool { return a.Git("ls-remote", "origin", "refs/trellis/run/02-02-after") != "" })
	end()
	<-over
	if n := b.Heard(task); n > 0 {
		t.Errorf("it was told of it %d times", n)
	}
	if list := b.orders(); len(list) != 1 {
		t.Errorf("to be done: %v", list)
	}
}
