package share_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/share"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// If a machine dies at any step of a run, another machine resumes the run once nothing is heard of the first. At most the interrupted call
// is repeated, and there is one commit. Soak tests try every step.
func TestAnotherMachineGoesOn(t *testing.T) {
	t.Parallel()
	const silence = 2 * time.Second
	steps := []int{50, 120}
	if soak.Asked() {
		steps = everyStep(t, silence)
	}
	for _, at := range steps {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			a := net(t, runnertest.Counted(), silence)
			a.Hand(task, runnertest.ProvenPRD)
			cmd, said := a.begin(silence, at)
			if cmd.Wait(); !killed(cmd) && (!soak.Asked() || strings.Count(a.Read("../steps.log"), "\n") >= at) { // otherwise this run had fewer steps
				t.Fatalf("step %d: it was not killed: %s", at, said)
			}
			b := a.beside("b", silence)
			if res := b.run(); res.Status != trellis.Review {
				t.Fatalf("step %d: got %s, %v", at, res.Status, res.Failure)
			}
			if got := b.Git("rev-list", "--count", "main..feature/bye"); got != "1" {
				t.Errorf("step %d: %s commits", at, got)
			}
			again := 0
			for _, n := range calls(a, b) {
				again += n - 1
			}
			if again > 1 {
				t.Errorf("step %d: calls %v", at, calls(a, b))
			}
			if found := given(b, a.Dir); len(found) > 0 {
				t.Errorf("step %d: given to others with a path of a machine: %v", at, found)
			}
			a.pull()
			if got := a.Task(a.dir()); got.Status != trellis.Review || !strings.HasPrefix(got.WorktreePath, a.Dir) {
				t.Errorf("step %d: the first machine has it as %s in %s", at, got.Status, got.WorktreePath)
			}
		})
	}
}

// everyStep returns the steps, from the third on, of a run that nobody kills.
func everyStep(t *testing.T, silence time.Duration) (steps []int) {
	t.Helper()
	all := net(t, runnertest.Counted(), silence)
	all.Hand(task, runnertest.ProvenPRD)
	cmd, said := all.begin(silence, 0)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for at := 3; at <= strings.Count(all.Read("../steps.log"), "\n"); at++ {
		steps = append(steps, at)
	}
	return steps
}

// A machine that is frozen while an agent works, and resumes after another machine took the task, publishes nothing and ends its run.
func TestFrozenMachine(t *testing.T) {
	t.Parallel()
	const silence = 2 * time.Second
	script := strings.Replace(runnertest.Counted(), "    - run: [\"echo implement >> $TRELLIS_REPO/../calls.log\"", "    - run: [\"echo implement >> $TRELLIS_REPO/../calls.log; touch $TRELLIS_REPO/../at-work; test -e $TRELLIS_REPO/../quick || sleep 3000\"", 1)
	a := net(t, script, silence)
	a.Hand(task, runnertest.ProvenPRD)
	cmd, said := a.begin(silence, 0)
	b := a.beside("b", silence)
	b.Write("../quick", "")
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // a working agent causes no event
		if _, err := os.Stat(a.Dir + "/../at-work"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no agent came to work: %s", said)
		}
	}
	b.pull()
	if by := b.team.Elsewhere(b.dir()); by == nil {
		t.Fatal("nobody has the task")
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if res := b.run(); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	after := b.Git("ls-remote", "origin")
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != 11 {
		t.Errorf("it ended with %v: %s", err, said)
	}
	if now := b.Git("ls-remote", "origin"); now != after {
		t.Errorf("the remote had\n%s\nand has\n%s", after, now)
	}
	a.pull()
	if got := a.Task(a.dir()); got.Status != trellis.Review {
		t.Errorf("the first machine has it as %s", got.Status)
	}
}

var errStopped = errors.New("stopped by hand")

// A task that another machine has is neither started nor changed here.
func TestMirrorIsLeftAlone(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	a.Hand(task, runnertest.ProvenPRD)
	lease, err := a.team.Take(t.Context(), a.dir(), fits)
	if err != nil {
		t.Fatal(err)
	}
	_, end := lease.Hold(t.Context())
	ctx, stop := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errStopped)
	defer stop()
	if err := a.team.Change(ctx, a.dir(), func() error { t.Error("it was changed"); return nil }); !errors.Is(err, errStopped) {
		t.Errorf("change of a person who stops waiting: %v", err)
	}
	b := a.beside("b", silence)
	if got := b.pull(); len(got) != 1 || got[0] != b.dir() {
		t.Errorf("brought %v", got)
	}
	if _, err := b.Site.Starter().Start(t.Context(), b.dir(), runner.RunOptions{}); !errors.Is(err, durable.ErrHeld) || !strings.Contains(err.Error(), " is at work on "+task) {
		t.Errorf("start: %v", err)
	}
	if err := b.team.Change(t.Context(), b.dir(), func() error { t.Error("it was changed"); return nil }); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("change: %v", err)
	}
	if err := end(runner.Result{Status: trellis.Ready}); err != nil {
		t.Fatal(err)
	}
	if res := b.run(); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}

// A copy of a clone has the same ID. It does not take a task that the original works on.
func TestCopyOfAClone(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	a.Hand(task, runnertest.ProvenPRD)
	b := a.beside("b", silence)
	data := a.Read(".git/trellis.id")
	b.Write(".git/trellis.id", data)
	lease, err := a.team.Take(t.Context(), a.dir(), fits)
	if err != nil {
		t.Fatal(err)
	}
	_, end := lease.Hold(t.Context())
	twin := join(b.Site, silence)
	if _, err := twin.Take(t.Context(), b.dir(), fits); !errors.Is(err, durable.ErrHeld) || !strings.Contains(err.Error(), "a copy of this clone") {
		t.Errorf("the copy: %v", err)
	}
	if err := end(runner.Result{Status: trellis.Ready}); err != nil {
		t.Fatal(err)
	}
}

// A task directory that a person removed here does not come back until others change the task.
func TestRemovedHere(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	dir := a.Hand(task, runnertest.ProvenPRD)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", silence)
	b.pull()
	if err := os.RemoveAll(b.dir()); err != nil {
		t.Fatal(err)
	}
	if got := b.pull(); len(got) > 0 {
		t.Errorf("it came back: %v", got)
	}
	a.Write(".trellis/tasks/"+task+"/prd.md", runnertest.ProvenPRD+"\nMore.\n")
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := b.pull(); len(got) != 1 {
		t.Errorf("brought %v", got)
	}
}

// A task that was archived here is not fetched again, even if the clone's folder has a name like a glob.
func TestArchivedHere(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Counted(), time.Minute)
	dir := a.Hand(task, runnertest.ProvenPRD)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b[1]", time.Minute)
	b.pull()
	if _, err := b.Site.Store.Archive(b.dir()); err != nil {
		t.Fatal(err)
	}
	a.Write(".trellis/tasks/"+task+"/prd.md", runnertest.ProvenPRD+"\nMore.\n")
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := b.pull(); len(got) != 0 {
		t.Errorf("brought %v", got)
	}
}

// A task that others withdrew from the remote is no longer known here.
func TestWithdrawnElsewhere(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	dir := a.Hand(task, runnertest.ProvenPRD)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", silence)
	known := func() bool {
		b.pull()
		data, err := os.ReadFile(share.SightingsFile(b.Dir))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(data), task)
	}
	if !known() {
		t.Error("it was not heard of")
	}
	if err := a.team.Withdraw(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if known() {
		t.Error("it is known still")
	}
}

// A person's files in the worktree of a task stay when a person elsewhere only changes the task's record.
func TestOwnWorktreeStays(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	a.Hand(task, runnertest.ProvenPRD)
	if res := a.run(); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	byHand := filepath.Join(a.Task(a.dir()).WorktreePath, "by-hand.txt")
	if err := os.WriteFile(byHand, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", silence)
	b.pull()
	if err := b.team.Change(t.Context(), b.dir(), func() error {
		b.Edit(b.dir(), `"status": "review"`, `"notes": "x", "status": "review"`)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := a.pull(); len(got) != 1 {
		t.Errorf("brought %v", got)
	}
	if _, err := os.Stat(byHand); err != nil {
		t.Error(err)
	}
}

// A task that was withdrawn from the remote stays withdrawn: no clone that knew it publishes it again by itself, whatever is done to it
// there. After trellis submit, it runs as any other task.
func TestWithdrawnStaysOff(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	b := a.beside("b", time.Minute)
	id := "02-01-first"
	dir := a.lay(id)
	b.pull()
	theirs := filepath.Join(b.Site.Store.Tasks(), id)
	if err := a.team.Withdraw(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	refused := (*runner.RefusedError)(nil)
	for m, dir := range map[*machine]string{a: dir, b: theirs} {
		if _, err := m.Site.TaskRunner().Run(t.Context(), dir, runner.RunOptions{}, nil); !errors.As(err, &refused) || refused.Hint != "trellis submit "+id {
			t.Errorf("taken: %v", err)
		}
		if err := m.team.Change(t.Context(), dir, func() error { return os.WriteFile(filepath.Join(dir, "info.md"), nil, 0o644) }); err != nil {
			t.Error(err)
		}
	}
	a.Site.Now = func() time.Time { return time.Now().Add(time.Minute) } // all directories are at rest
	if err := runnertest.Lay(filepath.Join(a.Site.Store.Tasks(), "02-02-after"), "ready"); err != nil {
		t.Fatal(err)
	}
	over, end := follow(a)
	until(t, "what comes after it is offered", func() bool { return a.Git("ls-remote", "origin", "refs/trellis/run/02-02-after") != "" })
	end()
	<-over
	if got := a.Git("ls-remote", "origin", "refs/trellis/*/"+id); got != "" {
		t.Errorf("the remote has %s", got)
	}
	if _, err := b.team.Submit(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	a.pull()
	if res, err := a.Site.TaskRunner().Run(t.Context(), dir, runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
		t.Errorf("got %+v, %v", res, err)
	}
}

// A change to a task that was never published is not published.
func TestOwnTaskStaysOwn(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	dir := a.Hand(task, runnertest.ProvenPRD)
	if err := a.team.Change(t.Context(), dir, func() error { return a.Site.Orders().Cancel(dir) }); err != nil {
		t.Fatal(err)
	}
	if got := a.Git("ls-remote", "origin", "refs/trellis/*"); got != "" {
		t.Errorf("the remote has %s", got)
	}
}

// A machine that did not ask the remote for long does not take the holder of a task for dead until it has asked again.
func TestNotAskedForLong(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	if _, err := a.team.Take(t.Context(), a.lay(task), fits); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", time.Minute)
	now := time.Now()
	b.Site.Now = func() time.Time { return now }
	b.pull()
	known := share.NewSightings(b.Dir, "b", b.Site.Now)
	now = now.Add(time.Hour)
	if b.team.Elsewhere(b.dir()) == nil || known.Elsewhere(b.dir()) == nil {
		t.Error("the machine was taken for dead before it was asked for")
	}
	b.pull()
	if by := b.team.Elsewhere(b.dir()); by != nil || known.Elsewhere(b.dir()) != nil {
		t.Errorf("nothing was heard for an hour: %v", by)
	}
}
