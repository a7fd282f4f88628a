package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/evidence"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
)

// FileActs are the effects of a run of a file besides those of its steps.
type FileActs struct {
	Job  func(FileInput) (FileJob, error) // what is to hold for the run
	Head func() (string, error)           // of its chain of proofs
}

// Activities are all of them.
func (a *FileActs) Activities() []flow.Activity {
	return []flow.Activity{
		settle.With(func(_ context.Context, _ flow.Call, in FileInput) (FileJob, error) { return a.Job(in) }),
		proofs.With(func(context.Context, flow.Call, struct{}) (string, error) { return a.Head() }),
	}
}

// FileProver keeps the proofs of a run of a file.
type FileProver struct {
	ID     string // of the run
	Dir    string // where its steps work
	Chain  *evidence.Chain
	Repo   *git.Repo // nil: Dir is in no repository
	Except []string  // what of the checkout is no part of the work
}

// Prove is Prover's.
func (p *FileProver) Prove(ctx context.Context, key string, e Evidence) (string, error) {
	parts := strings.SplitN(key, "/", 3)
	proof := e.Proof(p.ID, parts[0]+"/"+parts[1], parts[2])
	proof.PlanHash = e.Bundle.Hash
	if p.Repo != nil {
		root, err := checkout(p.Dir)
		if err != nil {
			return "", fmt.Errorf("looking for the checkout of %s: %w", p.Dir, err)
		}
		if proof.Commit, err = p.Repo.Head(ctx, root); err != nil {
			return "", err
		}
		if proof.Tree, err = p.Repo.TreeOf(ctx, root, p.Except...); err != nil {
			return "", err
		}
	}
	list, err := p.Chain.Append(proof)
	if err != nil {
		return "", err
	}
	return list[0].Hash, nil
}

// Provable are all steps of a bundle, as proofs are compared with them.
func Provable(b *plan.Bundle) []evidence.Step {
	return provable(b, "", b.Plan("").Steps, "", false)
}

func provable(b *plan.Bundle, file string, steps []plan.Step, path string, loop bool) (list []evidence.Step) {
	p := b.Plan(file)
	for _, s := range steps {
		at, inLoop := strings.TrimPrefix(path+"/"+s.ID, "/"), loop || s.Loop() != ""
		list = append(list, evidence.Step{Path: at, Hash: p.StepHash(s), Check: s.Provable(), Loop: inLoop})
		list = append(list, provable(b, file, s.Steps, at, inLoop)...)
		if s.Kind() != plan.Workflow {
			continue
		}
		called := b.Called(file, s.Workflow)
		if other := b.Plan(called); other != nil {
			list = append(list, provable(b, called, other.Steps, at, inLoop)...)
		}
	}
	return list
}

// Recall takes in which runs and loops were over when this process was not there.
func (a *Acts) Recall(h *journal.History) error {
	for _, e := range h.Calls {
		if e.Activity != string(halt) || !e.Done || e.Fail != nil {
			continue
		}
		var in haltIn
		if err := json.Unmarshal(e.In, &in); err != nil {
			return fmt.Errorf("reading %s: %w", e.ID, err)
		}
		a.over(in.Loop)
	}
	return nil
}
