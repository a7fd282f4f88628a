package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

const (
	maxNesting = 10     // maximum depth of files of steps that call each other
	maxVisits  = 20_000 // maximum number of steps visited, counting those of a file for each call
)

// scope is the values that steps see, as far as they are known before a run.
type scope struct {
	file   string            // key of the steps' file
	chain  []string          // the chain of files that call each other, from the main one to this one
	values map[string]string // known values of the file's vars
	loops  []*Step           // the loops around the step, its own last
}

// inFile returns the scope of the steps of a file, called with vars. From the zero scope, that file is the main one.
func (sc scope) inFile(file string, p *Plan, vars map[string]*string) scope {
	in := scope{file: file, chain: append(slices.Clone(sc.chain), file), values: map[string]string{}}
	for name, v := range p.Vars {
		if given := vars[name]; given != nil {
			if sc.knowsAll(*given) {
				in.values[name] = Fill(*given, sc.values)
			}
		} else if v != nil {
			in.values[name] = *v
		}
	}
	return in
}

// inStep returns the scope inside a step, in each round of its loop if it has one.
func (sc scope) inStep(s *Step) scope {
	if s.Loop() != "" {
		sc.loops = append(slices.Clone(sc.loops), s)
	}
	return sc
}

// items returns the items of the innermost loop with that variable. ok reports whether they are known.
func (sc scope) items(name string) (items []string, ok bool) {
	for i := len(sc.loops) - 1; i >= 0; i-- {
		s := sc.loops[i]
		if s.Loop() != name {
			continue
		}
		known := s.ForEach == nil || s.ForEach.Command == "" && !slices.ContainsFunc(s.ForEach.Items, func(item string) bool { return !sc.knowsAll(item) })
		return s.Items(sc.values), known
	}
	return nil, false
}

// knowsAll reports whether every value that a text refers to is known, and the same in all rounds.
func (sc scope) knowsAll(text string) bool {
	return !slices.ContainsFunc(placeholders(text), func(name string) bool {
		_, known := sc.values[name]
		return !known
	})
}

// expansions returns the different texts that a text becomes in the rounds of the loops around it. If a value is known only during the
// run, unknown is its name.
func (sc scope) expansions(text string) (list []string, unknown string) {
	rounds := []map[string]string{{}}
	for _, name := range placeholders(text) {
		items := []string{sc.values[name]}
		if _, known := sc.values[name]; !known {
			if items, known = sc.items(name); !known || len(rounds)*len(items) > maxRuns {
				return nil, name
			}
		}
		var more []map[string]string
		for _, values := range rounds {
			for _, item := range items {
				with := maps.Clone(values)
				with[name] = item
				more = append(more, with)
			}
		}
		rounds = more
	}
	seen := map[string]bool{}
	for _, values := range rounds {
		if s := Fill(text, values); !seen[s] {
			seen[s], list = true, append(list, s)
		}
	}
	return list, ""
}

// followCalls visits the files that steps of the main one call, recursively, and counts the activities of a run.
func (l *loader) followCalls(main *loadedFile) {
	n := l.visitSteps(main, main.plan.Steps, "/steps", scope{}.inFile(main.key, main.plan, nil))
	if n > maxActivities {
		p := main.plan.problem("/steps", "a run takes up to %d activities, %d are allowed", n, maxActivities)
		if n >= manyActivities {
			p = main.plan.problem("/steps", "a run takes more than %d activities, %d are allowed", manyActivities, maxActivities)
		}
		p.Hint = "fewer rounds of loops, fewer attempts, or several runs"
		main.problems = append(main.problems, p)
	}
}

// visitSteps visits a list of steps, and returns how many activities they take.
func (l *loader) visitSteps(f *loadedFile, steps []Step, at string, sc scope) (n int) {
	for i := range steps {
		s, at := &steps[i], fmt.Sprintf("%s/%d", at, i)
		if l.visits++; l.visits > maxVisits {
			return manyActivities
		}
		in, inner := sc.inStep(s), 0
		switch s.Kind() {
		case Group:
			inner = l.visitSteps(f, s.Steps, at+"/steps", in)
		case Workflow:
			inner = l.visitCall(f, s, at, in)
		}
		n = min(n+s.countActivities(inner), manyActivities)
	}
	return n
}

// visitCall visits the files that a step calls.
func (l *loader) visitCall(f *loadedFile, s *Step, at string, sc scope) (n int) {
	if s.Workflow == "" {
		return 0
	}
	list, unknown := sc.expansions(s.Workflow)
	if unknown != "" {
		loops := slices.ContainsFunc(sc.loops, func(s *Step) bool { return s.Loop() == unknown })
		if _, declared := f.plan.Vars[unknown]; declared || loops {
			l.addProblem(f, at+"/workflow", "write the name, or the items of the loop, in full",
				"step %s: its file has to be known before the run, and {{%s}} is not", s.ID, unknown)
		}
		return 0
	}
	l.visits += len(list)
	for _, name := range list {
		if strings.Contains(name, "://") {
			l.addProblem(f, at+"/workflow", "fetch the file first, and name the copy", "step %s: %s is not here: Trellis runs no file from elsewhere", s.ID, name)
		} else {
			n = max(n, l.visitFile(f, s, at, l.bundle.FileKey(sc.file, name), sc))
		}
	}
	return n
}

func (l *loader) addProblem(f *loadedFile, at, hint, format string, args ...any) {
	p := f.plan.problem(at, format, args...)
	p.Hint = hint
	f.problems = append(f.problems, p)
}

// visitFile visits one file that a step calls.
func (l *loader) visitFile(f *loadedFile, s *Step, at, key string, sc scope) int {
	chain := func() string {
		var list []string
		for _, file := range append(slices.Clone(sc.chain), key) {
			list = append(list, l.displayPath(file))
		}
		return strings.Join(list, " → ")
	}
	switch {
	case slices.Contains(sc.chain, key):
		l.addProblem(f, at+"/workflow", "take one of the calls out", "step %s: these files call each other without end: %s", s.ID, chain())
		return 0
	case len(sc.chain) > maxNesting:
		l.addProblem(f, at+"/workflow", "", "step %s: files call each other more than %d deep: %s", s.ID, maxNesting, chain())
		return 0
	}
	_, before := l.files[key]
	other := l.readFile(key)
	if other.plan != nil && !before {
		other.problems = append(other.problems, other.plan.check(Facts{Exists: l.Facts.Exists, Missing: l.Facts.Missing}, false, nil)...)
	}
	switch {
	case errors.Is(other.err, fs.ErrNotExist):
		begins := "a name is relative to the folder of the file that it is in"
		if l.Task && f.key == l.bundle.Main {
			begins = "a name begins at the top of the repository"
		}
		l.addProblem(f, at+"/workflow", begins, "step %s: there is no file %s", s.ID, other.name)
	case other.err != nil:
		l.addProblem(f, at+"/workflow", "", "step %s: %s: %s", s.ID, other.name, readFailure(other.err))
	case other.plan != nil && l.checkCallVars(f, s, at, other):
		return l.visitSteps(other, other.plan.Steps, "/steps", sc.inFile(key, other.plan, s.Vars))
	}
	return 0
}

// checkCallVars reports whether a step gives a file only vars that it declares, and all that it needs.
func (l *loader) checkCallVars(f *loadedFile, s *Step, at string, other *loadedFile) bool {
	vars, ok := other.plan.Vars, true
	for _, name := range names(s.Vars) {
		if _, declared := vars[name]; !declared {
			l.addProblem(f, at+"/vars/"+name, varHint(name, vars), "step %s: %s declares no var %s", s.ID, other.name, name)
			ok = false
		}
	}
	if !ok {
		return false
	}
	for _, name := range names(vars) {
		if vars[name] == nil && s.Vars[name] == nil {
			l.addProblem(f, at+"/workflow", fmt.Sprintf("give it in the step's vars: {%q: …}", name), "step %s: %s needs a value for %s", s.ID, other.name, name)
			ok = false
		}
	}
	return ok
}
