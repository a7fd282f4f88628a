package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Variables of a child, which runs one task of a repository and dies at a step of its journal or its proofs.
const (
	childDir  = "TRELLIS_TEST_DIR"
	childTask = "TRELLIS_TEST_TASK"
	childKill = "TRELLIS_TEST_KILL" // the how many-th of these steps; 0: none
	childLog  = "TRELLIS_TEST_LOG"  // steps go here
	childPR   = "TRELLIS_TEST_PR"   // not "": with a pull request
	childOnto = "TRELLIS_TEST_ONTO" // delivery.update, none when it is not set
)

func child(dir string) int {
	site, err := newSite(dir, os.Environ())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	site.Config.Delivery.PR, site.Config.Delivery.Update = os.Getenv(childPR) != "", os.Getenv(childOnto)
	kill, _ := strconv.Atoi(os.Getenv(childKill))
	log, err := os.OpenFile(os.Getenv(childLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var steps atomic.Int64
	site.Disk = &durable.Disk{Fault: func(step, path string) error {
		if name := filepath.Base(path); name != "journal.jsonl" && name != "proofs.jsonl" && os.Getenv(childAny) == "" {
			return nil
		}
		n := steps.Add(1)
		fmt.Fprintln(log, step)
		if n == int64(kill) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}}
	if script := os.Getenv(childScript); script != "" {
		commanded(site, script, "events")
		site.Config.Limits.DayTokens, _ = strconv.ParseInt(os.Getenv(childDay), 10, 64)
	}
	if name := os.Getenv(childRace); name != "" {
		return racer(site, name)
	}
	if os.Getenv(childAny) != "" {
		site.Store.Disk = site.Disk
	}
	if dir := os.Getenv(childAgain); dir != "" {
		return childReplan(site, dir)
	}
	if os.Getenv(childFile) != "" {
		return childRun(site)
	}
	if os.Getenv(childTask) == "" {
		return childPlan(site)
	}
	res, err := site.Start(context.Background(), os.Getenv(childTask), dispatch.RunOptions{})
	if err == nil && res.Status == trellis.Waiting { // a step asks for a person
		_, _, err = site.DecideStep(res.Dir, proof.Approval{Step: "ask", Decision: proof.Approve, By: "ann"})
		if err == nil {
			res, err = site.Start(context.Background(), res.Dir, dispatch.RunOptions{})
		}
	}
	if err != nil || res.Status != trellis.Review {
		fmt.Fprintln(os.Stderr, res.Status, res.Failure, err)
		return 1
	}
	return 0
}

// childPlan plans a task, or goes on with a planning that was cut off.
func childPlan(site *dispatch.Site) int {
	o := dispatch.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "greet.sh --bye says bye"}
	res, err := site.Plan(context.Background(), o)
	var draft *dispatch.DraftError
	if errors.As(err, &draft) {
		res, err = site.Replan(context.Background(), filepath.Join(site.Repo.Main, draft.Dir), dispatch.PlanOptions{})
	}
	if err != nil || res.Status != trellis.Ready {
		fmt.Fprintln(os.Stderr, res.Status, res.Failure, err)
		return 1
	}
	return 0
}

// run runs the task in a process of its own and reports whether it was killed.
func (w *world) child(dir string, kill int) (killed bool, steps int) {
	w.Helper()
	log := filepath.Join(w.Dir, "..", "steps.log")
	os.Remove(log)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), w.env...), childDir+"="+w.Dir, childTask+"="+dir, childKill+"="+strconv.Itoa(kill), childLog+"="+log, "GORACE=atexit_sleep_ms=0",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return true, 0
	}
	if err != nil {
		w.Fatalf("kill %d: %v\n%s", kill, err, out)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		w.Fatal(err)
	}
	return false, bytes.Count(data, []byte("\n"))
}

// counted is the working script whose edit roles leave a mark outside of the repository at each call.
func counted() string {
	script := working
	for _, role := range []string{"implement", "debug"} {
		script = strings.Replace(script, role+":\n    - files:", role+":\n    - run: [\"echo "+role+" >> $TRELLIS_REPO/../calls.log\"]\n      files:", 1)
	}
	return script
}

func (w *world) calls() map[string]int {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, "..", "calls.log"))
	if err != nil {
		w.Fatal(err)
	}
	n := map[string]int{}
	for _, role := range strings.Fields(string(data)) {
		n[role]++
	}
	return n
}

// A run that is killed at any step of its journal and of its proofs, before, between and after the records of each
// activity's begin and end, and started again, ends like one that was not: the same tree, one commit, the same proofs,
// no call and no command of a step twice but the one that was cut off.
func TestKillAtEveryRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, counted())
	dir := w.agreedPlan()
	_, steps := w.child(dir, 0)
	tree, proofs := w.git("rev-parse", "feature/bye^{tree}"), w.proven(dir)
	if steps < 100 || proofs != "ask by manual, count/item-1 by file, count/item-2 by file, say_bye by script, run_tests by test,  by final" {
		t.Fatalf("an undisturbed run has %d steps, and the proofs %s", steps, proofs)
	}
	every := spread(53) // records take two steps or three
	t.Logf("kills at every %d. of %d steps", every, steps)
	for at := 1; at <= steps; at += every {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, counted())
			dir := w.agreedPlan()
			w.child(dir, at)
			w.child(dir, 0)
			if got := w.git("rev-parse", "feature/bye^{tree}"); got != tree {
				t.Errorf("tree %s, want %s", got, tree)
			}
			if got := w.git("rev-list", "--count", "main..feature/bye"); got != "1" {
				t.Errorf("%s commits", got)
			}
			if task := w.task(dir); task.Status != trellis.Review || task.Commit == "" {
				t.Errorf("it is %s", task.Status)
			}
			if got := w.proven(dir); got != proofs {
				t.Errorf("the proofs are %s, want %s", got, proofs)
			}
			again := 0
			for _, n := range w.calls() {
				again += n - 1
			}
			if again > 1 {
				t.Errorf("calls %v", w.calls())
			}
		})
	}
}

// proven are the records of a task's chain, which has to be whole.
func (w *world) proven(dir string) string {
	w.Helper()
	audit, err := w.Site.VerifyTask(context.Background(), dir)
	if err != nil || !audit.OK() || audit.Overall == "" || audit.NotRechecked > 0 {
		w.Errorf("the proofs: %+v, %v", audit, err)
	}
	var list []string
	for _, p := range audit.Records {
		list = append(list, p.Step+" by "+p.Kind)
	}
	return strings.Join(list, ", ")
}

// agreedPlan makes a task whose plan a person let change what is protected, with preconditions. Its steps are a
// script, a wait for a person, a loop, a prompt, and one that verifies.
func (w *world) agreedPlan() string {
	w.Helper()
	dir := w.handPlan(provenPRD, `{"schema_version": 1, "title": "Say bye",
 "preconditions": ["the stage is free", {"command": "echo x > dirt; test -f greet.sh"}], "files": [{"path": "greet.sh", "change": "edit"}],
 "steps": [
  {"id": "note", "type": "script", "command": "echo note >> ../../../calls.log; echo bye > NOTES"},
  {"id": "ask", "type": "approval", "title": "Shall it say bye?"},
  {"id": "count", "type": "script", "repeat": 2, "command": "echo count-{{item}} >> ../../../calls.log; echo {{item}} > COUNT", "proof": {"type": "file", "path": "COUNT"}},
  {"id": "say_bye", "type": "prompt", "prompt": "Teach greet.sh the flag --bye.", "verify": "sh greet.sh --bye"},
  {"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}
`)
	w.write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "pipeline": {"protected": ["*.sh"]}}`)
	w.write(".trellis/tasks/02-01-bye/approvals.jsonl", `{"decision": "approve", "by": "ann"}`+"\n")
	return dir
}

// A planning that is killed at any step of its journal leaves nothing, or a folder that is gone on with, or a
// whole directory; a call that ended is not made again.
func TestKillWhilePlanning(t *testing.T) {
	t.Parallel()
	script := careful("small").with("plan", answer(obj{"title": "no plan"}), answer(steps())).with("judge", verdict(false, "split add_flag"), verdict(true, "")).String()
	w := newWorld(t, script)
	_, steps := w.child("", 0)
	files := func(w *world) string {
		dirs, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*bye*"))
		if err != nil || len(dirs) != 1 {
			w.Fatalf("the tasks are %q, %v", dirs, err)
		}
		all := ""
		for _, name := range []string{"prd.md", "plan.json", "taskspec.json", "implement.jsonl", "check.jsonl", "debug.jsonl", "requirement.md"} {
			all += w.file(dirs[0], name)
		}
		return all
	}
	want, every := files(w), spread(13)
	t.Logf("kills at every %d. of %d steps", every, steps)
	for at := 1; at <= steps; at += every {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, script)
			w.child("", at)
			left, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "[0-9]*"))
			if err != nil || len(left) > 0 {
				t.Errorf("%q was published half-planned, %v", left, err)
			}
			w.child("", 0)
			if got := files(w); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			dirs, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*bye"))
			if err != nil || len(dirs) != 1 {
				t.Fatalf("the tasks are %q, %v", dirs, err)
			}
			for role, n := range map[string]int{"evaluate": 1, "research": 1, "taskspec": 1, "plan": 3, "judge": 2} {
				if got := w.results(dirs[0], role); got != n {
					t.Errorf("%s was answered %d times, want %d", role, got, n)
				}
			}
		})
	}
}

// results counts the entries of a role's calls that came to their end.
func (w *world) results(dir, role string) (n int) {
	w.Helper()
	err := filepath.WalkDir(filepath.Join(dir, taskdir.Run), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Name() == "result.json" && strings.HasPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), role+"#") {
			n++
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return n
}
