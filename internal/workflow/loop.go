package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
)

// through does a step for each item of its loop.
func (r *run) through(f flow.Flow, s plan.Step, sc scope) (Outcome, error) {
	list, bad, err := r.items(f, s, sc)
	if err != nil || bad.State != "" {
		return own(sc.path, bad, err)
	}
	if why := r.choice.misses(sc.at, len(list)); why != "" {
		return Outcome{Path: sc.path, State: Failed, Detail: why}, nil
	}
	ends := make([]Outcome, len(list))
	if s.Concurrency > 1 && !r.serial() {
		err = r.pool(f, s, sc, list, ends)
	} else {
		err = r.rounds(f, s, sc, list, ends)
	}
	if err != nil {
		return Outcome{}, err
	}
	return looped(sc.path, ends), nil
}

// items are what a loop goes through, or how the step ended when they can't be found.
func (r *run) items(f flow.Flow, s plan.Step, sc scope) (list []string, bad Outcome, err error) {
	if s.ForEach == nil || s.ForEach.Command == "" {
		return s.Items(sc.values), bad, nil
	}
	found, err := items.Do(f, r.shell(s, sc, "for_each"))
	if err == nil && found.Ran.Code != 0 {
		bad = failed(sc.path, "the command of its loop", found.Ran)
	}
	return found.Items, bad, err
}

func round(s plan.Step, sc scope, n int, item string) scope {
	in := sc
	in.at = append(slices.Clone(sc.at), n)
	in.path = sc.path + "." + strconv.Itoa(n)
	in.values = maps.Clone(sc.values)
	in.values[s.Loop()] = item
	in.loops = append(slices.Clone(sc.loops), s.Loop())
	return in
}

// rounds go one after the other, and end with the first that fails unless the step goes on.
func (r *run) rounds(f flow.Flow, s plan.Step, sc scope, list []string, ends []Outcome) error {
	over := false
	for i, item := range list {
		in := round(s, sc, i+1, item)
		ends[i] = Outcome{Path: in.path, State: Skipped}
		if over || !r.choice.takes(in.at) {
			continue
		}
		o, err := r.round(f.In(fmt.Sprintf("item-%d", i+1)), s, in, len(list))
		if err != nil {
			return err
		}
		ends[i] = o
		over = !o.good() && !s.ContinueOnError
	}
	return nil
}

// pool has several rounds under way at once. Once one has failed none begins, unless the step goes on; those under way
// come to their end. What a round found when its turn came is in the record, and is the same when the run is resumed.
func (r *run) pool(f flow.Flow, s plan.Step, sc scope, list []string, ends []Outcome) error {
	branches := make([]flow.Branch, len(list))
	for i, item := range list {
		in := round(s, sc, i+1, item)
		in.sessions, in.loop = nil, sc.path
		ends[i] = Outcome{Path: in.path, State: Skipped}
		branches[i] = flow.Branch{Name: fmt.Sprintf("item-%d", i+1), Run: func(f flow.Flow) (err error) {
			if !r.choice.takes(in.at) {
				return nil
			}
			if ends[i], err = r.round(f, s, in, len(list)); err == nil && !ends[i].good() && !s.ContinueOnError {
				_, err = halt.Do(f, haltIn{sc.path})
			}
			return err
		}}
	}
	return f.All(s.Concurrency, branches...)
}

// round does the step for one item of a number.
func (r *run) round(f flow.Flow, s plan.Step, sc scope, of int) (o Outcome, err error) {
	if r.finished(sc.path, s, sc) {
		return Outcome{Path: sc.path, State: Done, Detail: "by an earlier run"}, nil
	}
	kind := s.Kind()
	b, err := begin.Do(f, beginIn{Dir: r.o.Dir, Bundle: r.b.Hash, Place: sc.place, Path: sc.path, Kind: kind, Values: sc.values, Loop: sc.loop, Round: sc.at[len(sc.at)-1], Of: of})
	if err != nil {
		return o, err
	}
	o = Outcome{Path: sc.path, State: Skipped, Detail: "the loop was over"}
	sc.loop = ""
	if !b.Stop {
		if o, err = r.once(f, s, sc, b); err != nil {
			return o, err
		}
	}
	_, err = end.Do(f, endIn{o, kind, r.whole(s, sc)})
	return o, err
}

// noItems is what is said of a loop without any.
const noItems = "its loop has no items: nothing was done"

// looped is how a loop ended.
func looped(path string, ends []Outcome) Outcome {
	bad, n, rep := (*Outcome)(nil), 0, Report{}
	for i := range ends {
		rep.add(ends[i].below)
		if !ends[i].good() {
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
		return Outcome{Path: path, State: Done, below: rep}
	}
	return Outcome{Path: path, State: Failed, Code: bad.Code, TimedOut: bad.TimedOut,
		Detail: fmt.Sprintf("%d of %d rounds failed, the first of them %s: %s", n, len(ends), bad.Path, bad.Detail), below: rep}
}
