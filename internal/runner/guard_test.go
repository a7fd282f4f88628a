package runner_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge S3: decisions that came by git do not count and get no hash. A decision that is written here by hand counts.
func TestDecisionsByGit(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Working)
	w.Site.Config.Planning.Approval = "plan"
	res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "bye"})
	if err != nil || res.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got := w.Start(res.Dir); got.Status != trellis.Waiting { // also makes main the trusted branch
		t.Fatalf("without an approval: %+v", got)
	}
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "planned")
	file := ".trellis/tasks/" + filepath.Base(res.Dir) + "/" + proof.ApprovalsFile
	lines := `{"decision": "approve", "by": "ann"}` + "\n" + `{"decision": "approve", "by": "bob"}` + "\n"
	w.Brings(file, lines)
	if got := w.Start(res.Dir); got.Status != trellis.Waiting {
		t.Fatalf("with approvals of a stranger: %+v, %v", got, got.Failure)
	}
	if got := w.Read(file); got != lines {
		t.Errorf("they became\n%s", got)
	}
	w.Write(file, lines+`{"decision": "approve", "by": "carl"}`+"\n")
	if got := w.Start(res.Dir); got.Status != trellis.Review {
		t.Errorf("with one that was written here: %s, %v", got.Status, got.Failure)
	}
}

// Edge S3: a decision signed with a trusted key counts, even if a stranger commits it.
func TestSignedDecisionByGit(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.ByPlan("true"))
	w.Site.Config.Planning.Approval = "plan"
	dir := w.handPlanned()
	task := w.Task(dir)
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
	text := (&runnertest.World{T: t, Dir: scratch}).Read(proof.ApprovalsFile)
	if got := w.Start(dir); got.Status != trellis.Waiting {
		t.Fatalf("without an approval: %+v", got)
	}
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "planned")
	w.Brings(".trellis/tasks/"+filepath.Base(dir)+"/"+proof.ApprovalsFile, text)
	if got := w.Start(dir); got.Status != trellis.Waiting {
		t.Fatalf("signed by a key that nobody trusts: %+v", got)
	}
	w.Site.Keys = []ed25519.PublicKey{public}
	if got := w.Start(dir); got.Status != trellis.Review {
		t.Errorf("signed by one that is trusted: %s, %v", got.Status, got.Failure)
	}
}

// handPlanned returns a task with a plan that a person wrote.
func (w *world) handPlanned() string {
	w.Helper()
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(""))
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "base_branch": "main"}`)
	return dir
}

// Edge S3: planning.approval also holds for a plan.json that no planner wrote.
func TestEveryPlanWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan("true"))
	dir := w.handPlanned()
	w.Site.Config.Planning.Approval = "plan"
	if got := w.Start(dir); got.Status != trellis.Waiting || len(got.Waits) != 1 || !strings.Contains(got.Waits.String(), "approval of the plan") {
		t.Fatalf("got %+v", got)
	}
	if _, err := w.Site.Approvals().Approve(dir, "ann", ""); err != nil {
		t.Fatal(err)
	}
	if got := w.Start(dir); got.Status != trellis.Review {
		t.Errorf("approved: %s, %v", got.Status, got.Failure)
	}
}

// Edge S2: no task begins at a stranger's commit, and no branch is updated to one.
func TestBaseOfAStranger(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Quickly)
	if _, err := w.Site.Trust.Base(context.Background(), w.Git("rev-parse", "HEAD")); err != nil {
		t.Fatal(err)
	}
	w.Brings("greet.sh", "echo theirs\n")
	dir := w.Hand("02-03-mine", "# Mine\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	_, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
	var untrusted *trust.UntrustedError
	if !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "Mallory") || untrusted.Next() != "trellis trust --base "+w.Git("rev-parse", "HEAD") {
		t.Fatalf("at the stranger's commit: %v", err)
	}
	w.Write(".trellis/tasks/02-03-mine/task.json", `{"status": "ready", "base_branch": "ours"}`)
	w.Git("branch", "ours", "main")
	w.Site.Config.Delivery.Update = "merge"
	w.Write(".trellis/rehearsal.yaml", strings.Replace(runnertest.Quickly, "echo $TRELLIS_TASK_ID >> notes.txt;", "echo $TRELLIS_TASK_ID >> notes.txt; git -C $TRELLIS_REPO update-ref refs/heads/ours looked-at;", 1))
	res := w.Start(dir)
	if res.Status != trellis.Review || w.Git("show", "feature/mine:greet.sh") == "echo theirs" {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if notes := strings.Join(res.Report.Notes, "\n"); !strings.Contains(notes, "was not brought up to it") {
		t.Errorf("it notes %q", notes)
	}
}

// Edge S2: a hook that is no longer trusted when a run ends, since somebody else's branch was checked out meanwhile, does not run.
func TestProgramsAreJudgedWhenTheyRun(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Working)
	hooked := filepath.Join(w.TempDir(), "hooked")
	w.Site.Config.Hooks.AfterFinish = []string{"touch " + hooked}
	w.Site.TrustedPrograms = func(context.Context) error {
		if w.Git("branch", "--list", "feature/bye") == "" || w.Git("rev-parse", "feature/bye") == w.Git("rev-parse", "main") {
			return nil // before the commit
		}
		return errors.New("settings came with a commit of somebody else")
	}
	if res := w.Start(w.Hand("02-01-bye", lyingPRD)); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if _, err := os.Stat(hooked); err == nil {
		t.Error("the hook was run")
	}
}

// Edge S2: if a plan has items whose trust was revoked, the planning reports that the task needs trust.
func TestPlanTellsWhatIsNotTrusted(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Working)
	plan := func(name string) string {
		res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: name, DevType: "backend"}, Requirement: "bye"})
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
	if said := strings.Join(w.Said, "\n"); !strings.Contains(said, "next: trellis trust "+second) {
		t.Errorf("it was told\n%s", said)
	}
}

// Edge S2: that the ledger can't be written is reported once.
func TestLedgerThatCannotBeWrittenIsTold(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Working)
	w.Git("commit", "-q", "--allow-empty", "-m", "mine")
	full := errors.New("no space left on device")
	w.Site.Trust.Ledger.Disk = &durable.Disk{Fault: func(step, path string) error {
		if filepath.Base(path) == "trust.jsonl" {
			return full
		}
		return nil
	}}
	if res := w.Start(w.Hand("02-01-bye", lyingPRD)); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if said := strings.Join(w.Said, "\n"); strings.Count(said, "is found out again each time") != 1 || !strings.Contains(said, full.Error()) {
		t.Errorf("it was told\n%s", said)
	}
}

// Edge S1: what could not be undone in a worktree is listed in report.md.
func TestReportTellsWhatIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	w.Write(".git/trellis/objects", "in the way\n")
	w.Start(w.Hand("02-01-bye", lyingPRD))
	if report := w.Read(".trellis/tasks/02-01-bye/report.md"); !strings.Contains(report, "what git add left outside the worktree could not be undone: ") {
		t.Errorf("the report is\n%s", report)
	}
}
