package pipeline

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

const seal flow.Act[sealIn, string] = "seal" // writes the proofs of a delivery; returns the head of their chain

type sealIn struct {
	Task    string          `json:"task"`
	Job     Job             `json:"job"`
	Content string          `json:"content"`
	Commit  string          `json:"commit"`
	Results []CommandResult `json:"results"`
}

// sealer writes the proofs of a task.
type sealer struct {
	place
	config *config.Config
	counts proof.Filter
	now    func() time.Time
	inputs *inputs
	chain  *proof.Chain
}

// seal ends the chain of proofs of a task that has a plan, with a record for each of the plan's checks that passed and one of the
// committed tree. It returns the head of the chain, "" if there was nothing to prove.
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
	tree, err := snapshot.New(k.repo).TreeOf(ctx, in.Job.Worktree, NeverCommitted(in.Job)...)
	if err != nil {
		return "", err
	}
	now := k.now()
	base := proof.Proof{Task: in.Task, Run: run, PlanHash: hash, Commit: in.Commit, Tree: tree, Began: now, Ended: now}
	last := base
	last.Activity, last.Kind = activity, proof.Final
	var list []proof.Proof
	for _, v := range p.Verifications() {
		i := slices.IndexFunc(in.Results, func(r CommandResult) bool { return r.Command == v.Command })
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
		if r.Code != 0 && r.Forgiven {
			continue // a forgiven failure proves nothing
		}
		last.Checks = append(last.Checks, proof.Check{Command: r.Command, Exit: r.Code, Kind: "script", Stdout: workflow.Digest(r.Output)})
	}
	written, err := k.chain.Append(append(list, last)...)
	if err != nil {
		return "", err
	}
	return written[len(written)-1].Hash, nil
}

// Prove writes the proof of a step, and returns its hash.
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
	if proof.Commit, err = k.repo.Refs().Head(ctx, e.Dir); err != nil {
		return "", err
	}
	if proof.Tree, err = snapshot.New(k.repo).TreeOf(ctx, e.Dir, NeverCommitted(Job{Setup: Setup{Copy: k.config.Worktree.Copy}})...); err != nil {
		return "", err
	}
	list, err := k.chain.Append(proof)
	if err != nil {
		return "", err
	}
	return list[0].Hash, nil
}

// splitKey splits the key of a call into <task>/<run number> and the activity's id.
func splitKey(key string) (run, activity string) {
	parts := strings.SplitN(key, "/", 3)
	return strings.Join(parts[:2], "/"), parts[2]
}
