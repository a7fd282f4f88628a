package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// choice says which steps run, by numbers: step, round, step, …, each from 1.
type choice struct{ only, from, to []int }

// choose finds the steps that the options name. A step that does not exist is a failure. So is, before a run, a round that a loop
// is known not to have; in a run that was begun with it, the round fails the step.
func choose(b *plan.Bundle, o Options, before bool) (c choice, err error) {
	for _, w := range []struct {
		flag, path string
		into       *[]int
	}{{"--step", o.Only, &c.only}, {"--from-step", o.From, &c.from}, {"--to-step", o.To, &c.to}} {
		if w.path == "" {
			continue
		}
		if *w.into, err = find(b, w.path, before); err != nil {
			return c, flow.Fail(string(trellis.InvalidTask), "%s %s: %v", w.flag, w.path, err)
		}
	}
	if c.from != nil && c.to != nil && !overlap(c.from, c.to) && slices.Compare(c.from, c.to) > 0 {
		return c, flow.Fail(string(trellis.InvalidTask), "--from-step %s comes after --to-step %s: nothing would run", o.From, o.To)
	}
	return c, nil
}

// find returns the place of a step by its path: ids or numbers from 1, and behind a step with a loop the number of a round.
func find(b *plan.Bundle, path string, before bool) (at []int, err error) {
	w := newWalk(b)
	for _, part := range strings.Split(path, ".") {
		n, numErr := strconv.Atoi(part)
		if w.loop {
			if numErr != nil || n < 1 {
				return nil, fmt.Errorf("%s is not a round of a loop: rounds are numbers from 1", part)
			}
			if of := w.roundCount(); before && of > 0 && n > of {
				return nil, noRound(n, of)
			}
			at = append(at, n)
			w.enterRound(n)
			continue
		}
		steps := w.steps()
		i := slices.IndexFunc(steps, func(s plan.Step) bool { return s.ID == part })
		if i < 0 && numErr == nil && n >= 1 && n <= len(steps) {
			i = n - 1
		}
		if i < 0 {
			return nil, noStep(part, steps)
		}
		at = append(at, i+1)
		w.enter(&steps[i])
	}
	return at, nil
}

// Chosen returns a function that reports whether a step, given by its path without the numbers of rounds, is among those chosen.
// In a loop all steps are, if the loop is.
func Chosen(b *plan.Bundle, o Options) (func(path string) bool, error) {
	c, err := choose(b, o, true)
	if err != nil {
		return nil, err
	}
	return func(path string) bool { return c.includes(outermostPlace(b, path)) }, nil
}

// outermostPlace returns the place of a step, or of the outermost loop around it.
func outermostPlace(b *plan.Bundle, path string) (at []int) {
	w := newWalk(b)
	for _, id := range strings.Split(path, ".") {
		steps := w.steps()
		i := slices.IndexFunc(steps, func(s plan.Step) bool { return s.ID == id })
		if i < 0 || w.loop {
			return at
		}
		at = append(at, i+1)
		w.enter(&steps[i])
	}
	return at
}

func noStep(part string, steps []plan.Step) error {
	var ids []string
	for _, s := range steps {
		ids = append(ids, s.ID)
	}
	if near := trellis.Nearest(part, ids); near != "" {
		return fmt.Errorf("there is no step %s (did you mean %s?)", part, near)
	}
	if len(ids) == 0 {
		return fmt.Errorf("there is no step %s: nothing is below that", part)
	}
	return fmt.Errorf("there is no step %s (there are %s)", part, strings.Join(ids, ", "))
}

// includes reports whether a step is chosen, or one below it is.
func (c choice) includes(at []int) bool {
	return (c.only == nil || overlap(at, c.only)) && (c.from == nil || overlap(at, c.from) || slices.Compare(at, c.from) > 0) &&
		(c.to == nil || overlap(at, c.to) || slices.Compare(at, c.to) < 0)
}

// isPartial reports whether something below a step, or a round, is chosen separately.
func (c choice) isPartial(at []int) bool {
	return slices.ContainsFunc([][]int{c.only, c.from, c.to}, func(w []int) bool { return len(w) > len(at) && overlap(at, w) })
}

// overlap reports whether one of two places is below the other, or both are the same.
func overlap(a, b []int) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

// missingRound says that a round was chosen that a loop of n rounds does not have, "" otherwise.
func (c choice) missingRound(loop []int, n int) string {
	for _, at := range [][]int{c.only, c.from, c.to} {
		if len(at) > len(loop) && slices.Equal(at[:len(loop)], loop) && at[len(loop)] > n {
			return noRound(at[len(loop)], n).Error()
		}
	}
	return ""
}

func noRound(n, of int) error {
	return fmt.Errorf("round %d was asked for, and the loop has %d", n, of)
}
