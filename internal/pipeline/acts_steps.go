package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// effects are the effects of the plan's steps.
func (sr *stepRunner) effects() *workflow.Acts {
	return &workflow.Acts{RunDir: sr.task.runDir, Bundle: sr.inputs.Bundle, Env: sr.environ, Box: sr.box, Marker: sr.marker, Repo: sr.repo,
		Except: Outside(Job{Setup: Setup{Copy: sr.config.Worktree.Copy}}), Prover: sr.sealer, Disk: sr.task.disk, Redact: sr.task.redact, Event: sr.step, Now: sr.now,
		Decide: func(q workflow.Request) (workflow.Answer, error) {
			return workflow.Decision(sr.task.disk, sr.task.dir, q, sr.counts, sr.now())
		}}
}

// freezePlan freezes the plan that was taken with the files that it calls, and returns the hash of all that.
func (is *inputs) freezePlan(k *taken) (*plan.Plan, string, error) {
	b := k.plan
	if b == nil {
		return nil, "", k.wrong
	}
	text := k.texts[taskdir.Plan]
	dir := is.folder(b.Hash)
	if _, err := os.Stat(filepath.Join(dir, taskdir.Plan)); err == nil { // the last that is written
		return main(b), b.Hash, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("freezing the plan: %w", err)
	}
	if err := b.Save(dir, is.task.disk); err != nil {
		return nil, "", err
	}
	return main(b), b.Hash, is.task.disk.WriteFile(filepath.Join(dir, taskdir.Plan), text, 0o600)
}

// Bundle is the plan of a hash.
func (is *inputs) Bundle(hash string) (*plan.Bundle, error) {
	is.mu.Lock()
	defer is.mu.Unlock()
	if b := is.bundles[hash]; b != nil {
		return b, nil
	}
	b, err := plan.OpenBundle(is.folder(hash), hash)
	if err != nil {
		return nil, err
	}
	if is.bundles == nil {
		is.bundles = map[string]*plan.Bundle{}
	}
	is.bundles[hash] = b
	return b, nil
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

// Prove keeps the proof of a step.
func (k *sealer) Prove(ctx context.Context, key string, e workflow.Evidence) (string, error) {
	run, activity := splitKey(key)
	proof := e.Proof(filepath.Base(k.task.dir), run, activity)
	var err error
	if proof.PlanHash, err = k.inputs.planHash(e.Bundle.Hash); err != nil {
		return "", err
	}
	if proof.By, err = workflow.ApprovedBy(k.task.dir, e, k.counts); err != nil {
		return "", err
	}
	if proof.Commit, err = k.repo.Head(ctx, e.Dir); err != nil {
		return "", err
	}
	if proof.Tree, err = k.repo.TreeOf(ctx, e.Dir, Outside(Job{Setup: Setup{Copy: k.config.Worktree.Copy}})...); err != nil {
		return "", err
	}
	list, err := k.proofs().Append(proof)
	if err != nil {
		return "", err
	}
	return list[0].Hash, nil
}

// splitKey takes the key of a call apart: <task>/<run number> and the activity's id.
func splitKey(key string) (run, activity string) {
	parts := strings.SplitN(key, "/", 3)
	return strings.Join(parts[:2], "/"), parts[2]
}

func (k *sealer) proofs() *proof.Chain {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.chain == nil {
		k.chain = &proof.Chain{Disk: k.task.disk, Dir: k.task.dir}
	}
	return k.chain
}

// planHash names the plan.json of a content or a bundle, "" when there was none.
func (is *inputs) planHash(content string) (string, error) {
	data, err := taskdir.ReadFile(is.folder(content), taskdir.Plan)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return PlanSum(data), err
}

// PlanSum is how proofs name a plan.json.
func PlanSum(data []byte) string { return "sha256:" + agentcall.Sum(data) }

// withPlan are the commands that decide with those at the end of a plan that are not among them.
func withPlan(commands []string, p *plan.Plan) []string {
	if p == nil {
		return commands
	}
	all := slices.Clone(commands)
	for _, line := range p.Verification() {
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// seal ends the chain of proofs of a task that has a plan: with a record for each of the plan's checks, and one of
// the committed tree. It returns the head, "" when there was nothing to prove.
func (k *sealer) seal(ctx context.Context, c flow.Call, in sealIn) (string, error) {
	p, err := k.inputs.frozenPlan(in.Content)
	if err != nil || p == nil {
		return "", err
	}
	run, activity := splitKey(c.Key())
	hash, err := k.inputs.planHash(in.Content)
	if err != nil {
		return "", err
	}
	tree, err := k.repo.TreeOf(ctx, in.Job.Worktree, Outside(in.Job)...)
	if err != nil {
		return "", err
	}
	now := k.now()
	base := proof.Proof{Task: in.Task, Run: run, PlanHash: hash, Commit: in.Commit, Tree: tree, Began: now, Ended: now}
	last := base
	last.Activity, last.Kind = activity, proof.Final
	var list []proof.Proof
	for _, v := range p.Verifications() {
		i := slices.IndexFunc(in.Results, func(r Check) bool { return r.Command == v.Command })
		if i < 0 || in.Results[i].Code != 0 {
			continue
		}
		one := base
		path := workflow.Chained(v.Path)
		one.Activity, one.Step, one.StepHash, one.Kind = activity+"/"+path, path, p.StepHash(v.Step), v.Step.ProofKind()
		one.Command, one.Exit, one.Stdout = in.Results[i].Command, in.Results[i].Code, workflow.Digest(in.Results[i].Output)
		list = append(list, one)
	}
	for _, r := range in.Results {
		if r.Code != 0 && r.Known {
			continue // forgiven: it proves nothing
		}
		last.Checks = append(last.Checks, proof.Check{Command: r.Command, Exit: r.Code, Kind: "script", Stdout: workflow.Digest(r.Output)})
	}
	written, err := k.proofs().Append(append(list, last)...)
	if err != nil {
		return "", err
	}
	return written[len(written)-1].Hash, nil
}
