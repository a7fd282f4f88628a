package eval

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Check is the result of checking a plan for one thing.
type Check struct {
	What   string `json:"what"`
	Held   bool   `json:"held"`
	Detail string `json:"detail"` // if it did not hold
}

// Result is the result of a case. A plan is checked only if the requirement was to be accepted and was.
type Result struct {
	ID       string        `json:"id"`
	Project  string        `json:"project"`
	Kind     string        `json:"kind"`
	Wanted   string        `json:"wanted"` // accept, reject
	Right    []string      `json:"right"`  // correct categories or sizes, the best one first
	Got      string        `json:"got"`    // accept, reject, failed
	Category string        `json:"category"`
	Details  string        `json:"details"` // of a rejection
	Size     trellis.Size  `json:"size"`
	Failure  string        `json:"failure"` // why the planner failed
	Planned  bool          `json:"planned"` // there is a plan.json
	Checks   []Check       `json:"checks"`
	Score    float64       `json:"score"` // from 0 to 1
	Calls    int           `json:"calls"`
	Usage    trellis.Usage `json:"usage"`
	Seconds  float64       `json:"seconds"` // from the first call to the end
}

// newResult returns the result of a case before anything is known.
func newResult(c Case) Result {
	r := Result{ID: c.ID, Project: c.Project.Name, Kind: c.Kind, Wanted: c.Wanted(), Right: c.Reject, Got: Failed, Checks: []Check{}}
	if c.Accept != nil {
		r.Right = trellis.Strings(c.Accept.Sizes)
	}
	return r
}

// complete fills in a result from what the planning left in its task directory.
func (r *Result) complete(c Case, repo, dir string) error {
	e, err := readEvidence(c.Project, repo, dir)
	if err != nil {
		return err
	}
	r.Size, r.Planned = e.task.Pipeline.Size, e.plan != nil
	switch e.task.Status {
	case trellis.Rejected:
		r.Got, r.Category, r.Details = Reject, e.task.Pipeline.Rejection.Category, e.task.Pipeline.Rejection.Details
	case trellis.Ready, trellis.Waiting:
		r.Got = Accept
	default:
		f := e.task.Pipeline.Failure
		r.Failure = cmp.Or(r.Failure, strings.Trim(string(f.Code)+": "+f.Detail, ": "), "the planning ended as "+string(e.task.Status))
	}
	if r.Got == Accept && c.Accept != nil {
		r.Checks = e.checks(c)
	}
	r.Score = r.score()
	return nil
}

// score returns 1 for a completely correct result and 0 for a wrong decision or none. The correct decision is one half; the
// other half is a correct category, or the share of checks that held.
func (r *Result) score() float64 {
	switch {
	case r.Got != r.Wanted:
		return 0
	case r.Got == Reject && slices.Contains(r.Right, r.Category):
		return 1
	case r.Got == Reject:
		return 0.5
	}
	return 0.5 + 0.5*float64(r.Held())/float64(max(1, len(r.Checks)))
}

// Held returns how many of the checks held.
func (r Result) Held() (n int) {
	for _, c := range r.Checks {
		if c.Held {
			n++
		}
	}
	return n
}

// checks checks the plan of an accepted requirement.
func (e evidence) checks(c Case) []Check {
	a := c.Accept
	list := []Check{newCheck(slices.Contains(a.Sizes, e.task.Pipeline.Size), "the size is "+strings.Join(trellis.Strings(a.Sizes), " or "), string(e.task.Pipeline.Size))}
	named := append(e.changedPaths(), e.contextPaths...)
	for _, glob := range a.Cites {
		list = append(list, newCheck(slices.ContainsFunc(named, citationMatcher(glob)), "cites "+glob, named...))
	}
	paths := e.inventedPaths()
	list = append(list, newCheck(len(paths) == 0, "invents no path", paths...))
	list = append(list, newCheck(len(e.criteriaCommands) >= a.Verified, fmt.Sprintf("%d or more acceptance criteria have a command", a.Verified), e.criteriaCommands...))
	for _, rule := range a.Mentions {
		list = append(list, newCheck(regexp.MustCompile(rule).MatchString(e.prdText), "mentions /"+rule+"/"))
	}
	list = append(list, e.commandChecks(c)...)
	if e.plan != nil {
		list = append(list, e.planChecks(c)...)
	}
	return list
}

// commandChecks checks the commands that are to prove the work.
func (e evidence) commandChecks(c Case) (list []Check) {
	last, checked := -1, e.decidingCommands()
	for _, spellings := range c.Project.Commands {
		at := slices.IndexFunc(checked, func(s string) bool { return slices.Contains(spellings, s) })
		ordered := e.plan == nil || at > last
		list = append(list, newCheck(at >= 0 && ordered, "is checked by "+strings.Join(spellings, " or "), checked...))
		last = max(last, at)
	}
	var invented []string
	for _, command := range e.proofCommands() {
		if why := e.project.Missing(command); why != "" {
			invented = append(invented, command+" ("+why+")")
		}
	}
	list = append(list, newCheck(len(invented) == 0, "invents no command", invented...))
	for _, rule := range c.Accept.Never {
		fit := slices.DeleteFunc(e.proofCommands(), func(s string) bool { return !regexp.MustCompile(rule).MatchString(s) })
		list = append(list, newCheck(len(fit) == 0, "has no command like /"+rule+"/", fit...))
	}
	return list
}

func (e evidence) planChecks(c Case) []Check {
	a, n, changed := c.Accept, len(allSteps(e.plan.Steps)), e.changedPaths()
	list := []Check{
		newCheck(len(e.planProblems) == 0, "plan.json is valid", e.planProblems...),
		newCheck(n <= a.MaxSteps, fmt.Sprintf("has at most %d steps", a.MaxSteps), fmt.Sprint(n)),
	}
	for _, glob := range a.Changes {
		list = append(list, newCheck(slices.ContainsFunc(changed, globMatcher(glob)), "changes "+glob, changed...))
	}
	for _, glob := range a.Spares {
		list = append(list, newCheck(!slices.ContainsFunc(changed, globMatcher(glob)), "leaves "+glob+" alone", changed...))
	}
	if j := e.task.Pipeline.Judge; j != nil {
		list = append(list, newCheck(j.Pass, "the judge passed it", j.Feedback))
	}
	if len(c.Project.Commands) == 0 {
		last := plan.Step{}
		if n := len(e.plan.Steps); n > 0 {
			last = e.plan.Steps[n-1]
		}
		list = append(list, newCheck(last.Kind() == plan.Prompt && last.LLMAsJudge, "its last step is judged, for want of a command", last.ID))
	}
	return list
}

// newCheck returns a Check; if it did not hold, instead says what was found.
func newCheck(held bool, what string, instead ...string) Check {
	const shown = 6
	switch {
	case held:
		return Check{What: what, Held: true}
	case len(instead) > shown:
		instead = append(instead[:shown:shown], "…")
	}
	return Check{What: what, Detail: strings.Join(instead, ", ")}
}

func globMatcher(glob string) func(path string) bool {
	return func(path string) bool { return doublestar.MatchUnvalidated(glob, path) }
}

// citationMatcher returns a function that reports whether a path, or a folder that ends in /, covers what matches glob.
func citationMatcher(glob string) func(path string) bool {
	return func(path string) bool {
		return globMatcher(glob)(path) || strings.HasSuffix(path, "/") && strings.HasPrefix(glob, path)
	}
}
