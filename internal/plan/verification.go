package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxVerifications is the maximum number of commands in a verification step; a step with more is an ordinary step.
const maxVerifications = 50

// Verification is one command of the plan's verification steps, in one round of the loops around it.
type Verification struct {
	Path    string // the path of the round in a run, such as each.2.lint
	Step    Step
	Command string
}

// proves reports whether the step is a command that is its own proof.
func (s Step) proves() bool {
	return s.Kind() == Script && s.Proof != nil && slices.Contains([]string{"test", "lint", "build"}, s.Proof.Type)
}

// verifies reports whether a step only proves: it does so itself, or all steps of the group do, in rounds that are known before
// a run.
func (s Step) verifies() bool {
	if s.ForEach != nil && s.ForEach.Command != "" || s.commandCount() > maxVerifications {
		return false
	}
	if s.Kind() != Group {
		return s.proves()
	}
	own := s.ContinueOnError || s.NeedsApproval() || s.Provable()
	return !own && len(s.Steps) > 0 && !slices.ContainsFunc(s.Steps, func(inner Step) bool { return !inner.verifies() })
}

// commandCount returns how many commands a step runs, counting those of each round.
func (s Step) commandCount() int {
	n := 1
	if s.Kind() == Group {
		n = 0
	}
	for _, inner := range s.Steps {
		n = min(n+inner.commandCount(), maxRuns)
	}
	return min(n*min(s.rounds(), maxRuns), maxRuns)
}

// VerificationAt returns the index of the first verification step: the steps at the end that only prove tests, lint or a build.
func (p *Plan) VerificationAt() int { return p.tailIndex(Step.verifies) }

// VerifyingScriptsAt returns where earlier versions had the verification steps begin: a group was an ordinary step then.
func (p *Plan) VerifyingScriptsAt() int { return p.tailIndex(Step.proves) }

// tailIndex returns the index of the first of the trailing steps for which matches returns true.
func (p *Plan) tailIndex(matches func(Step) bool) int {
	i := len(p.Steps)
	for i > 0 && matches(p.Steps[i-1]) {
		i--
	}
	return i
}

// Verification returns the commands of the plan's verification steps, each once. Whoever carries out the plan leaves them to
// those who check it.
func (p *Plan) Verification() (commands []string) {
	for _, v := range p.Verifications() {
		if !slices.Contains(commands, v.Command) {
			commands = append(commands, v.Command)
		}
	}
	return commands
}

// Verifications returns all rounds of the verification steps.
func (p *Plan) Verifications() (list []Verification) {
	r := round{values: scope{}.inFile("", p, nil).values}
	for _, s := range p.Steps[p.VerificationAt():] {
		list = append(list, r.step(s)...)
	}
	return list
}

// Phases returns the titles of the steps before the verification steps.
func (p *Plan) Phases() (titles []string) {
	for _, s := range p.Steps[:p.VerificationAt()] {
		titles = append(titles, p.fill(cmp.Or(s.Title, s.ID)))
	}
	return titles
}

// Tests returns the commands that prove those steps, each once.
func (p *Plan) Tests() (commands []string) {
	var collect func([]Step)
	collect = func(steps []Step) {
		for _, s := range steps {
			if c := p.fill(s.Verify); c != "" && !slices.Contains(commands, c) {
				commands = append(commands, c)
			}
			collect(s.Steps)
		}
	}
	collect(p.Steps[:p.VerificationAt()])
	return commands
}

// round is one round of the loops around a step.
type round struct {
	path   string
	values map[string]string // values of vars and of the loop variables
	loops  []string          // loop variables
}

// step returns the commands of a verification step, in all rounds of its own loop.
func (r round) step(s Step) (list []Verification) {
	r.path = stepPath(r.path, s.ID)
	if s.Loop() == "" {
		return r.oneRound(s)
	}
	for i, item := range s.Items(r.values) {
		in := round{fmt.Sprintf("%s.%d", r.path, i+1), maps.Clone(r.values), append(slices.Clone(r.loops), s.Loop())}
		in.values[s.Loop()] = item
		list = append(list, in.oneRound(s)...)
	}
	return list
}

func (r round) oneRound(s Step) (list []Verification) {
	if s.Kind() != Group {
		return []Verification{{r.path, s, r.command(s)}}
	}
	for _, inner := range s.Steps {
		list = append(list, r.step(inner)...)
	}
	return list
}

// command returns the command line of a step. In a run, loop variables are set in the environment; here the command sets those
// that it uses.
func (r round) command(s Step) string {
	line, set := Fill(s.Command, r.values), ""
	for _, name := range r.loops {
		if strings.Contains(s.Command, "$"+name) || strings.Contains(s.Command, "${"+name) {
			set += name + "='" + strings.ReplaceAll(r.values[name], "'", `'\''`) + "'; export " + name + "; "
		}
	}
	return set + line
}

// Items returns the items of a loop that doesn't get them from a command.
func (s Step) Items(values map[string]string) (items []string) {
	for i := range s.Repeat {
		items = append(items, strconv.Itoa(i+1))
	}
	if s.ForEach != nil {
		for _, item := range s.ForEach.Items {
			items = append(items, Fill(item, values))
		}
	}
	return items
}
