package dispatch_test

import (
	"context"
	"crypto/ed25519"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/evidence"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
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
	file := ".trellis/tasks/" + filepath.Base(res.Dir) + "/" + evidence.ApprovalsFile
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
	signed, err := evidence.Approval{Decision: evidence.Approve, By: "ann", Hash: hash}.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	if err := evidence.Append(nil, scratch, signed); err != nil {
		t.Fatal(err)
	}
	text := (&world{T: t, Dir: scratch}).read(evidence.ApprovalsFile)
	if got := w.start(dir); got.Status != trellis.Waiting {
		t.Fatalf("without an approval: %+v", got)
	}
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "planned")
	w.brings(".trellis/tasks/"+filepath.Base(dir)+"/"+evidence.ApprovalsFile, text)
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
