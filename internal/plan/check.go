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
	if c.checkIDs(); len(c.steps) <= maxRuns {
		c.checkAll()
	}
	sortByLine(c.problems)
	for i := range c.problems {
		c.problems[i].Pointer = originalPointer(p.originals, c.problems[i].Pointer)
	}
	return c.problems
}

func (c *checker) checkAll() {
	p := c.p
	c.checkVars("/vars", p.Vars)
	for i := range c.steps {
		s := &c.steps[i]
		c.checkFields(s)
		c.checkProof(s, s.Proof, s.pointer+"/proof")
		c.checkCommands(s)
		c.checkReferences(s)
		c.warnOfSmells(s)
	}
	c.checkOrder(p.Steps, "/steps")
	if p.tool == "" {
		c.warnOfNumberedSteps(p.Steps, "/steps")
		c.warnOfRepeatedPaths()
	}
	c.checkFiles()
	c.checkConfirmed()
	c.checkAcceptance()
	c.checkCoverage()
}

type checker struct {
	Facts
	p        *Plan
	task     bool              // the plan belongs to a task
	given    map[string]string // values of vars that are not in the plan
	steps    []placedStep      // all steps, those of groups after the group
	problems []Problem
}

// placedStep is a step and its position.
type placedStep struct {
	Step
	pointer string   // JSON pointer
	groups  []string // ids of the groups around the step
	loops   []string // variables of the loops around the step, its own last
	runs    int      // how often the step is done, as far as it is known
	scope   scope    // the known values
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

// asWarning turns a problem into a warning.
func (p *Problem) asWarning(hint string) { p.Warning, p.Hint = true, hint }

// addStepProblem adds a problem of a step's field, with the step's id in the message.
func (c *checker) addStepProblem(s *placedStep, field, format string, args ...any) *Problem {
	at := s.pointer
	if field != "" {
		at += "/" + field
	}
	return c.add(at, "step "+s.ID+": "+format, args...)
}

// maxRuns is the maximum number of steps in a run, counting those of loops each time.
const maxRuns = 5000

func (c *checker) collect(steps []Step, at string, outer *placedStep, runs int) {
	for i, s := range steps {
		p := placedStep{Step: s, pointer: fmt.Sprintf("%s/%d", at, i), runs: runs, scope: scope{}.inFile("", c.p, nil)}
		if outer != nil {
			p.groups, p.loops, p.scope = append(slices.Clone(outer.groups), outer.ID), slices.Clone(outer.loops), outer.scope
		}
		p.scope = p.scope.inStep(&steps[i])
		if v := s.Loop(); v != "" {
			p.loops = append(p.loops, v)
			p.runs = min(runs*s.rounds(), maxRuns+1)
		}
		c.steps = append(c.steps, p)
		c.collect(s.Steps, p.pointer+"/steps", &p, p.runs)
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

// checkIDs checks the number of steps and that their ids are unique.
func (c *checker) checkIDs() {
	if n := len(c.steps); c.MaxSteps > 0 && n > c.MaxSteps {
		c.add("/steps", "has %d steps, those of groups counted, may have at most %d", n, c.MaxSteps).Hint = "put together what is one outcome, or raise planning.max_steps"
	}
	first, runs := map[string]*placedStep{}, 0
	for i := range c.steps {
		s := &c.steps[i]
		runs = min(runs+s.runs, maxRuns+1)
		if other := first[s.ID]; other != nil {
			c.add(s.pointer+"/id", "%s is the id of another step too, in line %d", s.ID, line(c.p.lines, other.pointer+"/id"))
			continue
		}
		first[s.ID] = s
	}
	if runs > maxRuns {
		c.add("/steps", "its loops make more than %d steps of it", maxRuns)
	}
}

// checkFiles checks the paths of files and touches.
func (c *checker) checkFiles() {
	seen := map[string]bool{}
	for i, f := range c.p.Files {
		at := fmt.Sprintf("/files/%d/path", i)
		if strings.Contains(f.Path, "{{") {
			c.add(at, "%s is to be written without placeholders", f.Path)
			continue
		}
		if why := pathFault(f.Path); why != "" {
			c.add(at, "%s %s", f.Path, why)
			continue
		}
		clean := path.Clean(f.Path)
		if seen[clean] {
			c.add(at, "%s is in the list twice", f.Path)
			continue
		}
		seen[clean] = true
		c.checkExists(at, f, clean)
	}
	for i, glob := range c.p.Touches {
		at := fmt.Sprintf("/touches/%d", i)
		if why := pathFault(glob); why != "" {
			c.add(at, "%s %s", glob, why)
		} else if c.GlobFault == nil {
			continue
		} else if why := c.GlobFault(glob); why != "" {
			c.add(at, "%s", why).Hint = "write a path or a glob, such as api/**"
		}
	}
}

func (c *checker) checkExists(at string, f File, clean string) {
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
		c.add(at, "%s does not exist, so the plan can't %s it", f.Path, f.Change).Hint = `say "change": "new", or fix the path`
	}
}

// pathFault describes why a path is not one of the repository's own files, "" if it is.
func pathFault(p string) string {
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
