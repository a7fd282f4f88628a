package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// FileEffects are the effects of a run of a file, besides those of its steps.
type FileEffects struct {
	Job    func(FileInput) (FileJob, error) // returns what holds for the whole run
	Prover *FileProver
}

// Activities returns these effects as activities.
func (a *FileEffects) Activities() []flow.Activity {
	return []flow.Activity{
		settle.With(func(_ context.Context, _ flow.Call, in FileInput) (FileJob, error) { return a.Job(in) }),
		seal.With(func(ctx context.Context, c flow.Call, in sealIn) (string, error) {
			return a.Prover.seal(ctx, c, in.Done)
		}),
	}
}

// Roles returns the roles that steps call.
func Roles() []trellis.Role { return []trellis.Role{trellis.Implement, trellis.Grade, trellis.Heal} }

// PossibleCalls returns the calls that the chosen steps of a bundle may make, one each. If chosen steps don't exist, the error is a
// *flow.Failure.
func PossibleCalls(b *plan.Bundle, o Options) ([]Question, error) {
	c, err := choose(b, o, true)
	if err != nil {
		return nil, err
	}
	w := &callCollector{b: b, c: c}
	w.addSteps(frame{values: values(b.Plan("").Vars, b.Given)}, b.Plan("").Steps, nil, true)
	return w.list, nil
}

type callCollector struct {
	b           *plan.Bundle
	c           choice
	list        []Question
	listedFiles []string // files whose steps were all listed
}

// addSteps lists the calls of some steps. known reports whether at is their place; below a loop it is not, and all steps count.
func (w *callCollector) addSteps(in frame, steps []plan.Step, at []int, known bool) {
	for i := range steps {
		s, here := &steps[i], append(slices.Clone(at), i+1)
		if known && !w.c.includes(here) {
			continue
		}
		switch {
		case s.Kind() == plan.Prompt:
			w.list = append(w.list, Question{Role: trellis.Implement, Step: s})
			if s.LLMAsJudge {
				w.list = append(w.list, Question{Role: trellis.Grade, Step: s})
			}
		case s.SelfHealing && s.Kind() == plan.Script:
			w.list = append(w.list, Question{Role: trellis.Heal, Step: s})
		case s.Kind() == plan.Workflow:
			w.addCalledFile(in, s, here, known && s.Loop() == "")
		}
		w.addSteps(in, s.Steps, here, known && s.Loop() == "")
	}
}

// addCalledFile lists the calls of the file that a step calls, or of all files if it is not known which one that is.
func (w *callCollector) addCalledFile(in frame, s *plan.Step, at []int, known bool) {
	if other, p := in.resolveCall(w.b, *s); p != nil {
		w.addSteps(other, p.Steps, at, known)
		return
	}
	for _, file := range slices.Sorted(maps.Keys(w.b.Plans)) {
		if !slices.Contains(w.listedFiles, file) {
			w.listedFiles = append(w.listedFiles, file)
			w.addSteps(frame{file: file, values: map[string]string{}}, w.b.Plan(file).Steps, at, false)
		}
	}
}

// UsageOf returns what the agents of a run used.
func UsageOf(h *journal.History) (used trellis.Usage, err error) {
	for _, e := range h.Calls {
		if !e.Done || e.Fail != nil || !slices.Contains(Roles(), trellis.Role(e.Activity)) {
			continue
		}
		var r agentcall.Reply
		if err := json.Unmarshal(e.Out, &r); err != nil {
			return used, fmt.Errorf("reading %s of %s: %w", e.ID, h.Run, err)
		}
		used = used.Add(r.Usage)
	}
	return used, nil
}

// FileProver records the proofs of a run of a file.
type FileProver struct {
	ID     string // id of the run
	Bundle string // hash of the bundle that is run
	Dir    string // where its steps work
	Chain  *proof.Chain
	Repo   *git.Repo // nil: Dir is in no repository
	Except []string  // paths of the checkout that are not part of the work
	Now    func() time.Time
}

// Prove implements Prover.
func (p *FileProver) Prove(ctx context.Context, key string, e Evidence) (string, error) {
	parts := strings.SplitN(key, "/", 3)
	proof := e.Proof(p.ID, parts[0]+"/"+parts[1], parts[2])
	var err error
	if proof.By, err = ApprovedBy(p.Chain.Dir, e, nil); err != nil {
		return "", err
	}
	return p.add(ctx, proof)
}

// seal ends the chain of a run that proved something and ended well. It returns the head of the chain.
func (p *FileProver) seal(ctx context.Context, c flow.Call, done bool) (string, error) {
	list, err := p.Chain.List() // a process that died may have left half a record, or the record of this seal
	switch {
	case err != nil:
		return "", err
	case len(list) == 0:
		return "", nil
	case !done:
		return list[len(list)-1].Hash, nil
	}
	now := p.Now()
	return p.add(ctx, proof.Proof{Activity: c.ID, Run: c.Run, Task: p.ID, Kind: proof.Final, Began: now, Ended: now})
}

func (p *FileProver) add(ctx context.Context, proof proof.Proof) (string, error) {
	proof.PlanHash = p.Bundle
	if p.Repo != nil {
		root, err := Checkout(p.Dir)
		if err != nil {
			return "", fmt.Errorf("looking for the checkout of %s: %w", p.Dir, err)
		}
		if proof.Commit, err = p.Repo.Refs().Head(ctx, root); err != nil {
			return "", err
		}
		if proof.Tree, err = snapshot.New(p.Repo).TreeOf(ctx, root, p.Except...); err != nil {
			return "", err
		}
	}
	list, err := p.Chain.Append(proof)
	if err != nil {
		return "", err
	}
	return list[0].Hash, nil
}

// ProofSteps returns all steps of a bundle, in the form that proofs are compared with.
func ProofSteps(b *plan.Bundle) (list []proof.Step) {
	var loops []string
	for _, l := range b.ResolvedSteps() {
		looped := l.Loop != "" || slices.ContainsFunc(loops, func(path string) bool { return strings.HasPrefix(l.Path, path+".") })
		if l.Loop != "" {
			loops = append(loops, l.Path)
		}
		list = append(list, proof.Step{Path: strings.ReplaceAll(l.Path, ".", "/"), Hash: l.Hash, Check: l.Checked, Loop: looped})
	}
	return list
}

// LoadEnded records which runs and loops were over before this process began.
func (a *Effects) LoadEnded(h *journal.History) error {
	return eachInput(h, string(halt), func(in haltIn) { a.recordHalt(in.Loop) })
}
