package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// implement is the work of agents before the rounds: an agent gets people's feedback on the work, then the steps of the plan are
// run, or one agent does all the work if there are no steps.
func (r *run) implement(f flow.Flow) error {
	if err := r.addressFeedback(f); err != nil {
		return err
	}
	content, err := r.observe(f, "implement")
	if err != nil || content.Hash == r.in.Implemented {
		return err
	}
	if err := r.enter(f, "implement"); err != nil {
		return err
	}
	if content.Steps && r.in.Code > 1 {
		b, err := r.bundle(content.Bundle)
		if err != nil {
			return flow.AsFailure(err)
		}
		steps := &planSteps{run: r, content: content.Hash, failedTrees: map[string]string{}}
		if err := steps.do(f, b); err != nil {
			return err
		}
	} else {
		reply, err := r.ask(f, trellis.Implement, r.job.Limits.Implement, promptData{Content: content})
		if err != nil {
			return err
		}
		if err := checkNotSilent(f, r.job, reply, ""); err != nil {
			return err
		}
	}
	r.rep.Implemented = content.Hash
	return nil
}

// checkNotSilent returns a failure if an agent said and did nothing. before is the tree that the agent found ("": the base). An
// agent program that does not report its tool calls may say nothing: its changes are checked later.
func checkNotSilent(f flow.Flow, j Job, reply agentcall.Reply, before string) error {
	if reply.Text.Bytes > 0 || reply.ToolCalls != 0 {
		return nil
	}
	now, err := changed.Do(f, checksIn{Job: j})
	if err != nil || before == "" && !now.Unchanged || before != "" && now.Tree != before {
		return err
	}
	return flow.Fail(string(trellis.EmptyOutput), "the agent ended well, but said nothing and called no tool")
}

// planSteps runs the steps of a plan.
type planSteps struct {
	run         *run
	content     string            // hash
	failedTrees map[string]string // the tree on which each step failed last, by path
}

// do runs all steps except those that verify, one at a time. A step that fails goes to the debug agent, which uses up a round, and
// is tried again.
func (ps *planSteps) do(f flow.Flow, b *plan.Bundle) error {
	r := ps.run
	rep, err := workflow.Run(f.In("steps"), b, workflow.Host{Ask: ps.ask, Wait: ps.wait, Mend: ps.mend},
		workflow.Options{Dir: r.job.Worktree, Serial: true, Verified: true, Grouped: r.in.Code > 4, Finished: r.in.Finished})
	r.rep.Steps = rep
	if err != nil {
		return err
	}
	if fail := rep.Failure(); fail != nil {
		return fail
	}
	return nil
}

func (ps *planSteps) wait(f flow.Flow, q workflow.Request) error {
	r := ps.run
	q.Approvers = r.job.Approvers
	if r.in.Retries > 0 { // decisions from before a person asked for another run don't count
		q.Hash += fmt.Sprintf("/%d", r.in.Retries)
	}
	return workflow.AwaitApproval(f, q, func(f flow.Flow) error {
		_, err := writeStatus.Do(f, r.taskState(trellis.Waiting))
		return err
	}, func(f flow.Flow) error { return r.enter(f, "implement") })
}

// stepPromptData is the Data of a step's request: the step, and what the task's own prompts are made of.
type stepPromptData struct {
	workflow.PromptData
	Job     Job     `json:"job"`
	Content Content `json:"content"`
}

func (ps *planSteps) ask(f flow.Flow, q workflow.Question) (agentcall.Reply, error) {
	r := ps.run
	data, err := agentcall.Encode(stepPromptData{q.Data, r.job, Content{Hash: ps.content}})
	if err != nil {
		return agentcall.Reply{}, err
	}
	wall := r.job.Limits.wall(q)
	limits, err := r.left(wall)
	if err != nil {
		return agentcall.Reply{}, err
	}
	who := q.Who(r.job.Choices[q.Role])
	return r.asker(wall).Call(f, agentcall.Request{Role: q.Role, Template: q.Template(), Schema: q.Schema(), Agent: who.Agent, Model: who.Model, Permission: who.Permission,
		Session: q.Session, Dir: r.job.Worktree, Data: data, Limits: limits, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1})
}

func (l Limits) wall(q workflow.Question) time.Duration {
	limit := map[trellis.Role]time.Duration{trellis.Implement: l.Implement, trellis.Heal: l.Debug, trellis.Grade: l.Grade}[q.Role]
	if d := q.Limit(); q.Role == trellis.Implement && d > 0 && (limit == 0 || d < limit) {
		return d
	}
	return limit
}

// mend gives a failed step to the debug agent, unless no round is left for that.
func (ps *planSteps) mend(f flow.Flow, t workflow.Trouble) (bool, error) {
	r := ps.run
	if err := ps.checkProgress(f, t); err != nil {
		return false, err
	}
	if r.stepRounds+1 >= r.job.Limits.Rounds {
		return false, nil
	}
	r.stepRounds++
	last := &trouble{Code: trellis.StepFailed, Detail: shortText(fmt.Sprintf("step %s: %s", t.Path, t.Detail))}
	if t.Ran != nil {
		last.Failed = []CommandResult{{Command: shortText(t.Ran.Command), Code: t.Ran.Code, Tail: shortText(t.Ran.Tail), Output: t.Ran.Stdout},
			{Command: shortText(t.Ran.Command) + " (what it said on stderr)", Code: t.Ran.Code, Output: t.Ran.Stderr}}
	}
	if err := r.debug(f, last); err != nil {
		return false, err
	}
	return true, r.enter(f, "implement")
}

// checkProgress returns a failure if a step fails again on the same tree: neither the debug agent nor the repeated step has
// changed anything.
func (ps *planSteps) checkProgress(f flow.Flow, t workflow.Trouble) error {
	if ps.run.in.Code < 6 {
		return nil
	}
	now, err := changed.Do(f, checksIn{Job: ps.run.job})
	if err != nil {
		return err
	}
	if before, failed := ps.failedTrees[t.Path]; failed && before == now.Tree {
		return flow.Fail(string(trellis.NoProgress), "step %s failed as before, and nothing was changed in between: %s", t.Path, shortText(t.Detail))
	}
	ps.failedTrees[t.Path] = now.Tree
	return nil
}

// stepRunner has the effects of a plan's steps.
type stepRunner struct {
	place
	config  *config.Config
	environ []string
	box     *sandbox.Box
	marker  string
	counts  proof.Filter
	step    func(workflow.Event)
	now     func() time.Time
	inputs  *inputs
	sealer  *sealer
}

func (sr *stepRunner) effects() *workflow.Effects {
	return &workflow.Effects{RunDir: sr.task.runDir, Bundle: sr.inputs.Bundle, Env: sr.environ, Box: sr.box, Marker: sr.marker, Repo: sr.repo,
		Except: NeverCommitted(Job{Setup: Setup{Copy: sr.config.Worktree.Copy}}), Prover: sr.sealer, Disk: sr.task.disk, Redact: sr.task.redact, Event: sr.step, Now: sr.now,
		Decide: func(q workflow.Request) (workflow.Answer, error) {
			return workflow.FindDecision(sr.task.disk, sr.task.dir, q, sr.counts, sr.now())
		}}
}

// stepSlots returns the slots of a step's prompt: the task's documents, the context of implement, and the step.
func (pr *prompts) stepSlots(ctx context.Context, c flow.Call, r agentcall.Request, d promptData) (map[string]string, []string, error) {
	s := pr.steps.effects()
	var own string
	s.Documents = func(ctx context.Context) (string, []string, error) {
		doc, more, err := pr.roleDocuments(ctx, d, trellis.Implement, false)
		own = more
		return doc.artifacts, doc.notes, err
	}
	protected, err := pr.protectedText(d)
	if err != nil {
		return nil, nil, err
	}
	if protected != "" {
		s.Protected = strings.Split(protected, "\n")
	}
	slots, notes, err := s.Slots(ctx, c, r)
	if err == nil && own != "" && r.Role == trellis.Implement {
		slots["context"] = own + slots["context"]
	}
	return slots, notes, err
}
