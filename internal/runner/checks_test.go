package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/sjson"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// counted makes each run of the check log the name of its folder. runs returns these names and clears the log.
func (w *world) counted() (runs func() []string) {
	w.Helper()
	log := filepath.Join(w.TempDir(), "runs")
	w.Site.Config.Verify = []string{fmt.Sprintf("basename $PWD >> '%s'; sh test.sh", log)}
	return func() []string {
		data, err := os.ReadFile(log)
		if err != nil {
			w.Fatal(err)
		}
		if err := os.Remove(log); err != nil {
			w.Fatal(err)
		}
		return strings.Fields(string(data))
	}
}

// A task runs its checks once at the base and once in a fresh checkout of the work, not again for the commit. The result at a base is known
// to later tasks at the same base, and to tasks that begin at a delivered commit.
func TestChecksRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	runs := w.counted()
	for _, c := range []struct{ id, want string }{
		{"03-01-one", "one one~final"},
		{"03-02-two", "two~final"},
		{"03-03-three", "three~final"}, // begins at the delivered commit
		{"03-04-four", "four four~final"},
	} {
		switch c.id {
		case "03-03-three":
			w.Git("merge", "-q", "--ff-only", "feature/two")
		case "03-04-four":
			w.Write("more.txt", "more\n")
			w.Git("add", "more.txt")
			w.Git("commit", "-q", "-m", "more")
		}
		if res := w.Start(w.Hand(c.id, runnertest.PrdText)); res.Status != trellis.Review {
			t.Fatalf("%s: got %s, %v", c.id, res.Status, res.Failure)
		}
		if got := strings.Join(runs(), " "); got != c.want {
			t.Errorf("%s: the check ran in %s, want %s", c.id, got, c.want)
		}
	}
	if report := w.Read(".trellis/tasks/03-02-two/report.md"); !strings.Contains(report, "exit 0 (run for 03-01-one)") || !strings.Contains(report, " s, 1.0 times one run of all of them (") {
		t.Errorf("report.md says\n%s", report)
	}
}

// If two tasks begin at the same base at the same time, the second waits for the first one's check at the base, and says so.
func TestBaselineIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	waits := make(chan *events.Wait, 10)
	w.Site.Event = func(e runner.Event) {
		if e.Told != nil && e.Told.Kind == events.Waiting {
			waits <- e.Told.Wait
		}
	}
	runs := w.counted()
	gate := filepath.Join(t.TempDir(), "gate")
	w.script("../bin/gated", fmt.Sprintf("[ -e '%s' ] || { mkfifo '%[1]s' && read line < '%[1]s'; }; sh test.sh", gate))
	w.Site.Config.Verify[0] = strings.Replace(w.Site.Config.Verify[0], "sh test.sh", filepath.Join(w.Dir, "..", "bin", "gated"), 1)
	var both sync.WaitGroup
	for _, id := range []string{"03-01-one", "03-02-two"} {
		dir := w.Hand(id, runnertest.PrdText)
		both.Go(func() {
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Errorf("%s: got %s, %v", id, res.Status, res.Failure)
			}
		})
	}
	said := <-waits
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	both.Wait()
	if said.For != "checks" || !strings.HasPrefix(said.Why, "the checks at base, which 03-0") {
		t.Errorf("told %+v", said)
	}
	if got := len(runs()); got != 3 { // once at the base, and once for the work of each task
		t.Errorf("the check ran %d times", got)
	}
}

// The check at the base runs beside the first agent if the project wants that, or if the check took long at another base: it ends only
// after the agent has made a file.
func TestBaselineBesideTheFirstAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(runnertest.Quickly, "run: [", "run: [\"touch $TRELLIS_REPO/../gate-$TRELLIS_TASK_ID\", ", 1))
	w.Site.Config.VerifyTimeout = runnertest.Hang
	run := func(id, more string) {
		t.Helper()
		w.Site.Config.Verify = []string{fmt.Sprintf("until test -e %s; do sleep 0.02; done; sh test.sh%s", filepath.Join(w.Dir, "..", "gate-"+id), more)}
		if res := w.Start(w.Hand(id, runnertest.PrdText)); res.Status != trellis.Review {
			t.Fatalf("%s: got %s, %v", id, res.Status, res.Failure)
		}
		if report := w.Read(".trellis/tasks/" + id + "/report.md"); strings.Contains(report, "orgiven") {
			t.Errorf("%s: report.md says\n%s", id, report)
		}
	}
	w.Site.Config.Baseline = "parallel"
	run("03-01-one", "")
	w.Site.Config.Baseline = "true"
	w.Git("commit", "-q", "--allow-empty", "-m", "another base")
	w.slowPasses(fmt.Sprintf("until test -e %s; do sleep 0.02; done; sh test.sh", filepath.Join(w.Dir, "..", "gate-03-02-two")))
	w.Write("more.txt", "more\n")
	w.Git("add", "more.txt")
	w.Git("commit", "-q", "-m", "more")
	run("03-02-two", "")
}

// slowPasses changes the stored passes: each took a minute, with this command.
func (w *world) slowPasses(command string) {
	w.Helper()
	list, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/.runtime/baseline/*.json"))
	if err != nil || len(list) == 0 {
		w.Fatal("nothing passed", err)
	}
	for _, path := range list {
		data, err := os.ReadFile(path)
		if err == nil {
			data, err = sjson.SetBytes(data, "seconds", 60)
		}
		if err == nil {
			data, err = sjson.SetBytes(data, "command", command)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// A command that fails at the base only while the agent works is repeated alone, and is then not forgiven.
func TestBaselineThatFailsBesideTheAgent(t *testing.T) {
	t.Parallel()
	agent := "cd $TRELLIS_REPO/..; touch busy; until test -e seen; do sleep 0.02; done; rm busy"
	w := newWorld(t, roles(fmt.Sprintf("implement: [{run: [%q, \"echo 'echo nonsense' > greet.sh\"], answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]\n", agent)+runnertest.Met))
	w.Site.Config.Baseline, w.Site.Config.VerifyTimeout, w.Site.Config.Limits.Rounds = "parallel", runnertest.Hang, 1
	around := filepath.Join(w.Dir, "..")
	w.Site.Config.Verify = []string{fmt.Sprintf("cd '%s'; until test -e busy || test -e seen; do sleep 0.02; done; cd - >/dev/null; test -e '%[1]s/seen' || { touch '%[1]s/seen'; exit 1; }; sh test.sh", around), "true"}
	res := w.Start(w.Hand("03-01-one", lyingPRD))
	if res.Failure == nil || res.Failure.Code != string(trellis.VerifyFailed) {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}

// The same holds for a retry of a run that ended before the command was repeated.
func TestBaselineThatFailsBesideAnAgentWhoFails(t *testing.T) {
	t.Parallel()
	agent := "cd $TRELLIS_REPO/..; touch busy; until test -e seen; do sleep 0.02; done; rm busy"
	w := newWorld(t, roles(fmt.Sprintf("implement: [{run: [%q], fail: {code: agent_exit, detail: no luck}}, {run: [\"echo 'echo nonsense' > greet.sh\"], answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]\n", agent)+runnertest.Met))
	w.Site.Config.Baseline, w.Site.Config.VerifyTimeout, w.Site.Config.Limits.Rounds, w.Site.Config.Limits.Attempts = "parallel", runnertest.Hang, 1, 1
	w.Site.Config.Verify = []string{fmt.Sprintf("cd '%s'; until test -e busy || test -e seen; do sleep 0.02; done; cd - >/dev/null; test -e '%[1]s/seen' || { touch '%[1]s/seen'; exit 1; }; sh test.sh", filepath.Join(w.Dir, "..")), "true"}
	dir := w.Hand("03-01-one", lyingPRD)
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.AgentExit) {
		t.Fatalf("the first run: got %s, %v", res.Status, res.Failure)
	}
	if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	res := w.Start(dir)
	if res.Failure == nil || res.Failure.Code != string(trellis.VerifyFailed) {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if report := w.Read(".trellis/tasks/03-01-one/report.md"); strings.Contains(report, "orgiven") {
		t.Errorf("report.md says\n%s", report)
	}
}

// Each task finds out itself what fails at the base. Forged passes in the store do not make failing work pass.
func TestPassesThatAreForged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{run: [\"for f in $TRELLIS_REPO/.trellis/.runtime/baseline/*.json; do sed -i 's/\\\"tree\\\": \\\"[0-9a-f]*\\\"/\\\"tree\\\": \\\"'$(git write-tree)'\\\"/' $f; cp $f $f.json; done\", \"echo 'echo nonsense' > greet.sh\"], answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]\n"+runnertest.Met))
	w.Site.Config.Limits.Rounds = 1
	runs := w.counted()
	if res := w.Start(w.Hand("03-01-one", lyingPRD)); res.Failure == nil || res.Failure.Code != string(trellis.VerifyFailed) {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if got := strings.Join(runs(), " "); got != "one one~final" {
		t.Errorf("the check ran in %s", got)
	}
	w = cheat(t, "echo x > notes.txt")
	runs = w.counted()
	w.Site.Config.Verify[0] = strings.Replace(w.Site.Config.Verify[0], "sh test.sh", "false", 1)
	for _, id := range []string{"03-01-one", "03-02-two"} {
		if res := w.Start(w.Hand(id, runnertest.PrdText)); res.Status != trellis.Review {
			t.Fatalf("%s: got %s, %v", id, res.Status, res.Failure)
		}
		name := strings.TrimPrefix(id, id[:6])
		if got := strings.Join(runs(), " "); got != name+" "+name+"~final" {
			t.Errorf("%s: a check that fails at base ran in %s", id, got)
		}
	}
}

// If the commit differs from what was verified, or a program that decides was replaced meanwhile, the checks run again.
func TestChecksRunAgain(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]string{
		"a hook changes the commit":         "echo more >> more.txt; git add more.txt",
		"a tool is updated in the meantime": "touch -d 2001-01-01 $JUDGE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Quickly)
			runs := w.counted()
			bin, hooks := filepath.Join(w.Dir, "..", "bin"), filepath.Join(w.Dir, "..", "hooks")
			w.script("../bin/judge", "sh test.sh")
			w.script("../hooks/pre-commit", strings.ReplaceAll(hook, "$JUDGE", filepath.Join(bin, "judge")))
			w.Git("config", "core.hooksPath", hooks)
			w.Site.Environ = append(w.Site.Environ, "PATH="+bin+":"+envPath(w.Site.Environ))
			w.Site.Config.Verify[0] = strings.Replace(w.Site.Config.Verify[0], "sh test.sh", "judge", 1)
			if res := w.Start(w.Hand("03-01-one", runnertest.PrdText)); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if got := strings.Join(runs(), " "); got != "one one~final one~final" {
				t.Errorf("the check ran in %s", got)
			}
		})
	}
}

func (w *world) script(name, text string) {
	w.Helper()
	w.Write(name, "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(filepath.Join(w.Dir, name), 0o755); err != nil {
		w.Fatal(err)
	}
}

// After a command failed, commands that are not known to be quick do not run, and the failure names them. With verify_all they run.
func TestWhatRunsAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		w := newWorld(t, runnertest.Quickly)
		log := filepath.Join(w.Dir, "..", "ran.log")
		w.Site.Config.Baseline, w.Site.Config.VerifyAll, w.Site.Config.Limits.Rounds = "false", all, 1
		w.Site.Config.Verify = []string{"echo first >> " + log, "false", "echo last >> " + log}
		res := w.Start(w.Hand("02-01-bye", runnertest.PrdText))
		if res.Failure == nil || res.Failure.Code != string(trellis.VerifyFailed) {
			t.Fatalf("all %v: got %s, %v", all, res.Status, res.Failure)
		}
		want := map[bool]string{false: "first\n", true: "first\nlast\n"}[all]
		if got := w.Read("../ran.log"); got != want {
			t.Errorf("all %v: %q ran, want %q", all, got, want)
		}
		if said := strings.Contains(res.Failure.Detail, "not run after that: echo last"); said == all {
			t.Errorf("all %v: it says %s", all, res.Failure.Detail)
		}
	}
}

// With verify_parallel, commands run at the same time: here each waits for the other.
func TestChecksSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	meets := func(own, other string) string {
		at := filepath.Join(w.Dir, "..")
		return fmt.Sprintf("touch %[1]s/%[2]s; n=0; until test -e %[1]s/%[3]s; do sleep 0.02; n=$((n+1)); test $n -lt 3000 || exit 1; done", at, own, other)
	}
	w.Site.Config.Baseline, w.Site.Config.VerifyParallel = "false", 2
	w.Site.Config.Verify = []string{meets("one", "two"), meets("two", "one")}
	if res := w.Start(w.Hand("02-01-bye", runnertest.PrdText)); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}
