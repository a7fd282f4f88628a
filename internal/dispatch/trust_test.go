package dispatch_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/taskdir"
)

// newTrustWorld is a world in which what comes by git is judged.
func newTrustWorld(t *testing.T, script string) *world {
	w := newWorld(t, script)
	w.Site.Trust = &trust.Judge{Repo: w.Site.Repo, Ledger: &trust.Ledger{Path: filepath.Join(t.TempDir(), "trellis", "trust.jsonl")}}
	w.Site.Account = "1@here"
	return w
}

// brings has a stranger commit a file in a clone of theirs, and this clone take it in.
func (w *world) brings(name, text string) {
	w.Helper()
	theirs := filepath.Join(w.TempDir(), "theirs")
	w.git("clone", "-q", w.Dir, theirs)
	in := func(args ...string) {
		w.Helper()
		cmd := exec.Command("git", append([]string{"-C", theirs, "-c", "user.name=Mallory", "-c", "user.email=m@example.org"}, args...)...)
		cmd.Env = append(cmd.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := &world{T: w.T, Dir: theirs}
	write.write(name, text)
	in("checkout", "-q", "-b", "theirs")
	in("add", "-f", name)
	in("commit", "-q", "-m", "more")
	w.git("fetch", "-q", theirs, "theirs")
	w.git("checkout", "-q", "-b", "looked-at", "FETCH_HEAD")
}

// S3: decisions that came by git count for nothing, and get no hash; one that is written by hand here does, and one that is
// signed with a key that is trusted.
func TestDecisionsByGit(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, working)
	w.Site.Config.Planning.Approval = "plan"
	res, err := w.Site.Plan(context.Background(), dispatch.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "bye"})
	if err != nil || res.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got := w.start(res.Dir); got.Status != trellis.Waiting { // which also makes main the branch that is trusted
		t.Fatalf("without an approval: %+v", got)
	}
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "planned")
	file := ".trellis/tasks/" + filepath.Base(res.Dir) + "/" + proof.ApprovalsFile
	lines := `{"decision": "approve", "by": "ann"}` + "\n" + `{"decision": "approve", "by": "bob"}` + "\n"
	w.brings(file, lines)
	if got := w.start(res.Dir); got.Status != trellis.Waiting {
		t.Fatalf("with approvals of a stranger: %+v, %v", got, got.Failure)
	}
	if got := w.read(file); got != lines {
		t.Errorf("they became\n%s", got)
	}
	w.write(file, lines+`{"decision": "approve", "by": "carl"}`+"\n")
	if got := w.start(res.Dir); got.Status != trellis.Review {
		t.Errorf("with one that was written here: %s, %v", got.Status, got.Failure)
	}
}

// S3: what a key says that is trusted counts, whoever brings it.
func TestSignedDecisionByGit(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, byPlan("true"))
	w.Site.Config.Planning.Approval = "plan"
	dir := w.handPlanned()
	task := w.task(dir)
	hash, err := taskdir.PlanHash(dir, task)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := proof.Approval{Decision: proof.Approve, By: "ann", Hash: hash}.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	if err := proof.Append(nil, scratch, signed); err != nil {
		t.Fatal(err)
	}
	text := (&world{T: t, Dir: scratch}).read(proof.ApprovalsFile)
	if got := w.start(dir); got.Status != trellis.Waiting {
		t.Fatalf("without an approval: %+v", got)
	}
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "planned")
	w.brings(".trellis/tasks/"+filepath.Base(dir)+"/"+proof.ApprovalsFile, text)
	if got := w.start(dir); got.Status != trellis.Waiting {
		t.Fatalf("signed by a key that nobody trusts: %+v", got)
	}
	w.Site.Keys = []ed25519.PublicKey{public}
	if got := w.start(dir); got.Status != trellis.Review {
		t.Errorf("signed by one that is trusted: %s, %v", got.Status, got.Failure)
	}
}

// handPlanned is a task with a plan that a person wrote.
func (w *world) handPlanned() string {
	w.Helper()
	dir := w.handPlan(provenPRD, planJSON(""))
	w.write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "base_branch": "main"}`)
	return dir
}

// S3: planning.approval holds for a plan.json that no planner wrote.
func TestEveryPlanWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byPlan("true"))
	dir := w.handPlanned()
	w.Site.Config.Planning.Approval = "plan"
	if got := w.start(dir); got.Status != trellis.Waiting || len(got.Waits) != 1 || !strings.Contains(got.Waits[0], "approval of the plan") {
		t.Fatalf("got %+v", got)
	}
	if _, err := w.Site.Approve(dir, "ann"); err != nil {
		t.Fatal(err)
	}
	if got := w.start(dir); got.Status != trellis.Review {
		t.Errorf("approved: %s, %v", got.Status, got.Failure)
	}
}

// S2: a watcher leaves the task of a stranger waiting and tells of it once; the others go on; and it begins by itself once
// somebody here agrees to it.
func TestWatcherWaitsForTrust(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, quickly)
	if _, err := w.Site.Trust.Base(context.Background(), w.git("rev-parse", "HEAD")); err != nil { // main is what is trusted
		t.Fatal(err)
	}
	dir := w.hand("02-02-theirs", "# Theirs\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	task := w.read(".trellis/tasks/02-02-theirs/task.json")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	w.brings(".trellis/tasks/02-02-theirs/task.json", strings.Replace(task, "{", `{"base_branch": "main", "title": "Theirs", "pipeline": {"verify": ["sh greet.sh"]}, `, 1))
	w.write(".trellis/tasks/02-02-theirs/prd.md", "# Theirs\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	w.write(".trellis/tasks/02-02-theirs/implement.jsonl", `{"file": "greet.sh", "reason": "the program"}`+"\n")
	w.write(".trellis/tasks/02-02-theirs/check.jsonl", `{"file": "test.sh", "reason": "its test"}`+"\n")
	mine := w.hand("02-03-mine", "# Mine\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	w.write(".trellis/tasks/02-03-mine/task.json", `{"status": "ready", "base_branch": "main", "title": "Mine"}`)
	w.watching(dispatch.WatchOptions{})
	w.until("the other one is done", func() bool { return w.task(mine).Status == trellis.Review })
	if got := w.task(dir).Status; got != trellis.Ready {
		t.Errorf("the stranger's is %s", got)
	}
	if n := w.heard("Mallory"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	of, err := subject.Task(w.Dir, ".trellis/tasks/02-02-theirs")
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.Site.Trust.Subject(context.Background(), of)
	if err != nil || v.Trusted() {
		t.Fatalf("the judge says %+v, %v", v, err)
	}
	if err := w.Site.Trust.Agree(v); err != nil {
		t.Fatal(err)
	}
	w.until("it begins by itself", func() bool { return w.task(dir).Status == trellis.Review })
}

// S2: no task begins at a stranger's commit, and no branch is brought up to one.
func TestBaseOfAStranger(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, quickly)
	if _, err := w.Site.Trust.Base(context.Background(), w.git("rev-parse", "HEAD")); err != nil {
		t.Fatal(err)
	}
	w.brings("greet.sh", "echo theirs\n")
	dir := w.hand("02-03-mine", "# Mine\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	_, err := w.Site.Start(context.Background(), dir, dispatch.RunOptions{})
	var untrusted *trust.UntrustedError
	if !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "Mallory") || untrusted.Next() != "trellis trust --base "+w.git("rev-parse", "HEAD") {
		t.Fatalf("at the stranger's commit: %v", err)
	}
	w.write(".trellis/tasks/02-03-mine/task.json", `{"status": "ready", "base_branch": "ours"}`)
	w.git("branch", "ours", "main")
	w.Site.Config.Delivery.Update = "merge"
	w.write(".trellis/rehearsal.yaml", strings.Replace(quickly, "echo $TRELLIS_TASK_ID >> notes.txt;", "echo $TRELLIS_TASK_ID >> notes.txt; git -C $TRELLIS_REPO update-ref refs/heads/ours looked-at;", 1))
	res := w.start(dir)
	if res.Status != trellis.Review || w.git("show", "feature/mine:greet.sh") == "echo theirs" {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if notes := strings.Join(res.Report.Notes, "\n"); !strings.Contains(notes, "was not brought up to it") {
		t.Errorf("it notes %q", notes)
	}
}

// Edge S2: a hook that is not trusted any more when a run ends, since somebody else's branch was checked out
// meanwhile, is not run.
func TestProgramsAreJudgedWhenTheyRun(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, working)
	hooked := filepath.Join(w.TempDir(), "hooked")
	w.Site.Config.Hooks.AfterFinish = []string{"touch " + hooked}
	w.Site.TrustedPrograms = func(context.Context) error {
		if w.git("branch", "--list", "feature/bye") == "" || w.git("rev-parse", "feature/bye") == w.git("rev-parse", "main") {
			return nil // nothing is committed yet
		}
		return errors.New("settings came with a commit of somebody else")
	}
	if res := w.start(w.hand("02-01-bye", lyingPRD)); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if _, err := os.Stat(hooked); err == nil {
		t.Error("the hook was run")
	}
}

// Edge S2: a plan that says what somebody took back will not run, and whoever planned hears that.
func TestPlanTellsWhatIsNotTrusted(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, working)
	plan := func(name string) string {
		res, err := w.Site.Plan(context.Background(), dispatch.PlanOptions{New: taskdir.New{Name: name, DevType: "backend"}, Requirement: "bye"})
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(res.Dir)
	}
	first := plan("bye")
	if n, err := w.Site.Trust.Revoke(first); err != nil || n == 0 {
		t.Fatalf("revoked %d things, %v", n, err)
	}
	second := plan("bye-again")
	if said := strings.Join(w.said, "\n"); !strings.Contains(said, "next: trellis trust "+second) {
		t.Errorf("it was told\n%s", said)
	}
}

// Edge S2: what could not be remembered is told, once.
func TestLedgerThatCannotBeWrittenIsTold(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, working)
	w.git("commit", "-q", "--allow-empty", "-m", "mine")
	full := errors.New("no space left on device")
	w.Site.Trust.Ledger.Disk = &durable.Disk{Fault: func(step, path string) error {
		if filepath.Base(path) == "trust.jsonl" {
			return full
		}
		return nil
	}}
	if res := w.start(w.hand("02-01-bye", lyingPRD)); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if said := strings.Join(w.said, "\n"); strings.Count(said, "is found out again each time") != 1 || !strings.Contains(said, full.Error()) {
		t.Errorf("it was told\n%s", said)
	}
}

// Edge S1: what could not be taken back of a worktree stands in report.md.
func TestReportTellsWhatIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, working)
	w.write(".git/trellis/objects", "in the way\n")
	w.start(w.hand("02-01-bye", lyingPRD))
	if report := w.read(".trellis/tasks/02-01-bye/report.md"); !strings.Contains(report, "what git add left beside the worktree could not be taken back: ") {
		t.Errorf("the report is\n%s", report)
	}
}
