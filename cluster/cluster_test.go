package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	task    = "02-01-bye"
	silence = 6 * time.Second
)

// A task that is submitted on one machine is run by another, and comes back as a branch. A task that nobody can fetch blocks none.
func TestSubmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, silence)
	a, b := w.machine("a"), w.machine("b")
	empty := a.git("hash-object", "-w", "-t", "tree", "/dev/null")
	a.git("push", "-q", "origin", a.git("commit-tree", "-m", "trellis: no task", "-m", "Status: ready", empty)+":refs/trellis/run/01-01-empty")
	b.serve()
	a.lay(task)
	began := time.Now()
	var given struct {
		Task  string
		Waits []string
	}
	if a.document(&given, "submit", task); given.Task != task || given.Waits == nil {
		t.Errorf("got %+v", given)
	}
	a.reaches(task, "review")
	t.Logf("%v, %d events", time.Since(began).Round(time.Millisecond), w.srv.events(task))
	if got := a.commits(task); got != "1" {
		t.Errorf("%s commits", got)
	}
	if got := w.srv.events(task); got > 11 {
		t.Errorf("%d events", got)
	}
}

// held returns a world with a machine that is at work on the task, which it does not finish before the file go exists.
func held(t *testing.T) (w *world, a *machine, s *serving) {
	t.Helper()
	w = newWorld(t, silence)
	w.write("hold", "")
	a = w.machine("a")
	s = w.machine("b").serve()
	a.lay(task)
	a.must("submit", task)
	until(t, "an agent at work", func() bool { return w.has("at-work-" + task) })
	return w, a, s
}

// When a machine dies, another one elsewhere continues. No call that has ended is made again, and there is one commit.
func TestMachineDies(t *testing.T) {
	t.Parallel()
	w, a, s := held(t)
	w.machine("c").serve()
	s.kill()
	died := time.Now()
	until(t, "another agent at work", func() bool { return w.calls("begun", "implement", task) == 2 })
	t.Logf("taken over after %v, with a silence of %v", time.Since(died).Round(time.Millisecond), silence)
	w.write("go", "")
	a.reaches(task, "review")
	for _, role := range []string{"implement", "check", "accept"} {
		if got := w.calls("ended", role, task); got > 1 {
			t.Errorf("%s ended %d times", role, got)
		}
	}
	if got := a.commits(task); got != "1" {
		t.Errorf("%s commits", got)
	}
}

// A machine that is frozen, and thaws after another one has done the task, pushes nothing.
func TestMachineFreezes(t *testing.T) {
	t.Parallel()
	w, a, s := held(t)
	s.signal(syscall.SIGSTOP)
	w.machine("c").serve()
	until(t, "another agent at work", func() bool { return w.calls("begun", "implement", task) == 2 })
	w.write("go", "")
	a.reaches(task, "review")
	refs := a.git("ls-remote", "origin")
	s.signal(syscall.SIGCONT)
	until(t, "it notices", func() bool {
		return strings.Contains(s.said.String(), "were told nothing of "+task) || strings.Contains(s.said.String(), "is at work on "+task)
	})
	if now := a.git("ls-remote", "origin"); now != refs {
		t.Errorf("the remote had\n%s\nand has\n%s", refs, now)
	}
	if got := a.status(task); got != "review" {
		t.Errorf("it is %s", got)
	}
}

// When two people submit a task, the second is told who has it, and nothing changes.
func TestSubmittedTwice(t *testing.T) {
	t.Parallel()
	w, a, _ := held(t)
	code, said := a.says("submit", task)
	if host, _ := os.Hostname(); code != 11 || !strings.Contains(said, host+" is at work on "+task) {
		t.Errorf("exit %d: %s", code, said)
	}
	w.write("go", "")
	a.reaches(task, "review")
}

// An order goes to the machine that is at work, and the task is paused until a person resumes it.
func TestStopped(t *testing.T) {
	t.Parallel()
	w, a, _ := held(t)
	a.says("pull")
	var stopped struct{ Task, Says string }
	if a.document(&stopped, "stop", task); stopped.Task != task || stopped.Says == "" {
		t.Errorf("got %+v", stopped)
	}
	a.reaches(task, "paused")
	w.write("go", "")
	until(t, "it rests", func() bool { return !strings.Contains(a.must("status"), "runs it") })
	a.must("start", task)
	a.reaches(task, "review")
	if got := a.commits(task); got != "1" {
		t.Errorf("%s commits", got)
	}
}

// A task that changes the same files as one in progress on another machine waits for that one, and says so; then it is done.
func TestSameFiles(t *testing.T) {
	t.Parallel()
	const second = "02-01-later"
	w := newWorld(t, silence)
	w.write("hold", "")
	a := w.machine("a")
	w.machine("b").serve("--parallel", "1")
	w.machine("c").serve("--parallel", "1")
	for _, id := range []string{task, second} {
		a.lay(id)
		a.write(filepath.Join(".trellis", "tasks", id, "task.json"), `{"status": "ready", "pipeline": {"touches": ["work.txt"]}}`)
		a.must("submit", id)
		until(t, "an agent at work", func() bool { return w.has("at-work-" + task) })
	}
	until(t, "it says what the second waits for", func() bool {
		return strings.Contains(a.must("status"), second+" waits for "+task+", which changes the same files (work.txt)")
	})
	if got := w.calls("begun", "implement", second); got != 0 {
		t.Errorf("its agent was asked %d times", got)
	}
	w.write("go", "")
	a.reaches(task, "review")
	a.reaches(second, "review")
}

// The machine that had a task last continues it although another one is idle; when that machine is gone, the other one does.
func TestLastMachineGoesOn(t *testing.T) {
	t.Parallel()
	w, a, b := held(t)
	w.machine("c").serve()
	a.says("pull")
	for i := range 4 {
		a.must("stop", task)
		a.reaches(task, "paused")
		until(t, "it rests", func() bool { return !strings.Contains(a.must("status"), "runs it") })
		if i == 3 {
			b.kill()
		}
		a.must("start", task)
		until(t, "an agent at work", func() bool { return w.calls("begun", "implement", task) == i+2 })
		if other := w.has("c/in/repo-worktrees"); other != (i == 3) {
			t.Fatalf("start %d: the other machine has it: %v", i, other)
		}
	}
	w.write("go", "")
	a.reaches(task, "review")
}

// A machine takes no task if it lacks a program that a check of the project begins with.
func TestMachineWithoutAProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, silence)
	a := w.machine("a")
	a.write(".trellis/config.yaml", strings.Replace(a.read(".trellis/config.yaml"), `verify: ["true"]`, `verify: ["nosuchprogram --all", "true"]`, 1))
	if code, said := a.says("serve"); code == 0 || !strings.Contains(said, "tasks are left to other machines: the checks run nosuchprogram, which is not installed here") || !strings.Contains(said, "next: install nosuchprogram") {
		t.Errorf("exit %d: %s", code, said)
	}
}

// An order to a machine that died is carried out once, by the next machine.
func TestOrderToTheDead(t *testing.T) {
	t.Parallel()
	w, a, s := held(t)
	a.says("pull")
	s.kill()
	a.must("cancel", task)
	w.machine("c").serve()
	a.reaches(task, "cancelled")
	if got := w.calls("begun", "implement", task); got != 1 {
		t.Errorf("implement was begun %d times", got)
	}
	if refs := a.git("ls-remote", "origin", "refs/trellis/order/*"); refs != "" {
		t.Errorf("still to be done: %s", refs)
	}
}

// A task whose plan people have to approve is given to no machine before they have.
func TestApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, silence)
	a := w.machine("a")
	w.machine("b").serve()
	a.lay(task)
	a.write(filepath.Join(".trellis/tasks", task, "task.json"), `{"status": "waiting", "pipeline": {"approval": {"required": true}}}`)
	a.must("submit", task)
	until(t, "it waits", func() bool { return strings.Contains(a.must("status"), "it waits for approval; handed out ") })
	a.must("approve", task, "--by", "ann")
	a.reaches(task, "review")
}

// A server that is killed and started again loses nothing.
func TestServerDies(t *testing.T) {
	t.Parallel()
	w, a, _ := held(t)
	w.srv.kill()
	if got := a.status(task); got != "in_progress" {
		t.Errorf("it is %s", got)
	}
	w.srv.start()
	w.write("go", "")
	a.reaches(task, "review")
	if got := a.commits(task); got != "1" {
		t.Errorf("%s commits", got)
	}
}

// A task that names an agent which no machine has is reported as such.
func TestNobodyCan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, silence)
	a := w.machine("a")
	a.write(".trellis/config.yaml", strings.Replace(a.read(".trellis/config.yaml"), "commands: {", "commands: {other: {command: [sh, -c, exit]}, ", 1))
	w.machine("b").serve()
	a.lay(task)
	a.write(filepath.Join(".trellis/tasks", task, "task.json"), `{"status": "ready", "pipeline": {"agent": "other"}}`)
	a.must("submit", task)
	until(t, "it says so", func() bool {
		return strings.Contains(a.must("status"), "no machine can run it: none waits for acme/other")
	})
}

func (m *machine) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// plans submits a requirement to be planned, and returns the id of the task that it becomes.
func (m *machine) plans(name, requirement string) string {
	m.t.Helper()
	said := m.must("submit", "--plan", "--name", name, "--type", "backend", "--requirement", requirement)
	_, said, _ = strings.Cut(said, "trellis: ")
	id, _, _ := strings.Cut(said, " ")
	return id
}

// A requirement that is submitted is planned by some machine, and run when it is ready; a rejected one comes back with the reason.
// When a machine dies while it plans, another one continues.
func TestPlanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, silence)
	a, b := w.machine("a"), w.machine("b")
	s := b.serve()
	w.write("hold", "")
	id := a.plans("bye", "greet.sh --bye says Bye")
	until(t, "an agent plans", func() bool { return w.has("at-work-plan") })
	if code, said := a.says("submit", "--plan", "--name", "bye", "--requirement", "the same"); code != 11 || !strings.Contains(said, id+" is being planned already") {
		t.Errorf("exit %d: %s", code, said)
	}
	if said := a.must("status"); !strings.Contains(said, "plan/"+id) {
		t.Errorf("status says\n%s", said)
	}
	s.kill()
	w.write("go", "")
	w.machine("c").serve()
	a.reaches(id, "review")
	if text := a.read(filepath.Join(".trellis/tasks", id, "requirement.md")); !strings.Contains(text, "greet.sh --bye says Bye") {
		t.Errorf("the requirement is %q", text)
	}
	if got := a.git("rev-list", "--count", "origin/main..feature/bye"); got != "1" {
		t.Errorf("%s commits", got)
	}

	d := w.machine("d") // which has fetched nothing yet
	if code, said := d.says("submit", "--plan", "--name", "bye", "--type", "backend", "--requirement", "greet.sh --bye says Adieu"); code != 2 || !strings.Contains(said, "there is a task "+id+" already") {
		t.Errorf("exit %d: %s", code, said)
	}

	w.write("unwanted", "")
	no := a.plans("better", "make it better")
	a.reaches(no, "rejected")
	if text := a.read(filepath.Join(".trellis/tasks", no, "REJECTED.md")); !strings.Contains(text, "better names no outcome") {
		t.Errorf("REJECTED.md is %q", text)
	}
	for what, args := range map[string][]string{"says how the task is called": {"submit", "--plan", "--requirement", "x"}, "says what is wanted": {"submit", "--plan", "--name", "x"}, "takes no task": {"submit", "--plan", id}} {
		if code, said := a.says(args...); code != 2 || !strings.Contains(said, what) {
			t.Errorf("%q: exit %d: %s", args, code, said)
		}
	}
}

// A machine that does not trust its checkout leaves a task to others, and the server says why.
func TestUntrustingMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, silence)
	a, b := w.machine("a"), w.machine("b")
	a.git("checkout", "-q", "-b", "unmerged")
	a.git("commit", "-q", "--allow-empty", "-m", "of somebody else")
	b.git("fetch", "-q", a.dir, "unmerged")
	b.git("reset", "-q", "--hard", "FETCH_HEAD")
	a.git("checkout", "-q", "main")
	b.more = []string{"TRELLIS_TRUST="}
	b.serve()
	a.lay(task)
	a.must("submit", task)
	until(t, "it is said why it does not run", func() bool { return strings.Contains(a.must("status"), "the last time: ") })
	if said := a.must("status"); !strings.Contains(said, "next, there: trellis trust") {
		t.Errorf("status says\n%s", said)
	}
}
