package pipeline

import (
	"context"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// stepRunner has the effects of a plan's steps.
type stepRunner struct {
	repo    *git.Repo
	config  *config.Config
	environ []string
	box     *sandbox.Box
	marker  string
	counts  proof.Filter
	step    func(workflow.Event)
	now     func() time.Time
	inputs  *inputs
	sealer  *sealer
	task    *taskDir
}

// effects are the effects of the plan's steps.
func (sr *stepRunner) effects() *workflow.Acts {
	return &workflow.Acts{RunDir: sr.task.runDir, Bundle: sr.inputs.Bundle, Env: sr.environ, Box: sr.box, Marker: sr.marker, Repo: sr.repo,
		Except: Outside(Job{Setup: Setup{Copy: sr.config.Worktree.Copy}}), Prover: sr.sealer, Disk: sr.task.disk, Redact: sr.task.redact, Event: sr.step, Now: sr.now,
		Decide: func(q workflow.Request) (workflow.Answer, error) {
			return workflow.Decision(sr.task.disk, sr.task.dir, q, sr.counts, sr.now())
		}}
}

// stepSlots are what the prompt of a step is made of: the task's documents and the context of implement, and the step.
func (pr *prompts) stepSlots(ctx context.Context, c flow.Call, r agentcall.Request, d about) (map[string]string, []string, error) {
	s := pr.steps.effects()
	hint := ""
	s.Documents = func(ctx context.Context) (string, []string, error) {
		doc, own, err := pr.roleDocuments(ctx, d, trellis.Implement, false)
		if err != nil {
			return "", nil, err
		}
		if spec, _ := pr.inputs.taskSpec(d.Content.Hash); spec != nil { // what is wrong with it was told when it was taken in
			hint = meant(spec)
		}
		return strings.TrimRight(doc.artifacts+"\n"+own, "\n"), doc.notes, nil
	}
	protected, err := pr.protectedText(d)
	if err != nil {
		return nil, nil, err
	}
	if protected != "" {
		s.Protected = strings.Split(protected, "\n")
	}
	slots, notes, err := s.Slots(ctx, c, r)
	if err == nil && hint != "" {
		slots["plan"] = hint + "\n" + slots["plan"]
	}
	return slots, notes, err
}
