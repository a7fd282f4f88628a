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

// list runs the steps of a list, each after all that it depends on have ended. It returns the first one that did not end well, nil
// if all did, and the report of all.
func (r *run) list(f flow.Flow, steps []plan.Step, sc scope, parallel bool) (bad *Outcome, rep Report, err error) {
	waits := waits(steps)
	ends := make([]Outcome, len(steps))
	one := func(f flow.Flow, i int) (err error) {
		ends[i], err = r.scheduled(f, steps[i], i, sc, ends, waits[i])
		return err
	}
	if parallel && !r.serial() {
		sc.sessions = nil // one session can't do two things at once
		err = r.together(f, steps, waits, one)
	} else {
		err = r.inOrder(f, steps, waits, one)
	}
	if err != nil {
		return nil, rep, err
	}
	for i := range ends {
		if ends[i].Tolerated {
			ends[i].below.tolerate()
		}
		rep.add(ends[i].below)
		rep.count(ends[i])
		if bad == nil && !ends[i].good() {
			bad = &ends[i]
		}
	}
	return bad, rep, nil
}

func (r *run) serial() bool { return r.o.Serial || r.o.FailFast }

// inOrder runs one step after the other, dependencies first.
func (r *run) inOrder(f flow.Flow, steps []plan.Step, waits [][]int, one func(flow.Flow, int) error) error {
	for _, i := range sorted(waits) {
		if err := one(f.In(scopeName(steps[i])), i); err != nil {
			return err
		}
	}
	return nil
}

// together runs steps at once, each as soon as its dependencies have ended.
func (r *run) together(f flow.Flow, steps []plan.Step, waits [][]int, one func(flow.Flow, int) error) error {
	branches := make([]flow.Branch, len(steps))
	for i, s := range steps {
		branches[i] = flow.Branch{Name: scopeName(s), Run: func(f flow.Flow) error { return one(f, i) }}
		for _, j := range waits[i] {
			branches[i].After = append(branches[i].After, scopeName(steps[j]))
		}
	}
	return f.All(0, branches...)
}

// waits returns, for each step, the indexes of the steps that it waits for.
func waits(steps []plan.Step) [][]int {
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

// sorted returns an order in which each step follows those that it waits for, otherwise in the order of the file.
func sorted(waits [][]int) (order []int) {
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

// scheduled runs a step whose turn it is, unless it is not chosen or a step that it depends on failed.
func (r *run) scheduled(f flow.Flow, s plan.Step, i int, sc scope, ends []Outcome, waits []int) (Outcome, error) {
	o := Outcome{Path: join(sc.path, s.ID)}
	at := append(slices.Clone(sc.at), i+1)
	if !r.choice.takes(at) || r.o.Verified && sc.path == "" && sc.place.File == "" && r.verifies(i) {
		o.State = Skipped
		return o, nil
	}
	for _, j := range waits {
		if ends[j].good() {
			continue
		}
		o.State, o.Because = Blocked, because(ends[j])
		o.Detail = "blocked by " + strings.Join(o.Because, ", ")
		return o, nil
	}
	if r.finished(o.Path, s, sc) {
		o.State, o.Detail = Done, "by an earlier run"
		return o, nil
	}
	return r.step(f, s, i, sc, o.Path, at)
}

// verifies reports whether a step of the main plan is one of its verification steps.
func (r *run) verifies(i int) bool {
	if r.o.Grouped {
		return i >= r.b.Plan("").VerificationAt()
	}
	return i >= r.b.Plan("").VerifyingScriptsAt()
}

// because returns the chain of causes why a step did not end well, without the middle of a long one.
func because(o Outcome) []string {
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
		r.empty(o.Path)
	}
	if o.State == Failed || o.State == Blocked {
		o.Detail, o.below = text.Cut(o.Detail, 300), Report{}
		r.name(o)
	}
}

func (r *Report) name(o Outcome) {
	if len(r.Worst) < maxWorst {
		r.Worst = append(r.Worst, o)
	}
}

func (r *Report) empty(paths ...string) {
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
	r.empty(other.Empty...)
	for _, o := range other.Worst {
		r.name(o)
	}
}

// step runs a step: it asks people first if it has to, and runs each round if it has a loop.
func (r *run) step(f flow.Flow, s plan.Step, i int, sc scope, path string, at []int) (o Outcome, err error) {
	sc.place, sc.at, sc.path = sc.place.In(i), at, path
	kind, mild := s.Kind(), sc.mild
	sc.mild = mild || s.ContinueOnError
	b, err := begin.Do(f, beginIn{Dir: r.o.Dir, Bundle: r.b.Hash, Place: sc.place, Path: path, Kind: kind, Values: sc.values})
	if err != nil {
		return o, err
	}
	o = Outcome{Path: path, State: Skipped, Detail: "the run was over"}
	if !b.Stop {
		if o, err = r.allowed(f, s, sc, b); err != nil {
			return o, err
		}
		if o.State == Failed && s.ContinueOnError {
			o.Tolerated = true
		}
		if !o.good() && r.o.FailFast && !mild {
			if _, err := halt.Do(f, haltIn{}); err != nil {
				return o, err
			}
		}
	}
	_, err = end.Do(f, endIn{o, kind, r.whole(s, sc)})
	return o, err
}

// whole returns the mark of a step or a round, "" if only a part of it was chosen.
func (r *run) whole(s plan.Step, sc scope) string {
	if r.choice.parts(sc.at) {
		return ""
	}
	return r.mark(s, sc)
}

// allowed asks people first, if the step requires that.
func (r *run) allowed(f flow.Flow, s plan.Step, sc scope, b begun) (Outcome, error) {
	if s.Asks() {
		err := r.host.Wait(f, r.request(s, sc))
		if fail, ok := errors.AsType[*flow.Failure](err); ok && fail.Code == string(trellis.ApprovalRejected) {
			return Outcome{Path: sc.path, State: Failed, Detail: fail.Detail, Refused: true}, nil
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	if s.Loop() != "" {
		return r.through(f, s, sc)
	}
	return r.once(f, s, sc, b)
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
	for i, before := range waits(list) {
		if slices.Contains(before, at[len(at)-1]) {
			q.Lets = append(q.Lets, strings.TrimSuffix(sc.path, s.ID)+list[i].ID)
		}
	}
	return q
}

// once does what a step does, without its loop.
func (r *run) once(f flow.Flow, s plan.Step, sc scope, b begun) (Outcome, error) {
	switch s.Kind() {
	case plan.Script:
		return r.script(f, s, sc)
	case plan.Prompt:
		return r.prompt(f, s, sc, b)
	case plan.Group:
		return r.inner(f, s, sc, sc, s.Steps, s.Parallel)
	case plan.Workflow:
		return r.other(f, s, sc)
	}
	return r.end(f, s, sc, Ran{}, "")
}

// other runs another file. Its steps see the values that the calling step gives it.
func (r *run) other(f flow.Flow, s plan.Step, sc scope) (Outcome, error) {
	called, p := frame{sc.place.File, sc.values}.call(r.b, s)
	if p == nil {
		return Outcome{Path: sc.path, State: Failed, Detail: "there is no " + called.file}, nil
	}
	in := sc
	in.place, in.values, in.loops = plan.Place{File: called.file}, called.values, nil
	return r.inner(f, s, sc, in, p.Steps, p.Parallel)
}

// inner runs the steps of a group, or of another file, in their scope.
func (r *run) inner(f flow.Flow, s plan.Step, sc, in scope, steps []plan.Step, parallel bool) (Outcome, error) {
	bad, rep, err := r.list(f, steps, in, parallel)
	if err != nil {
		return Outcome{}, err
	}
	if bad != nil {
		return Outcome{Path: sc.path, State: Failed, Code: bad.Code, TimedOut: bad.TimedOut, Detail: fmt.Sprintf("its step %s %s: %s", bad.Path, bad.State, bad.Detail), below: rep}, nil
	}
	o, _, err := r.judged(f, s, sc, Ran{}, "")
	o, err = own(sc.path, o, err)
	o.below = rep
	return o, err
}
