package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxVerifications is how many commands a verification step may stand for; one that stands for more is a step like others.
const maxVerifications = 50

// Verification is one command of the plan's verification steps, in one round of the loops around it.
type Verification struct {
	Path    string // as a run names the round: each.2.lint
	Step    Step
	Command string
}

// proves reports whether a command that is its own proof belongs to the step.
func (s Step) proves() bool {
	return s.Kind() == Script && s.Proof != nil && slices.Contains([]string{"test", "lint", "build"}, s.Proof.Type)
}

// verifies reports whether a step does nothing but prove: it does itself, or all steps that it groups do, in rounds
// that are known before a run.
func (s Step) verifies() bool {
	if s.ForEach != nil && s.ForEach.Command != "" || s.commands() > maxVerifications {
		return false
	}
	if s.Kind() != Group {
		return s.proves()
	}
	own := s.ContinueOnError || s.Asks() || s.Provable()
	return !own && len(s.Steps) > 0 && !slices.ContainsFunc(s.Steps, func(inner Step) bool { return !inner.verifies() })
}

// commands is how many commands a step runs, those of each round counted.
func (s Step) commands() int {
	n := 1
	if s.Kind() == Group {
		n = 0
	}
	for _, inner := range s.Steps {
		n = min(n+inner.commands(), maxRuns)
	}
	return min(n*min(s.rounds(), maxRuns), maxRuns)
}

// VerificationAt is where the verification steps begin: the steps at the end that do nothing but prove tests, lint or
// a build.
func (p *Plan) VerificationAt() int { return p.tail(Step.verifies) }

// VerifyingScriptsAt is where runs of old had the verification steps begin: they did groups as they did other steps.
func (p *Plan) VerifyingScriptsAt() int { return p.tail(Step.proves) }

// tail is where the last steps begin that are of a kind.
func (p *Plan) tail(is func(Step) bool) int {
	i := len(p.Steps)
	for i > 0 && is(p.Steps[i-1]) {
		i--
	}
	return i
}

// Verification are the commands of the plan's verification steps, each once. Whoever carries out the plan leaves them
// to those who check it.
func (p *Plan) Verification() (commands []string) {
	for _, v := range p.Verifications() {
		if !slices.Contains(commands, v.Command) {
			commands = append(commands, v.Command)
		}
	}
	return commands
}

// Verifications are all rounds of the verification steps.
func (p *Plan) Verifications() (list []Verification) {
	r := round{values: scope{}.into("", p, nil).values}
	for _, s := range p.Steps[p.VerificationAt():] {
		list = append(list, r.step(s)...)
	}
	return list
}

// Phases are the titles of the steps before those of the verification.
func (p *Plan) Phases() (titles []string) {
	for _, s := range p.Steps[:p.VerificationAt()] {
		titles = append(titles, p.fill(cmp.Or(s.Title, s.ID)))
	}
	return titles
}

// Tests are the commands that prove those steps, each once.
func (p *Plan) Tests() (commands []string) {
	var of func([]Step)
	of = func(steps []Step) {
		for _, s := range steps {
			if c := p.fill(s.Verify); c != "" && !slices.Contains(commands, c) {
				commands = append(commands, c)
			}
			of(s.Steps)
		}
	}
	of(p.Steps[:p.VerificationAt()])
	return commands
}

// round is what is known in one round of the loops around a step.
type round struct {
	path   string
	values map[string]string // of vars and of the loops
	loops  []string          // their variables
}

// step are the commands of a step that verifies, in all rounds of its own.
func (r round) step(s Step) (list []Verification) {
	r.path = joined(r.path, s.ID)
	if s.Loop() == "" {
		return r.once(s)
	}
	for i, item := range s.Items(r.values) {
		in := round{fmt.Sprintf("%s.%d", r.path, i+1), maps.Clone(r.values), append(slices.Clone(r.loops), s.Loop())}
		in.values[s.Loop()] = item
		list = append(list, in.once(s)...)
	}
	return list
}

func (r round) once(s Step) (list []Verification) {
	if s.Kind() != Group {
		return []Verification{{r.path, s, r.command(s)}}
	}
	for _, inner := range s.Steps {
		list = append(list, r.step(inner)...)
	}
	return list
}

// command is what a step runs. A run sets the variables of loops in the environment; a command that asks for one there
// sets it itself.
func (r round) command(s Step) string {
	line, set := Fill(s.Command, r.values), ""
	for _, name := range r.loops {
		if strings.Contains(s.Command, "$"+name) || strings.Contains(s.Command, "${"+name) {
			set += name + "='" + strings.ReplaceAll(r.values[name], "'", `'\''`) + "'; export " + name + "; "
		}
	}
	return set + line
}

// Items are what a loop that needs no command goes through.
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
