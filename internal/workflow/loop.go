package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
)

// through runs a step for each item of its loop.
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

// items returns what a loop goes through, or how the step ended if that can't be found.
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

// rounds runs rounds one after the other, and ends with the first that fails unless the step says continue_on_error.
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

// pool runs several rounds at once. After one has failed no other begins, unless the step says continue_on_error; those that are
// running are finished. What a round found when it began is recorded, and is the same when the run is resumed.
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

// round runs the step for one item.
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

// noItems is the detail of a loop without items.
const noItems = "its loop has no items: nothing was done"

// looped returns how a loop ended.
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
