package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Bundle is a plan with the files that its workflow steps name, read, checked and with values filled in. It doesn't change any
// more. Hash identifies all of it.
type Bundle struct {
	Hash  string
	Main  string            // key of the plan itself
	Plans map[string]*Plan  // by path, relative to the folder of the main file
	Given map[string]string // values that a person gave (--var); already filled into the main plan's vars

	task   bool
	frozen []byte // all of it in the form that is saved
}

// Place is the position of a step: its file in a bundle, and its index in each list of steps from the top.
type Place struct {
	File string `json:"file,omitempty"` // "": the main one
	At   []int  `json:"at"`
}

// In returns the place of the nth step of the group at p.
func (p Place) In(n int) Place {
	return Place{p.File, append(p.At[:len(p.At):len(p.At)], n)}
}

// Plan returns a file of the bundle, nil if there is none; "" is the main one.
func (b *Bundle) Plan(file string) *Plan {
	file = cmp.Or(file, b.Main)
	return b.Plans[file]
}

// Step returns the step at a place, nil if there is none.
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

// StepHash returns the hash of a step: its definition, and the values of its plan's vars.
func (p *Plan) StepHash(s Step) string {
	raw, err := json.Marshal(struct {
		Step Step
		Vars map[string]*string
	}{s, p.Vars})
	if err != nil {
		panic(fmt.Sprintf("a step has no JSON form: %v", err)) // it was parsed from JSON
	}
	return hashOf(raw)
}

// Fill replaces placeholders in a text in one pass: replaced values are not searched again. Placeholders without a value stay.
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

// FileKey returns the key of the file that a step in another file names.
func (b *Bundle) FileKey(file, name string) string {
	file = cmp.Or(file, b.Main)
	if strings.Contains(name, "://") || path.IsAbs(name) {
		return name
	}
	return path.Join(path.Dir(file), name)
}

// Provable reports whether a step can be proven: a step without a check never is.
func (s Step) Provable() bool { return s.Proof != nil || s.Verify != "" || s.Kind() == Approval }

// ProofKind returns the kind of a step's proof.
func (s Step) ProofKind() string {
	switch {
	case s.Proof != nil:
		return s.Proof.Type
	case s.Kind() == Approval:
		return "manual"
	}
	return "script"
}
