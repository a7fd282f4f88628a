package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// runSteps runs the steps of a list, each after all that it depends on have ended. It returns the first one that did not end
// well, nil if all did, and the report of all.
func (r *run) runSteps(f flow.Flow, steps []plan.Step, sc scope, parallel bool) (bad *Outcome, rep Report, err error) {
	waits := dependencies(steps)
	ends := make([]Outcome, len(steps))
	one := func(f flow.Flow, i int) (err error) {
		ends[i], err = r.runUnlessBlocked(f, steps[i], i, sc, ends, waits[i])
		return err
	}
	if parallel && !r.serial() {
		sc.sessions = nil // one session can't do two things at once
		err = r.runParallel(f, steps, waits, one)
	} else {
		err = r.runInOrder(f, steps, waits, one)
	}
	if err != nil {
		return nil, rep, err
	}
	for i := range ends {
		if ends[i].Tolerated {
			ends[i].inner.tolerate()
		}
		rep.add(ends[i].inner)
		rep.count(ends[i])
		if bad == nil && !ends[i].allowsNext() {
			bad = &ends[i]
		}
	}
	return bad, rep, nil
}

func (r *run) serial() bool { return r.o.Serial || r.o.FailFast }

// runInOrder runs one step after the other, dependencies first.
func (r *run) runInOrder(f flow.Flow, steps []plan.Step, waits [][]int, one func(flow.Flow, int) error) error {
	for _, i := range topologicalOrder(waits) {
		if err := one(f.In(scopeName(steps[i])), i); err != nil {
			return err
		}
	}
	return nil
}

// runParallel runs steps at once, each as soon as its dependencies have ended.
func (r *run) runParallel(f flow.Flow, steps []plan.Step, waits [][]int, one func(flow.Flow, int) error) error {
	branches := make([]flow.Branch, len(steps))
	for i, s := range steps {
		branches[i] = flow.Branch{Name: scopeName(s), Run: func(f flow.Flow) error { return one(f, i) }}
		for _, j := range waits[i] {
			branches[i].After = append(branches[i].After, scopeName(steps[j]))
		}
	}
	return f.All(0, branches...)
}

// dependencies returns, for each step, the indexes of the steps that it waits for.
func dependencies(steps []plan.Step) [][]int {
	all := make([][]int, len(steps))
	for i, s := range steps {
		switch {
		case s.DependsOn != nil:
			for _, id := range *s.DependsOn {
				if j := slices.IndexFunc(steps, func(o plan.Step) bool { return o.ID == id }); j >= 0 {
					all[i] = append(all[i], j)
				}
			}
		case i > 0:
			all[i] = []int{i - 1}
		}
	}
	return all
}

// topologicalOrder returns an order in which each step follows those that it waits for, otherwise in the order of the file.
func topologicalOrder(waits [][]int) (order []int) {
	seen := make([]bool, len(waits))
	var visit func(int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, j := range waits[i] {
			visit(j)
		}
		order = append(order, i)
	}
	for i := range waits {
		visit(i)
	}
	return order
}

// runUnlessBlocked runs a step whose turn it is, unless it is not chosen or a step that it depends on failed.
func (r *run) runUnlessBlocked(f flow.Flow, s plan.Step, i int, sc scope, ends []Outcome, waits []int) (Outcome, error) {
	o := Outcome{Path: join(sc.path, s.ID)}
	at := append(slices.Clone(sc.numbers), i+1)
	if !r.choice.includes(at) || r.o.Verified && sc.path == "" && sc.place.File == "" && r.isVerification(i) {
		o.State = Skipped
		return o, nil
	}
	for _, j := range waits {
		if ends[j].allowsNext() {
			continue
		}
		o.State, o.Because = Blocked, causes(ends[j])
		o.Detail = "blocked by " + strings.Join(o.Because, ", ")
		return o, nil
	}
	if r.finishedBefore(o.Path, s, sc) {
		o.State, o.Detail = Done, "by an earlier run"
		return o, nil
	}
	return r.runStep(f, s, i, sc, o.Path, at)
}

// isVerification reports whether a step of the main plan is one of its verification steps.
func (r *run) isVerification(i int) bool {
	if r.o.Grouped {
		return i >= r.b.Plan("").VerificationAt()
	}
	return i >= r.b.Plan("").VerifyingScriptsAt()
}

// causes returns the chain of causes why a step did not end well, without the middle of a long one.
func causes(o Outcome) []string {
	if o.State == Failed {
		return []string{o.Path + ", which failed"}
	}
	chain := append([]string{o.Path}, o.Because...)
	if n := len(chain); n > maxCauses {
		chain = append(chain[:maxCauses-2:maxCauses-2], "…", chain[n-1])
	}
	return chain
}

// maxCauses is how many causes are listed.
const maxCauses = 9

// maxWorst is how many outcomes a report lists.
const maxWorst = 50

func (r *Report) count(o Outcome) {
	r.Steps++
	switch {
	case o.State == Done:
		r.Done++
	case o.State == Skipped:
		r.Skipped++
	case o.Tolerated:
		r.Tolerate++
	case o.State == Failed:
		r.Failed++
	case o.State == Blocked:
		r.Blocked++
	}
	r.TimedOut = r.TimedOut || o.TimedOut && !o.Tolerated
	if o.Empty {
		r.addEmpty(o.Path)
	}
	if o.State == Failed || o.State == Blocked {
		o.Detail, o.inner = text.Cut(o.Detail, 300), Report{}
		r.addWorst(o)
	}
}

func (r *Report) addWorst(o Outcome) {
	if len(r.Worst) < maxWorst {
		r.Worst = append(r.Worst, o)
	}
}

func (r *Report) addEmpty(paths ...string) {
	r.Empty = append(r.Empty, paths...)
	r.Empty = r.Empty[:min(len(r.Empty), maxWorst)]
}

// tolerate turns the failures within a step that says continue_on_error into tolerated ones.
func (r *Report) tolerate() {
	r.Tolerate += r.Failed + r.Blocked
	r.Failed, r.Blocked, r.TimedOut = 0, 0, false
	for i := range r.Worst {
		r.Worst[i].Tolerated = true
	}
}

// add adds the report of the steps of a group, a round or another file.
func (r *Report) add(other Report) {
	r.Steps += other.Steps
	r.Done += other.Done
	r.Skipped += other.Skipped
	r.Failed += other.Failed
	r.Blocked += other.Blocked
	r.Tolerate += other.Tolerate
	r.TimedOut = r.TimedOut || other.TimedOut
	r.addEmpty(other.Empty...)
	for _, o := range other.Worst {
		r.addWorst(o)
	}
}

// runStep runs a step: it asks people first if it has to, and runs each round if it has a loop.
func (r *run) runStep(f flow.Flow, s plan.Step, i int, sc scope, path string, at []int) (o Outcome, err error) {
	sc.place, sc.numbers, sc.path = sc.place.In(i), at, path
	kind, tolerated := s.Kind(), sc.tolerated
	sc.tolerated = tolerated || s.ContinueOnError
	b, err := begin.Do(f, beginIn{Dir: r.o.Dir, Bundle: r.b.Hash, Place: sc.place, Path: path, Kind: kind, Values: sc.values})
	if err != nil {
		return o, err
	}
	o = Outcome{Path: path, State: Skipped, Detail: "the run was over"}
	if !b.Stop {
		if o, err = r.runAfterApproval(f, s, sc, b); err != nil {
			return o, err
		}
		if o.State == Failed && s.ContinueOnError {
			o.Tolerated = true
		}
		if !o.allowsNext() && r.o.FailFast && !tolerated {
			if _, err := halt.Do(f, haltIn{}); err != nil {
				return o, err
			}
		}
	}
	_, err = end.Do(f, endIn{o, kind, r.hashIfComplete(s, sc)})
	return o, err
}

// hashIfComplete returns the fullStepHash of a step or a round, "" if only a part of it was chosen.
func (r *run) hashIfComplete(s plan.Step, sc scope) string {
	if r.choice.isPartial(sc.numbers) {
		return ""
	}
	return r.fullStepHash(s, sc)
}

// runAfterApproval runs a step with all its rounds, once people approved it if it requires that.
func (r *run) runAfterApproval(f flow.Flow, s plan.Step, sc scope, b beginResult) (Outcome, error) {
	if s.NeedsApproval() {
		err := r.host.Wait(f, r.request(s, sc))
		if fail, ok := errors.AsType[*flow.Failure](err); ok && fail.Code == string(trellis.ApprovalRejected) {
			return Outcome{Path: sc.path, State: Failed, Detail: fail.Detail, Refused: true}, nil
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	if s.Loop() != "" {
		return r.runLoop(f, s, sc)
	}
	return r.runOnce(f, s, sc, b)
}

func (r *run) request(s plan.Step, sc scope) Request {
	p := r.b.Plan(sc.place.File)
	q := Request{Path: sc.path, Title: plan.Fill(s.Title, sc.values), Description: plan.Fill(s.Description, sc.values), Hash: p.StepHash(s) + "/" + r.b.Hash}
	q.Title = cmp.Or(q.Title, s.ID)
	if s.Kind() != plan.Approval {
		q.Lets = []string{sc.path}
		return q
	}
	list, at := p.Steps, sc.place.At
	for _, n := range at[:len(at)-1] {
		list = list[n].Steps
	}
	for i, before := range dependencies(list) {
		if slices.Contains(before, at[len(at)-1]) {
			q.Lets = append(q.Lets, strings.TrimSuffix(sc.path, s.ID)+list[i].ID)
		}
	}
	return q
}

// runOnce does what a step does, without its loop.
func (r *run) runOnce(f flow.Flow, s plan.Step, sc scope, b beginResult) (Outcome, error) {
	switch s.Kind() {
	case plan.Script:
		return r.runScript(f, s, sc)
	case plan.Prompt:
		return r.runPrompt(f, s, sc, b)
	case plan.Group:
		return r.runInner(f, s, sc, sc, s.Steps, s.Parallel)
	case plan.Workflow:
		return r.runCalledFile(f, s, sc)
	}
	return r.finishStep(f, s, sc, CommandResult{}, "")
}

// runCalledFile runs another file. Its steps see the values that the calling step gives it.
func (r *run) runCalledFile(f flow.Flow, s plan.Step, sc scope) (Outcome, error) {
	called, p := frame{sc.place.File, sc.values}.resolveCall(r.b, s)
	if p == nil {
		return Outcome{Path: sc.path, State: Failed, Detail: "there is no " + called.file}, nil
	}
	in := sc
	in.place, in.values, in.loops = plan.Place{File: called.file}, called.values, nil
	return r.runInner(f, s, sc, in, p.Steps, p.Parallel)
}

// runInner runs the steps of a group, or of another file, in their scope.
func (r *run) runInner(f flow.Flow, s plan.Step, sc, in scope, steps []plan.Step, parallel bool) (Outcome, error) {
	bad, rep, err := r.runSteps(f, steps, in, parallel)
	if err != nil {
		return Outcome{}, err
	}
	if bad != nil {
		return Outcome{Path: sc.path, State: Failed, Code: bad.Code, TimedOut: bad.TimedOut, Detail: fmt.Sprintf("its step %s %s: %s", bad.Path, bad.State, bad.Detail), inner: rep}, nil
	}
	o, _, err := r.verifyAndProve(f, s, sc, CommandResult{}, "")
	o, err = stepFailedOutcome(sc.path, o, err)
	o.inner = rep
	return o, err
}
