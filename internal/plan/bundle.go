package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Bundle is a plan with the files that its workflow steps name, read, checked and given values: nothing in it
// changes any more. Hash names all of it.
type Bundle struct {
	Hash  string
	Main  string            // key of the plan itself
	Plans map[string]*Plan  // by path, from the folder of the main file
	Given map[string]string // values that a person gave (--var); the main plan's vars have them already

	task   bool
	frozen []byte // all of it, as it is kept on disk
}

// Place is where a step stands: in which file of a bundle, and by which places in the lists from the top.
type Place struct {
	File string `json:"file,omitempty"` // "" is the main one
	At   []int  `json:"at"`
}

// In is the place of the nth step of the group at p.
func (p Place) In(n int) Place {
	return Place{p.File, append(p.At[:len(p.At):len(p.At)], n)}
}

// Plan is a file of the bundle, nil when there is none; "" is the main one.
func (b *Bundle) Plan(file string) *Plan {
	file = cmp.Or(file, b.Main)
	return b.Plans[file]
}

// Step is the step at a place, nil when there is none.
func (b *Bundle) Step(at Place) *Step {
	p := b.Plan(at.File)
	if p == nil {
		return nil
	}
	steps, s := p.Steps, (*Step)(nil)
	for _, n := range at.At {
		if n < 0 || n >= len(steps) {
			return nil
		}
		s = &steps[n]
		steps = s.Steps
	}
	return s
}

// StepHash names what a step is: its definition, and the values that its plan's vars have.
func (p *Plan) StepHash(s Step) string {
	raw, err := json.Marshal(struct {
		Step Step
		Vars map[string]*string
	}{s, p.Vars})
	if err != nil {
		panic(fmt.Sprintf("a step has no JSON form: %v", err)) // it was read from one
	}
	return hashOf(raw)
}

// Fill puts values into a text in one pass: nothing in a value is looked at again. What has no value stays.
func Fill(text string, values map[string]string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return placeholder().ReplaceAllStringFunc(text, func(found string) string {
		if v, ok := values[strings.Trim(found, "{}")]; ok && found[0] != '$' {
			return v
		}
		return found
	})
}

// Called is the key of the file that a step of another one names.
func (b *Bundle) Called(file, name string) string {
	file = cmp.Or(file, b.Main)
	if strings.Contains(name, "://") || path.IsAbs(name) {
		return name
	}
	return path.Join(path.Dir(file), name)
}

// Provable reports whether there is something that proves a step: a step without a check is never proven.
func (s Step) Provable() bool { return s.Proof != nil || s.Verify != "" || s.Kind() == Approval }

// ProofKind is the kind of a step's proof.
func (s Step) ProofKind() string {
	switch {
	case s.Proof != nil:
		return s.Proof.Type
	case s.Kind() == Approval:
		return "manual"
	}
	return "script"
}
