package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
)

// runLoop runs a step for each item of its loop.
func (r *run) runLoop(f flow.Flow, s plan.Step, sc scope) (Outcome, error) {
	list, bad, err := r.items(f, s, sc)
	if err != nil || bad.State != "" {
		return stepFailedOutcome(sc.path, bad, err)
	}
	if why := r.choice.missingRound(sc.numbers, len(list)); why != "" {
		return Outcome{Path: sc.path, State: Failed, Detail: why}, nil
	}
	ends := make([]Outcome, len(list))
	if s.Concurrency > 1 && !r.serial() {
		err = r.runPool(f, s, sc, list, ends)
	} else {
		err = r.runRounds(f, s, sc, list, ends)
	}
	if err != nil {
		return Outcome{}, err
	}
	return loopOutcome(sc.path, ends), nil
}

// items returns what a loop goes through, or how the step ended if that can't be found.
func (r *run) items(f flow.Flow, s plan.Step, sc scope) (list []string, bad Outcome, err error) {
	if s.ForEach == nil || s.ForEach.Command == "" {
		return s.Items(sc.values), bad, nil
	}
	found, err := items.Do(f, r.shellInput(s, sc, "for_each"))
	if err == nil && found.Ran.Code != 0 {
		bad = commandFailedOutcome(sc.path, "the command of its loop", found.Ran)
	}
	return found.Items, bad, err
}

func roundScope(s plan.Step, sc scope, n int, item string) scope {
	in := sc
	in.numbers = append(slices.Clone(sc.numbers), n)
	in.path = sc.path + "." + strconv.Itoa(n)
	in.values = maps.Clone(sc.values)
	in.values[s.Loop()] = item
	in.loops = append(slices.Clone(sc.loops), s.Loop())
	return in
}

// runRounds runs rounds one after the other, and ends with the first that fails unless the step says continue_on_error.
func (r *run) runRounds(f flow.Flow, s plan.Step, sc scope, list []string, ends []Outcome) error {
	over := false
	for i, item := range list {
		in := roundScope(s, sc, i+1, item)
		ends[i] = Outcome{Path: in.path, State: Skipped}
		if over || !r.choice.includes(in.numbers) {
			continue
		}
		o, err := r.runRound(f.In(fmt.Sprintf("item-%d", i+1)), s, in, len(list))
		if err != nil {
			return err
		}
		ends[i] = o
		over = !o.allowsNext() && !s.ContinueOnError
	}
	return nil
}

// runPool runs several rounds at once. After one has failed no other begins, unless the step says continue_on_error; those that
// are running are finished. What a round found when it began is recorded, and is the same when the run is resumed.
func (r *run) runPool(f flow.Flow, s plan.Step, sc scope, list []string, ends []Outcome) error {
	branches := make([]flow.Branch, len(list))
	for i, item := range list {
		in := roundScope(s, sc, i+1, item)
		in.sessions, in.concurrentLoop = nil, sc.path
		ends[i] = Outcome{Path: in.path, State: Skipped}
		branches[i] = flow.Branch{Name: fmt.Sprintf("item-%d", i+1), Run: func(f flow.Flow) (err error) {
			if !r.choice.includes(in.numbers) {
				return nil
			}
			if ends[i], err = r.runRound(f, s, in, len(list)); err == nil && !ends[i].allowsNext() && !s.ContinueOnError {
				_, err = halt.Do(f, haltIn{sc.path})
			}
			return err
		}}
	}
	return f.All(s.Concurrency, branches...)
}

// runRound runs the step for one item.
func (r *run) runRound(f flow.Flow, s plan.Step, sc scope, of int) (o Outcome, err error) {
	if r.finishedBefore(sc.path, s, sc) {
		return Outcome{Path: sc.path, State: Done, Detail: "by an earlier run"}, nil
	}
	kind := s.Kind()
	b, err := begin.Do(f, beginIn{Dir: r.o.Dir, Bundle: r.b.Hash, Place: sc.place, Path: sc.path, Kind: kind, Values: sc.values, Loop: sc.concurrentLoop, Round: sc.numbers[len(sc.numbers)-1], Of: of})
	if err != nil {
		return o, err
	}
	o = Outcome{Path: sc.path, State: Skipped, Detail: "the loop was over"}
	sc.concurrentLoop = ""
	if !b.Stop {
		if o, err = r.runOnce(f, s, sc, b); err != nil {
			return o, err
		}
	}
	_, err = end.Do(f, endIn{o, kind, r.hashIfComplete(s, sc)})
	return o, err
}

// noItems is the detail of a loop without items.
const noItems = "its loop has no items: nothing was done"

// loopOutcome returns how a loop ended.
func loopOutcome(path string, ends []Outcome) Outcome {
	bad, n, rep := (*Outcome)(nil), 0, Report{}
	for i := range ends {
		rep.add(ends[i].inner)
		if !ends[i].allowsNext() {
			n++
			if bad == nil {
				bad = &ends[i]
			}
		}
	}
	if len(ends) == 0 {
		return Outcome{Path: path, State: Done, Detail: noItems, Empty: true}
	}
	if bad == nil {
		return Outcome{Path: path, State: Done, inner: rep}
	}
	return Outcome{Path: path, State: Failed, Code: bad.Code, TimedOut: bad.TimedOut,
		Detail: fmt.Sprintf("%d of %d rounds failed, the first of them %s: %s", n, len(ends), bad.Path, bad.Detail), inner: rep}
}
