package roadmap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// findProblems finds problems that concern several steps, and sorts all problems by line.
func (r *Roadmap) findProblems() {
	r.findDuplicates()
	r.findUnknownDependencies()
	r.findCycles()
	slices.SortStableFunc(r.problems, func(a, b trellis.Problem) int { return a.Line - b.Line })
}

func (r *Roadmap) findDuplicates() {
	if len(r.index) == len(r.Steps) {
		return
	}
	lines := map[string][]string{}
	for _, s := range r.Steps {
		lines[s.ID] = append(lines[s.ID], strconv.Itoa(s.Line))
	}
	for i, s := range r.Steps {
		if all := lines[s.ID]; len(all) > 1 && r.index[s.ID] == i {
			r.errorf(s.Line, "give each step an id of its own", "step %s appears %d times, in lines %s", s.ID, len(all), strings.Join(all, ", "))
		}
	}
}

func (r *Roadmap) findUnknownDependencies() {
	for _, s := range r.Steps {
		for _, id := range s.DependsOn {
			if id == s.ID && s.Stated {
				r.errorf(s.Line, "", "step %s depends on itself", s.ID)
			} else if r.Step(id) == nil {
				r.errorf(s.Line, r.idHint(s, id), "step %s depends on %s, which is not a step", s.ID, id)
			}
		}
	}
}

// idHint returns a hint about the id of another step that may have been meant. As it compares every step, it does so only for
// the first few problems; short ids are all close to each other.
func (r *Roadmap) idHint(step Step, id string) string {
	if len(r.problems) > 20 || len(id) < 3 {
		return ""
	}
	var ids []string
	for _, s := range r.Steps {
		if s.ID != step.ID {
			ids = append(ids, s.ID)
		}
	}
	if near := trellis.Nearest(id, ids); near != "" {
		return "did you mean " + near
	}
	return ""
}

// maxCycles is the maximum number of cycles that are reported: steps that all depend on each other have a great many.
const maxCycles = 10

// findCycles reports cycles of dependencies, each beginning with its first step: one for every dependency that closes a cycle.
func (r *Roadmap) findCycles() {
	c := cycleFinder{Roadmap: r, mark: make([]mark, len(r.Steps))}
	for i := range r.Steps {
		c.follow(i)
	}
}

// mark says how far a step's dependencies have been followed.
type mark int8

const (
	unvisited mark = iota
	onPath
	visited
)

// cycleFinder follows dependencies depth first, without recursion: chains can be as long as the roadmap.
type cycleFinder struct {
	*Roadmap
	mark     []mark
	path     []visit
	reported int
}

type visit struct{ step, next int }

func (c *cycleFinder) enter(step int) {
	c.mark[step] = onPath
	c.path = append(c.path, visit{step, 0})
}

func (c *cycleFinder) follow(step int) {
	if c.mark[step] == unvisited {
		c.enter(step)
	}
	for len(c.path) > 0 {
		at := &c.path[len(c.path)-1]
		deps := c.Steps[at.step].DependsOn
		if at.next == len(deps) {
			c.mark[at.step] = visited
			c.path = c.path[:len(c.path)-1]
			continue
		}
		at.next++
		to, known := c.index[deps[at.next-1]]
		switch {
		case !known || to == at.step:
		case c.mark[to] == unvisited:
			c.enter(to)
		case c.mark[to] == onPath && c.reported < maxCycles:
			c.reported++
			c.reportCycle(to)
		}
	}
}

// reportCycle reports the cycle at the end of the path that begins with a step.
func (c *cycleFinder) reportCycle(step int) {
	begin := slices.IndexFunc(c.path, func(v visit) bool { return v.step == step })
	var steps []int
	for _, v := range c.path[begin:] {
		steps = append(steps, v.step)
	}
	first := slices.Index(steps, slices.Min(steps))
	steps = slices.Concat(steps[first:], steps[:first])
	var ids, lines []string
	hint := ""
	for _, i := range steps {
		s := c.Steps[i]
		ids, lines = append(ids, s.ID), append(lines, strconv.Itoa(s.Line))
		if !s.Stated && hint == "" {
			hint = fmt.Sprintf("step %s states no dependencies, so it depends on the step before it; say others, or none, in Depends On", s.ID)
		}
	}
	c.errorf(c.Steps[steps[0]].Line, hint, "steps wait for each other: %s (lines %s)", strings.Join(append(ids, ids[0]), " → "), strings.Join(lines, ", "))
}
