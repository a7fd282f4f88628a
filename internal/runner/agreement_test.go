package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// locked is a plan that changes protected paths.
var locked = planJSON(`"files": [{"path": "./greet.sh", "change": "edit"}, {"path": "go.sum", "change": "new"}, {"path": "notes.txt", "change": "new"}],`)

// A plan that changes protected paths waits for approval. Then it may change the protected paths that it names, and no others.
func TestPlanThatChangesWhatIsProtected(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		line string // is run by implement
		do   func(w *world, dir string)
		code trellis.Code // "" without wait: delivered
		wait string       // what the run waits for
	}{
		"nobody agreed":    {line: "true", wait: "approval of the plan, which changes what is protected (greet.sh, go.sum); next: trellis approve 02-01-bye"},
		"agreed":           {line: "echo x > go.sum", do: func(w *world, dir string) { w.Approve(dir, "ann") }},
		"edited since":     {line: "true", wait: "go.sum", do: func(w *world, dir string) { w.Approve(dir, "ann"); w.replan(dir, "It waves.", "It waves twice.") }},
		"another path":     {line: "echo x > go.mod", code: trellis.ProtectedPath, do: func(w *world, dir string) { w.Approve(dir, "ann") }},
		"two are to agree": {line: "true", wait: "go.sum", do: func(w *world, dir string) { w.Site.Config.Planning.Approvers = 2; w.Approve(dir, "ann") }},
		"two agreed": {line: "echo x > go.sum", do: func(w *world, dir string) {
			w.Site.Config.Planning.Approvers = 2
			w.Approve(dir, "ann")
			w.Approve(dir, "bob")
		}},
		"no longer so": {line: "true", code: trellis.ProtectedPath, do: func(w *world, dir string) { w.replan(dir, "go.sum", "sum.txt"); w.replan(dir, "./greet.sh", "test.sh") }},
		"what research found": {line: "echo x > notes.txt", wait: "notes.txt", do: func(w *world, dir string) {
			w.Edit(dir, `"status"`, `"pipeline": {"protected": ["notes.txt"]}, "status"`)
		}},
	}, "agreed", "another path", "edited since", "nobody agreed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.ByPlan(c.line))
			w.Site.Config.Protected = append(w.Site.Config.Protected, "go.*", "greet.sh")
			w.Site.Config.Limits.Rounds = 1
			dir := w.handPlan(runnertest.ProvenPRD, locked)
			if c.do != nil {
				c.do(w, dir)
			}
			res := w.Start(dir)
			switch {
			case c.wait != "":
				if res.Status != trellis.Waiting || !strings.Contains(res.Waits.String(), c.wait) || w.Task(dir).Status != trellis.Waiting {
					t.Errorf("got %s, %v, waits for %q", res.Status, res.Failure, res.Waits)
				}
			case c.code != "":
				if res.Failure == nil || res.Failure.Code != string(c.code) {
					t.Errorf("got %s, %v", res.Status, res.Failure)
				}
			case res.Status != trellis.Review:
				t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
			default:
				if got := w.Git("show", "--name-only", "--format=", "feature/bye"); got != "go.sum\ngreet.sh" {
					t.Errorf("the commit holds %q", got)
				}
				w.holds("prompt", w.prompt(dir, "steps/step-say_bye/implement#1"), "These may change, as the plan says: a person approved it.\ngreet.sh\ngo.sum\n")
			}
		})
	}
}

// If an agent edits the plan so that it changes protected paths, the run waits at the next phase. After approval, the run resumes.
func TestPlanIsEditedToChangeWhatIsProtected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan("sed -i s/notes.txt/go.sum/ $TRELLIS_TASK_DIR/plan.json; echo x > go.sum"))
	w.Site.Config.Protected = append(w.Site.Config.Protected, "go.*")
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(`"files": [{"path": "greet.sh", "change": "edit"}, {"path": "notes.txt", "change": "new"}],`))
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.Approve(dir, "ann")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("agreed: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// No command of a plan runs before the plan is approved, neither of a task in planning nor if the plan is edited at the last moment. The
// run then uses the edited plan.
func TestNothingOfAPlanRunsBeforeItIsAgreedTo(t *testing.T) {
	t.Parallel()
	plan := planJSON(`"preconditions": ["the stage is free", {"command": "echo first >> $TRELLIS_ASKED"}],`)
	w := newWorld(t, runnertest.ByPlan("true"))
	w.Site.Environ = append(w.Site.Environ, "TRELLIS_ASKED="+filepath.Join(w.Dir, "..", "asked"))
	dir := w.handPlan(runnertest.ProvenPRD, plan)
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "planning", "base_branch": "main", "pipeline": {"approval": {"required": true, "approvers": 1}}}`)
	if res := w.Start(dir); res.Status != trellis.Waiting || len(res.Waits) != 1 || w.Task(dir).Status != trellis.Waiting {
		t.Fatalf("got %+v", res)
	}
	none(w, dir, "run/journal.jsonl")
	w.Approve(dir, "ann")
	say := w.Site.Event
	w.Site.Event = func(e runner.Event) {
		if strings.Contains(e.Message, "the stage is free") {
			w.replan(dir, "echo first", "echo second")
		}
		say(e)
	}
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("edited: %+v", res)
	}
	w.Site.Event = say
	if _, err := os.Stat(filepath.Join(w.Dir, "..", "asked")); err == nil {
		t.Errorf("a command of the plan was run: %s", w.Read("../asked"))
	}
	w.Approve(dir, "ann")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("agreed: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
	if got := w.Read("../asked"); got != "second\n" {
		t.Errorf("run was %q", got)
	}
}

// After a task is done, its approval is still shown with the names of the approvers, although the approval has expired since.
func TestApprovalOfWhatIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan("true"))
	w.Site.Config.Planning.ApprovalExpires = time.Hour
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(""))
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "planning", "pipeline": {"approval": {"required": true, "approvers": 1}}}`)
	if said, err := w.Site.Approvals().Approved(dir); err != nil || said.State == proof.Approved {
		t.Errorf("before anybody agreed: %+v, %v", said, err)
	}
	w.Approve(dir, "ann")
	if res := w.Start(dir); res.Status != trellis.Review { // records the base
		t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
	w.Site.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if said, err := w.Site.Approvals().Approved(dir); err != nil || said.State != proof.Approved || len(said.By) != 1 || said.By[0] != "ann" {
		t.Errorf("got %+v, %v", said, err)
	}
}

// The commands that decide are those of the plan when the run claimed it. An edit counts for the next run.
func TestVerificationOfAnEditedPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{files: {greet.sh: \"echo Bye\\n\"}, answer: done}]\n"+
		"  check: [{run: [\"sed -i 's/sh test.sh/sh greet.sh/' $TRELLIS_TASK_DIR/plan.json\"], answer: fine}]\n  debug: [{answer: hm}]\n  "+runnertest.Met+"\n")
	w.Site.Config.Verify = nil
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(""))
	w.waits(w.Start(dir), "(plan.json")
	w.Approve(dir, "ann")
	if res := w.Start(dir); res.Failure == nil || !strings.Contains(res.Failure.Detail, "`sh test.sh`") {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.holds("plan.json", w.File(dir, "plan.json"), "!sh test.sh")
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("retried: %s, %v", res.Status, res.Failure)
	}
	w.holds("report.md", w.File(dir, "report.md"), "| `sh greet.sh` | 0 |", "!sh test.sh")
}

// replan replaces a text in plan.json, as a person would.
func (w *world) replan(dir, from, to string) {
	w.Helper()
	text := w.File(dir, "plan.json")
	if !strings.Contains(text, from) {
		w.Fatalf("plan.json does not hold %s", from)
	}
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), []byte(strings.ReplaceAll(text, from, to)), 0o644); err != nil {
		w.Fatal(err)
	}
}
