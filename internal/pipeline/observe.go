package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const observe flow.Act[observeIn, Content] = "observe"

type observeIn struct {
	Job         Job    `json:"job"`
	Phase       string `json:"phase"`
	Asked       bool   `json:"asked,omitempty"` // after waiting for people: task.json, not the claim, says whether approval is required
	SeenContent string `json:"known,omitempty"` // content hash that the run has taken in before; journals have it by this name
}

// Content is what people wrote, frozen: phases read the copy below run/inputs.
type Content struct {
	Hash     string      `json:"hash"`
	Bundle   string      `json:"bundle,omitempty"` // hash of the plan with the files that it calls
	Steps    bool        `json:"steps,omitempty"`  // the plan has steps to run
	Criteria []Criterion `json:"criteria"`
	PlanHash string      `json:"plan_hash,omitempty"`
	Approved bool        `json:"approved"`
	Waived   bool        `json:"waived,omitempty"` // approval is no longer required, as people decided while the run waited for it
	Markers  []string    `json:"markers"`          // words with which the check agent has to end if no command can be run
	Named    []string    `json:"named,omitempty"`  // verify commands that the task itself names: they count even if they failed at base
	Notes    []string    `json:"notes,omitempty"`
}

// observe takes in what people wrote since the last phase. If the plan needs approval, observe returns only once exactly this
// content has been approved.
func (r *run) observe(f flow.Flow, phase string) (Content, error) {
	for asked := false; ; asked = true {
		c, err := observe.Do(f, observeIn{r.job, phase, asked, r.rep.Content})
		if err != nil {
			return c, err
		}
		if c.Hash == r.rep.Content {
			c.Criteria = r.criteria // as they were read when this content was first taken in
		}
		r.criteria = c.Criteria
		r.rep.note(c.Notes)
		r.namedCommands, r.rep.Content = c.Named, c.Hash
		if c.Waived {
			r.job.Approval = 0
		}
		if c.Approved {
			return c, nil
		}
		if err := r.awaitApproval(f); err != nil {
			return c, err
		}
	}
}

// observer is the effect of observe.
type observer struct {
	place
	config     *config.Config
	lookPath   func(program string) error
	neighbours *ready.Neighbours
	approvals  ApprovalJudge
	inputs     *inputs
	intake     *intake
	standards  *standardsWatch
}

// observe takes in what people wrote: it checks the task directory and freezes a copy that phases read.
func (o *observer) observe(ctx context.Context, _ flow.Call, in observeIn) (c Content, err error) {
	var g Agreement
	t, err := o.intake.judgeStable(ctx, func(t *taskdir.Task, k *inputSnapshot) error {
		if errors.Is(k.planErr, flow.ErrSuspended) {
			return k.planErr
		}
		if err := o.validate(ctx, in.SeenContent == k.hash); err != nil {
			return err
		}
		var p *plan.Plan
		if c, p, err = o.contentOf(k, in.Job); err != nil {
			return err
		}
		g, err = o.approvals.judgeRun(t, p, in.Job, !in.Asked)
		return err
	})
	if err != nil {
		return c, err
	}
	c.PlanHash, c.Approved = g.Hash, g.State == proof.Approved
	if c.Approved {
		if err := o.standards.confirm(); err != nil {
			return c, err
		}
	}
	c.Waived = c.Approved && in.Asked && !t.Pipeline.Approval.Required
	return c, o.layOut(o.inputs.folder(c.Hash), in.Job)
}

// contentOf freezes what people wrote, and extracts from it what the code needs.
func (o *observer) contentOf(k *inputSnapshot, j Job) (c Content, p *plan.Plan, err error) {
	c.Hash = k.hash
	if err := o.inputs.freeze(k); err != nil {
		return c, nil, err
	}
	prd, there := k.texts[taskdir.PRD]
	if !there {
		return c, nil, &trellis.Problem{File: o.store.Rel(filepath.Join(o.task.dir, taskdir.PRD)), Message: "there is no " + taskdir.PRD, Hint: "trellis edit " + trellis.ShellWord(filepath.Base(o.task.dir)) + " prd"}
	}
	if p, c.Bundle, err = o.inputs.freezePlan(k); err != nil {
		return c, nil, err
	}
	if _, err := o.inputs.taskSpec(c.Hash); err != nil {
		c.Notes = append(c.Notes, err.Error())
	}
	c.Steps = p != nil && p.VerificationAt() > 0
	var added []string
	c.Criteria, added = criteriaOf(string(prd), p)
	c.Notes = append(c.Notes, added...)
	if raw, err := json.Marshal(c.Criteria); err != nil || len(raw) > criteria.MaxBytes {
		return c, nil, flow.Fail(string(trellis.InvalidTask), "%s: the %d acceptance criteria are %d bytes long, at most %d are taken: shorten them, or split the task",
			o.store.Rel(filepath.Join(o.task.dir, taskdir.PRD)), len(c.Criteria), len(raw), criteria.MaxBytes)
	}
	c.Markers = markers(k.texts[taskdir.CheckContext])
	for _, line := range j.Verify {
		if j.VerifySource == fromTask || strings.Contains(string(prd), line) {
			c.Named = append(c.Named, line)
		}
	}
	return c, p, nil
}

// inputFiles are the files whose content a run takes in, and approvals.jsonl, which approves nothing when it can't be read.
var inputFiles = []string{taskdir.PRD, taskdir.ImplementContext, taskdir.CheckContext, taskdir.DebugContext, taskdir.Plan, taskdir.Info, taskdir.Design, taskdir.Approvals}

// validate returns a failure that says what is wrong with the task directory. With known, the content was valid when the run took
// it in, and problems with it are ignored: files that it names may be missing from a checkout in which a person works, say on
// another branch, and are read in the worktree.
func (o *observer) validate(ctx context.Context, known bool) error {
	problems, err := ready.Check(ctx, ready.Input{Dir: o.task.dir, Store: o.store, Status: trellis.InProgress, Neighbours: o.neighbours,
		MaxSteps: o.config.Planning.MaxSteps, LookPath: o.lookPath})
	if err != nil {
		return suspendIfUnusable(err)
	}
	for _, p := range problems {
		if !p.Warning && !(known && slices.Contains(inputFiles, filepath.Base(p.File))) {
			return flow.Fail(string(trellis.InvalidTask), "%s", p.Error())
		}
	}
	return nil
}

// layOut writes the task's documents into the worktree for agents to read. The task itself stays in the main checkout. An agent
// may have put a link in the way: nothing is written or removed outside of the worktree.
func (o *observer) layOut(dir string, j Job) error {
	if data, err := durable.ReadBelow(j.Worktree, runtimeDir+"/task/.sha256", sha256.BlockSize); err == nil && string(data) == filepath.Base(dir) {
		return nil // this content is there already
	}
	root, err := openWorktree(j.Worktree)
	if err != nil {
		return err
	}
	defer root.Close()
	const to = runtimeDir + "/task"
	if err := root.RemoveAll(to); err != nil {
		return fmt.Errorf("clearing %s: %w", to, err)
	}
	if err := root.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", to, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("laying out the task's documents: %w", err)
	}
	for _, e := range entries {
		data, err := taskdir.ReadFile(dir, e.Name())
		if err == nil {
			err = root.WriteFile(to+"/"+e.Name(), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("laying out %s: %w", e.Name(), err)
		}
	}
	return root.WriteFile(to+"/.sha256", []byte(filepath.Base(dir)), 0o644)
}
