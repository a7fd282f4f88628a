package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// checkOrder checks the dependencies of the steps of one list, and recursively of groups.
func (c *checker) checkOrder(steps []Step, at string) {
	waits := make([][]int, len(steps)) // for each step, the indexes of the steps that it waits for
	for i, s := range steps {
		inner := fmt.Sprintf("%s/%d", at, i)
		waits[i] = c.checkDependencies(steps, i, inner)
		c.checkOrder(s.Steps, inner+"/steps")
	}
	r := cycleFinder{waits: waits, state: make([]int, len(steps))}
	for i := range steps {
		r.visit(i, nil)
	}
	for _, cycle := range r.cycles {
		var ids []string
		named := -1
		for _, i := range append(cycle, cycle[0]) {
			ids = append(ids, steps[i].ID)
			if named < 0 && steps[i].DependsOn != nil {
				named = i
			}
		}
		c.add(fmt.Sprintf("%s/%d/depends_on", at, named), "these steps wait for each other: %s", strings.Join(ids, " → ")).Hint = `take one of them out of depends_on; a step without it waits for the one before, unless it says "depends_on": []`
	}
}

// checkDependencies checks what steps[i] depends on, and returns the indexes of the steps that it waits for.
func (c *checker) checkDependencies(steps []Step, i int, at string) (places []int) {
	s := steps[i]
	if s.DependsOn == nil {
		return dependencyIndexes(steps, i)
	}
	for j, id := range *s.DependsOn {
		at := fmt.Sprintf("%s/depends_on/%d", at, j)
		place := slices.IndexFunc(steps, func(o Step) bool { return o.ID == id })
		switch {
		case id == s.ID:
			c.add(at, "step %s depends on itself", s.ID)
		case place < 0:
			c.addUnknownStep(s, id, at, steps)
		default:
			places = append(places, place)
		}
	}
	return places
}

// addUnknownStep reports a dependency that is not in the same list of steps.
func (c *checker) addUnknownStep(s Step, id, at string, neighbours []Step) {
	if i := slices.IndexFunc(c.steps, func(o placedStep) bool { return o.ID == id }); i >= 0 {
		p := c.add(at, "step %s depends on %s, which is in another list of steps", s.ID, id)
		if within := c.steps[i].groups; len(within) > 0 {
			p.Hint = "a group is waited for as a whole: depend on " + within[0]
		}
		return
	}
	var ids []string
	for _, o := range neighbours {
		if o.ID != s.ID { // a step can't wait for itself
			ids = append(ids, o.ID)
		}
	}
	c.add(at, "step %s depends on %s, which is not a step", s.ID, id).Hint = trellis.NearestHint(id, ids)
}

// cycleFinder finds cycles of dependencies.
type cycleFinder struct {
	waits  [][]int
	state  []int // 0: not visited, 1: on the current path, 2: done
	cycles [][]int
}

func (r *cycleFinder) visit(i int, way []int) {
	if r.state[i] == 1 {
		r.cycles = append(r.cycles, slices.Clone(way[slices.Index(way, i):]))
	}
	if r.state[i] != 0 {
		return
	}
	r.state[i] = 1
	for _, j := range r.waits[i] {
		r.visit(j, append(way, i))
	}
	r.state[i] = 2
}
