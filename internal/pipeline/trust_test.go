package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

var stranger = &trust.UntrustedError{Verdict: trust.Verdict{Subject: "02-01-a", Foreign: []trust.Foreign{{}}}}

// judged returns the Deps of effects on a task in a temporary folder, and a function that writes a file below .trellis.
func judged(t *testing.T) (d Deps, write func(name, text string)) {
	root := t.TempDir()
	dir := filepath.Join(root, ".trellis", "tasks", "02-01-a")
	d = Deps{Config: new(config.Config), Store: taskdir.Store{Root: root}, Dir: dir, Repo: &git.Repo{Main: root}, Box: &sandbox.Box{Mode: sandbox.Off}}
	write = func(name, text string) {
		path := filepath.Join(root, ".trellis", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("tasks/02-01-a/task.json", `{"status": "in_progress"}`)
	return d, write
}

// Edge S2: a run is suspended only if files are not trusted, not if the check for trust itself fails: nobody could end that wait.
func TestJudgeThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		err    error
		sleeps bool
	}{{stranger, true}, {errors.New("git is not there"), false}} {
		tj := &trustJudge{judgeClaim: func(context.Context, *taskdir.Task, bases.Base, bool) error { return c.err },
			judgeTexts: func(context.Context, map[string][]byte) error { return c.err }}
		for _, err := range []error{tj.checkClaim(t.Context(), nil, bases.Base{}, false), tj.checkTexts(t.Context(), map[string][]byte{"a": nil})} {
			if !errors.Is(err, c.err) || errors.Is(err, flow.ErrSuspended) != c.sleeps {
				t.Errorf("%v became %v", c.err, err)
			}
		}
	}
}

// Edge S2: untrusted files that have changed again at each reading are not read forever, and reading ends with its context.
func TestFilesThatNeverStay(t *testing.T) {
	deps, write := judged(t)
	asked, cancel, cause := 0, context.CancelCauseFunc(nil), errors.New("asked to end")
	deps.TrustedTexts = func(context.Context, map[string][]byte) error {
		asked++
		write("tasks/02-01-a/info.md", string(make([]byte, asked)))
		if cancel != nil {
			cancel(cause)
		}
		return stranger
	}
	taken := New(deps).observer.intake
	if _, _, err := taken.readTrusted(t.Context()); !errors.Is(err, trust.ErrUntrusted) || asked < 2 {
		t.Errorf("after %d times: %v", asked, err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	cancel = stop
	if _, _, err := taken.readTrusted(ctx); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}

// A file that an editor is saving in place is read again before the run fails; the run fails if the file stays invalid.
func TestFileThatIsHalfSaved(t *testing.T) {
	deps, write := judged(t)
	deps.TrustedTexts = func(context.Context, map[string][]byte) error { return nil }
	looks := 0
	judge := func(_ *taskdir.Task, k *inputSnapshot) error {
		if looks++; looks == 3 {
			write("tasks/02-01-a/prd.md", "# A\n")
		}
		if len(k.texts[taskdir.PRD]) == 0 {
			return flow.Fail(string(trellis.InvalidTask), "prd.md: is blank")
		}
		return nil
	}
	write("tasks/02-01-a/prd.md", "")
	taken := New(deps).observer.intake
	if _, err := taken.judgeStable(t.Context(), judge); err != nil || looks != 4 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	write("tasks/02-01-a/prd.md", "")
	if _, err := taken.judgeStable(t.Context(), judge); !isInvalidTask(err) {
		t.Errorf("one that stays blank: %v", err)
	}
}

// Edge S2: a guideline that a person saves again while a prompt is built from it is read again.
func TestGuidelineSavedAroundAPrompt(t *testing.T) {
	deps, write := judged(t)
	write("spec/x.md", "first")
	write("tasks/02-01-a/run/inputs/h/prd.md", "# A\n")
	write("tasks/02-01-a/run/inputs/h/implement.jsonl", `{"file": ".trellis/spec/x.md", "reason": "words"}`+"\n")
	deps.TrustedTexts = func(_ context.Context, texts map[string][]byte) error {
		if string(texts[".trellis/spec/x.md"]) == "first" {
			write("spec/x.md", "second")
			return stranger
		}
		return nil
	}
	var d promptData
	d.Job.Repo, d.Job.Worktree, d.Content.Hash = deps.Store.Root, deps.Store.Root, "h"
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	slots, _, err := New(deps).Prompts.phaseSlots(t.Context(), agentcall.Request{Role: trellis.Implement, Data: data})
	if err != nil || !strings.Contains(slots["context"], "second") {
		t.Errorf("the prompt is made of %q, %v", slots, err)
	}
}

// Edge S3: an approval and the result of the checks apply to the same version of the files. Here a person saves prd.md in between.
func TestYesToWhatLiesThereNow(t *testing.T) {
	deps, write := judged(t)
	write("tasks/02-01-a/task.json", `{"status": "in_progress", "pipeline": {"approval": {"required": true}}}`)
	write("spec/x.md", "words")
	for _, name := range []string{"implement", "check"} {
		write("tasks/02-01-a/"+name+".jsonl", `{"file": ".trellis/spec/x.md", "reason": "words"}`+"\n")
	}
	prd := func(text string) {
		write("tasks/02-01-a/prd.md", "# A\n\n"+text+"\n\n## Acceptance Criteria\n\n- [ ] it is\n")
	}
	prd("agreed")
	task, err := deps.Store.Load(deps.Dir)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := taskdir.PlanHash(deps.Dir, task)
	if err != nil {
		t.Fatal(err)
	}
	if err := proof.Append(nil, deps.Dir, proof.Approval{Decision: proof.Approve, By: "ann", Hash: hash, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	prd("never agreed to")
	saved := 0
	deps.Now = func() time.Time { // called when the approval is read, after the files were
		saved++
		prd("agreed")
		return time.Now()
	}
	c, err := New(deps).observer.observe(t.Context(), flow.Call{}, observeIn{Job: Job{Worktree: t.TempDir()}})
	if err != nil || saved == 0 || !c.Approved {
		t.Fatalf("got %+v, %v", c, err)
	}
	if text, err := taskdir.ReadFile(filepath.Join(deps.Dir, "run", "inputs", c.Hash), taskdir.PRD); err != nil || !strings.Contains(string(text), "\nagreed") {
		t.Errorf("the yes counts for %q, %v", text, err)
	}
}
