package plan

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Facts is what a plan is checked against. Fields with their zero value are not checked.
type Facts struct {
	MaxSteps  int
	Exists    func(path string) (bool, error) // whether the repository has the path
	GlobFault func(glob string) string        // describes why no path can match a glob, "" if one may
	Missing   func(command string) string     // describes why a command can't run here, "" if it can
	Confirmed *[]string                       // commands that a person named or the research confirmed, in their order; empty: this project has none
	Spec      *TaskSpec                       // its acceptance items must be covered
}

// Check returns the problems of a task's plan beyond its schema, errors and warnings, in the order of the file. It does not
// change the plan.
func (p *Plan) Check(f Facts) []Problem { return p.check(f, true, nil) }

// check is Check, also for plans that don't belong to a task: those need no criterion, and their vars may lack values. given
// are values that a person gave.
func (p *Plan) check(f Facts, task bool, given map[string]string) []Problem {
	c := &checker{Facts: f, p: p, task: task, given: given}
	c.collect(p.Steps, "/steps", nil, 1)
	if c.identities(); len(c.steps) <= maxRuns {
		c.all()
	}
	inOrder(c.problems)
	for i := range c.problems {
		c.problems[i].Pointer = own(p.own, c.problems[i].Pointer)
	}
	return c.problems
}

func (c *checker) all() {
	p := c.p
	c.vars("/vars", p.Vars)
	for i := range c.steps {
		s := &c.steps[i]
		c.fields(s)
		c.proof(s, s.Proof, s.at+"/proof")
		c.holds(s)
		c.reads(s)
		c.smells(s)
	}
	c.order(p.Steps, "/steps")
	if p.tool == "" {
		c.numbered(p.Steps, "/steps")
		c.literals()
	}
	c.files()
	c.confirmed()
	c.acceptance()
	c.coverage()
}

type checker struct {
	Facts
	p        *Plan
	task     bool              // the plan belongs to a task
	given    map[string]string // values of vars that are not in the plan
	steps    []placed          // all steps, those of groups after the group
	problems []Problem
}

// placed is a step and its position.
type placed struct {
	Step
	at     string   // JSON pointer
	within []string // ids of the groups around the step
	loops  []string // variables of the loops around the step, its own last
	runs   int      // how often the step is done, as far as it is known
	scope  scope    // the known values
}

func (c *checker) add(at, format string, args ...any) *Problem {
	c.problems = append(c.problems, Problem{Pointer: at, Line: line(c.p.lines, at), Message: fmt.Sprintf(format, args...)})
	return &c.problems[len(c.problems)-1]
}

func (c *checker) warn(at, format string, args ...any) *Problem {
	p := c.add(at, format, args...)
	p.Warning = true
	return p
}

// mild turns a problem into a warning.
func (p *Problem) mild(hint string) { p.Warning, p.Hint = true, hint }

// step adds a problem of a step's field, with the step's id in the message.
func (c *checker) step(s *placed, field, format string, args ...any) *Problem {
	at := s.at
	if field != "" {
		at += "/" + field
	}
	return c.add(at, "step "+s.ID+": "+format, args...)
}

// maxRuns is the maximum number of steps in a run, counting those of loops each time.
const maxRuns = 5000

func (c *checker) collect(steps []Step, at string, outer *placed, runs int) {
	for i, s := range steps {
		p := placed{Step: s, at: fmt.Sprintf("%s/%d", at, i), runs: runs, scope: scope{}.into("", c.p, nil)}
		if outer != nil {
			p.within, p.loops, p.scope = append(slices.Clone(outer.within), outer.ID), slices.Clone(outer.loops), outer.scope
		}
		p.scope = p.scope.inside(&steps[i])
		if v := s.Loop(); v != "" {
			p.loops = append(p.loops, v)
			p.runs = min(runs*s.rounds(), maxRuns+1)
		}
		c.steps = append(c.steps, p)
		c.collect(s.Steps, p.at+"/steps", &p, p.runs)
	}
}

// Loop returns the variable of the step's loop, "" if it has none.
func (s Step) Loop() string {
	switch {
	case s.ForEach == nil && s.Repeat == 0:
		return ""
	case s.As != "":
		return s.As
	}
	return "item"
}

// rounds returns the number of rounds of a loop, 1 if only its command knows it.
func (s Step) rounds() int {
	if s.ForEach != nil && s.ForEach.Command == "" {
		return len(s.ForEach.Items)
	}
	return max(1, s.Repeat)
}

// identities checks the number of steps and that their ids are unique.
func (c *checker) identities() {
	if n := len(c.steps); c.MaxSteps > 0 && n > c.MaxSteps {
		c.add("/steps", "has %d steps, those of groups counted, may have at most %d", n, c.MaxSteps).Hint = "put together what is one outcome, or raise planning.max_steps"
	}
	first, runs := map[string]*placed{}, 0
	for i := range c.steps {
		s := &c.steps[i]
		runs = min(runs+s.runs, maxRuns+1)
		if other := first[s.ID]; other != nil {
			c.add(s.at+"/id", "%s is the id of another step too, in line %d", s.ID, line(c.p.lines, other.at+"/id"))
			continue
		}
		first[s.ID] = s
	}
	if runs > maxRuns {
		c.add("/steps", "its loops make more than %d steps of it", maxRuns)
	}
}

// files checks the paths of files and touches.
func (c *checker) files() {
	seen := map[string]bool{}
	for i, f := range c.p.Files {
		at := fmt.Sprintf("/files/%d/path", i)
		if strings.Contains(f.Path, "{{") {
			c.add(at, "%s is to be written without placeholders", f.Path)
			continue
		}
		if why := outside(f.Path); why != "" {
			c.add(at, "%s %s", f.Path, why)
			continue
		}
		clean := path.Clean(f.Path)
		if seen[clean] {
			c.add(at, "%s is in the list twice", f.Path)
			continue
		}
		seen[clean] = true
		c.exists(at, f, clean)
	}
	for i, glob := range c.p.Touches {
		at := fmt.Sprintf("/touches/%d", i)
		if why := outside(glob); why != "" {
			c.add(at, "%s %s", glob, why)
		} else if c.GlobFault == nil {
			continue
		} else if why := c.GlobFault(glob); why != "" {
			c.add(at, "%s", why).Hint = "write a path or a glob, such as api/**"
		}
	}
}

func (c *checker) exists(at string, f File, clean string) {
	if c.Exists == nil {
		return
	}
	there, err := c.Exists(clean)
	switch {
	case err != nil:
		c.add(at, "looking for %s: %v", f.Path, err)
	case there && f.Change == "new":
		c.warn(at, "%s is there already", f.Path).Hint = `say "change": "edit"`
	case !there && f.Change != "new":
		c.add(at, "%s does not exist, so the plan can't %s it", f.Path, f.Change).Hint = `say "change": "new", or mend the path`
	}
}

// outside describes why a path is not one of the repository's own files, "" if it is.
func outside(p string) string {
	clean := path.Clean(p)
	switch {
	case strings.Contains(p, `\`):
		return "has to be written with /"
	case strings.HasPrefix(p, "/") || !filepath.IsLocal(clean):
		return "leads out of the repository: write it from its top"
	case clean == ".":
		return "is the whole repository"
	case clean == ".git" || strings.HasPrefix(clean, ".git/"):
		return "belongs to git"
	}
	return ""
}

// Protected returns the files of the plan for which protects returns true.
func (p *Plan) Protected(protects func(path string) bool) (paths []string) {
	for _, f := range p.Files {
		if clean := path.Clean(f.Path); protects(clean) {
			paths = append(paths, clean)
		}
	}
	return paths
}
