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

// begin returns the result of a case before anything is known.
func begin(c Case) Result {
	r := Result{ID: c.ID, Project: c.Project.Name, Kind: c.Kind, Wanted: c.Wanted(), Right: c.Reject, Got: Failed, Checks: []Check{}}
	if c.Accept != nil {
		r.Right = trellis.Strings(c.Accept.Sizes)
	}
	return r
}

// judge completes a result from what the planning left in its task directory.
func (r *Result) judge(c Case, repo, dir string) error {
	e, err := look(c.Project, repo, dir)
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
	r.Score = r.mark()
	return nil
}

// mark returns 1 for a completely correct result and 0 for a wrong decision or none. The correct decision is one half; the
// other half is a correct category, or the share of checks that held.
func (r *Result) mark() float64 {
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
	list := []Check{check(slices.Contains(a.Sizes, e.task.Pipeline.Size), "the size is "+strings.Join(trellis.Strings(a.Sizes), " or "), string(e.task.Pipeline.Size))}
	named := append(e.changed(), e.named...)
	for _, glob := range a.Cites {
		list = append(list, check(slices.ContainsFunc(named, cites(glob)), "cites "+glob, named...))
	}
	paths := e.inventedPaths()
	list = append(list, check(len(paths) == 0, "invents no path", paths...))
	list = append(list, check(len(e.verified) >= a.Verified, fmt.Sprintf("%d or more acceptance criteria have a command", a.Verified), e.verified...))
	for _, rule := range a.Mentions {
		list = append(list, check(regexp.MustCompile(rule).MatchString(e.said), "mentions /"+rule+"/"))
	}
	list = append(list, e.commandChecks(c)...)
	if e.plan != nil {
		list = append(list, e.planChecks(c)...)
	}
	return list
}

// commandChecks checks the commands that are to prove the work.
func (e evidence) commandChecks(c Case) (list []Check) {
	last, checked := -1, e.checked()
	for _, spellings := range c.Project.Commands {
		at := slices.IndexFunc(checked, func(s string) bool { return slices.Contains(spellings, s) })
		ordered := e.plan == nil || at > last
		list = append(list, check(at >= 0 && ordered, "is checked by "+strings.Join(spellings, " or "), checked...))
		last = max(last, at)
	}
	var invented []string
	for _, command := range e.proofs() {
		if why := e.project.Missing(command); why != "" {
			invented = append(invented, command+" ("+why+")")
		}
	}
	list = append(list, check(len(invented) == 0, "invents no command", invented...))
	for _, rule := range c.Accept.Never {
		fit := slices.DeleteFunc(e.proofs(), func(s string) bool { return !regexp.MustCompile(rule).MatchString(s) })
		list = append(list, check(len(fit) == 0, "has no command like /"+rule+"/", fit...))
	}
	return list
}

func (e evidence) planChecks(c Case) []Check {
	a, n, changed := c.Accept, len(steps(e.plan.Steps)), e.changed()
	list := []Check{
		check(len(e.wrong) == 0, "plan.json is valid", e.wrong...),
		check(n <= a.MaxSteps, fmt.Sprintf("has at most %d steps", a.MaxSteps), fmt.Sprint(n)),
	}
	for _, glob := range a.Changes {
		list = append(list, check(slices.ContainsFunc(changed, fits(glob)), "changes "+glob, changed...))
	}
	for _, glob := range a.Spares {
		list = append(list, check(!slices.ContainsFunc(changed, fits(glob)), "leaves "+glob+" alone", changed...))
	}
	if j := e.task.Pipeline.Judge; j != nil {
		list = append(list, check(j.Pass, "the judge passed it", j.Feedback))
	}
	if len(c.Project.Commands) == 0 {
		last := plan.Step{}
		if n := len(e.plan.Steps); n > 0 {
			last = e.plan.Steps[n-1]
		}
		list = append(list, check(last.Kind() == plan.Prompt && last.LLMAsJudge, "its last step is judged, for want of a command", last.ID))
	}
	return list
}

// check returns a Check; if it did not hold, instead says what was found.
func check(held bool, what string, instead ...string) Check {
	const shown = 6
	switch {
	case held:
		return Check{What: what, Held: true}
	case len(instead) > shown:
		instead = append(instead[:shown:shown], "…")
	}
	return Check{What: what, Detail: strings.Join(instead, ", ")}
}

func fits(glob string) func(path string) bool {
	return func(path string) bool { return doublestar.MatchUnvalidated(glob, path) }
}

// cites returns a function that reports whether a path, or a folder that ends in /, covers what matches glob.
func cites(glob string) func(path string) bool {
	return func(path string) bool {
		return fits(glob)(path) || strings.HasSuffix(path, "/") && strings.HasPrefix(glob, path)
	}
}
