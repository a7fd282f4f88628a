package plan

import (
	"fmt"
	"strings"
)

// Basis returns the parts of a plan that apply to all of the work, whoever does or judges it.
func (p *Plan) Basis() string {
	o := &outline{}
	o.line("# %s", p.Title)
	if s := strings.TrimSpace(p.Summary); s != "" {
		o.line("\n%s", s)
	}
	o.list("Design decisions", p.DesignDecisions)
	o.list("Assumptions", p.Assumptions)
	o.list("Left out on purpose", p.uncovered())
	o.list("Out of scope", p.OutOfScope)
	return o.String()
}

// Course returns the rest of the plan as text for the agent that carries it out: everything besides Basis that says what to do
// and how the result is judged.
func (p *Plan) Course() string {
	o := &outline{}
	o.list("Requirements", p.Requirements)
	o.list("Before the work", p.preconditions())
	o.list("Files", p.changes())
	o.list("It may touch", p.Touches)
	o.list("Values", p.values())
	o.steps(p)
	o.list("Done when", p.criteria())
	o.list("To undo it", p.Rollback)
	return strings.TrimPrefix(o.String(), "\n")
}

// outline builds a text with headings and lists.
type outline struct{ strings.Builder }

func (o *outline) line(format string, args ...any) { fmt.Fprintf(o, format+"\n", args...) }

func (o *outline) list(heading string, items []string) {
	if len(items) == 0 {
		return
	}
	o.line("\n## %s\n", heading)
	for _, item := range items {
		o.line("- %s", indented(item, "  "))
	}
}

// indented indents all lines of a text except the first.
func indented(s, by string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+by)
}

func (p *Plan) preconditions() (list []string) {
	for _, c := range p.Preconditions {
		if c.Command != "" {
			list = append(list, "`"+c.Command+"` succeeds")
		} else {
			list = append(list, c.Text)
		}
	}
	return list
}

func (p *Plan) changes() (list []string) {
	for _, f := range p.Files {
		list = append(list, f.Change+" "+f.Path)
	}
	return list
}

func (p *Plan) values() (list []string) {
	for _, name := range names(p.Vars) {
		if v := p.Vars[name]; v != nil {
			list = append(list, "{{"+name+"}} is "+*v)
		}
	}
	return list
}

func (p *Plan) criteria() (list []string) {
	for _, a := range p.Acceptance {
		s := a.Criterion
		if a.Level == "should" {
			s += " (should)"
		}
		if a.Verify != "" {
			s += "\nverify: `" + a.Verify + "`"
		}
		if len(a.Covers) > 0 {
			s += "\ncovers: " + strings.Join(a.Covers, "; ")
		}
		list = append(list, s)
	}
	return list
}

func (p *Plan) uncovered() (list []string) {
	for _, u := range p.Uncovered {
		list = append(list, u.Item+": "+u.Reason)
	}
	return list
}

func (o *outline) steps(p *Plan) {
	o.line("\n## Steps\n")
	if p.Parallel {
		o.line("Steps that wait for nothing may be done in any order.\n")
	}
	last := p.VerificationAt()
	for i, s := range p.Steps {
		o.step(s, fmt.Sprintf("%d.", i+1), "")
		if i >= last {
			o.line("   - it is run when all is done, whoever did the work")
		}
	}
}

func (o *outline) step(s Step, number, indent string) {
	deeper := indent + strings.Repeat(" ", len(number)+1)
	title := s.ID
	if s.Title != "" {
		title += ": " + s.Title
	}
	o.line("%s%s %s (%s)", indent, number, title, s.Kind())
	for _, f := range s.outlineFields() {
		if f.text == "" {
			continue
		}
		if strings.Contains(strings.TrimSpace(f.text), "\n") {
			o.line("%s- %s:\n%s  %s", deeper, f.name, deeper, indented(f.text, deeper+"  "))
		} else {
			o.line("%s- %s: %s", deeper, f.name, strings.TrimSpace(f.text))
		}
	}
	for i, inner := range s.Steps {
		o.step(inner, fmt.Sprintf("%s%d.", number, i+1), deeper)
	}
}

// outlineField is one field of a step, with its text in the outline.
type outlineField struct{ name, text string }

// outlineFields returns the fields of a step except its id, title, type and steps.
func (s Step) outlineFields() []outlineField {
	return []outlineField{
		{"why", s.Description},
		{"after", s.dependencies()},
		{"for", s.loopPhrase()},
		{"do", s.Prompt},
		{"run", code(s.Command)},
		{"say", s.Message},
		{"steps of the file", code(s.Workflow)},
		{"values", pairs(s.Vars)},
		{"read first", strings.Join(inBraces(s.Context), ", ")},
		{"result goes to", strings.Join(inBraces([]string{s.Output}), "")},
		{"outcome", s.DesiredOutcome},
		{"verify", code(s.Verify)},
		{"proof", s.Proof.description()},
		{"judged", textUnless(!s.LLMAsJudge, "an agent judges the outcome"+atMostTimes(s.MaxJudgeAttempts))},
		{"on failure", s.failurePhrase()},
		{"risk", s.Risk + textUnless(s.Risk != "high", ": people are asked before this step")},
		{"at most", textUnless(s.TimeoutSeconds == 0, fmt.Sprintf("%v seconds", s.TimeoutSeconds))},
		{"covers", strings.Join(s.Covers, "; ")},
		{"order", textUnless(!s.Parallel, "its steps that wait for nothing may be done in any order")},
		{"meant for", s.agentPhrase()},
	}
}

func textUnless(absent bool, text string) string {
	if absent {
		return ""
	}
	return text
}

func code(s string) string { return textUnless(s == "", "`"+s+"`") }

func inBraces(list []string) (out []string) {
	for _, name := range list {
		out = append(out, textUnless(name == "", "{{"+name+"}}"))
	}
	return out
}

func atMostTimes(attempts int) string {
	return textUnless(attempts == 0, fmt.Sprintf(", at most %d times", attempts))
}

func (s Step) dependencies() string {
	switch {
	case s.DependsOn == nil:
		return ""
	case len(*s.DependsOn) == 0:
		return "nothing"
	}
	return strings.Join(*s.DependsOn, ", ")
}

func (s Step) loopPhrase() string {
	how := textUnless(s.Concurrency == 0, fmt.Sprintf(", up to %d at a time", s.Concurrency))
	switch {
	case s.Repeat > 0:
		return fmt.Sprintf("{{%s}} from 1 to %d%s", s.Loop(), s.Repeat, how)
	case s.ForEach == nil:
		return ""
	case s.ForEach.Command != "":
		return fmt.Sprintf("each {{%s}} that `%s` prints%s", s.Loop(), s.ForEach.Command, how)
	}
	return fmt.Sprintf("each {{%s}} of %s%s", s.Loop(), strings.Join(s.ForEach.Items, ", "), how)
}

func (s Step) failurePhrase() string {
	var list []string
	if s.SelfHealing {
		list = append(list, "fix the cause, then run it again"+atMostTimes(s.MaxHealingAttempts))
	}
	if s.ContinueOnError {
		list = append(list, "continue")
	}
	return strings.Join(list, "; else ")
}

func (s Step) agentPhrase() string {
	var list []string
	add := func(name, text string) {
		if text != "" {
			list = append(list, name+" "+text)
		}
	}
	add("agent", s.Agent)
	add("model", s.Model)
	add("session", s.Session)
	if s.AllowedTools != nil {
		add("tools:", strings.Join(*s.AllowedTools, ", ")+textUnless(len(*s.AllowedTools) > 0, "none"))
	}
	return strings.Join(list, ", ")
}

// pairs returns vars on one line.
func pairs(vars map[string]*string) string {
	var list []string
	for _, name := range names(vars) {
		v := "to be given"
		if vars[name] != nil {
			v = *vars[name]
		}
		list = append(list, name+" = "+v)
	}
	return strings.Join(list, ", ")
}

// description describes what proves a step.
func (p *Proof) description() string {
	if p == nil {
		return ""
	}
	var list []string
	switch p.Type {
	case "file":
		list = append(list, "the file "+p.Path+" is there")
		if p.Contains != "" {
			list = append(list, fmt.Sprintf("it has %q", p.Contains))
		}
		if p.SHA256 != "" {
			list = append(list, "its SHA-256 sum is "+p.SHA256)
		}
	case "composite":
		list = append(list, joinProofs(p.All, " and "), textUnless(len(p.Any) == 0, "one of "+joinProofs(p.Any, ", ")))
	case "manual":
		list = append(list, "a person says so")
	default:
		list = append(list, p.Type)
	}
	return strings.Trim(strings.Join(list, ", "), ", ")
}

func joinProofs(proofs []Proof, by string) string {
	var list []string
	for i := range proofs {
		list = append(list, "("+proofs[i].description()+")")
	}
	return strings.Join(list, by)
}
