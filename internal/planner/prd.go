package planner

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Document is the content of prd.md: the answer of the prd agent, or taken from a plan.
type Document struct {
	Title           string      `json:"title"`
	Summary         string      `json:"summary"`
	Requirements    []string    `json:"requirements"`
	Acceptance      []Criterion `json:"acceptance"`
	DesignDecisions []string    `json:"design_decisions,omitempty"` // only from a plan
	TechnicalNotes  string      `json:"technical_notes"`
	OutOfScope      []string    `json:"out_of_scope"`
}

// Criterion is one acceptance criterion of the work.
type Criterion struct {
	Criterion string `json:"criterion"`
	Verify    string `json:"verify,omitempty"` // a command that exits with 0 if it is met
	Level     string `json:"level,omitempty"`  // must (default), should
}

func (p *planning) document(f flow.Flow, research *agentcall.Ref) (doc Document, err error) {
	reply, err := p.ask(f, trellis.PRD, 1, promptData{Verdict: &p.rep.Verdict, Research: research})
	if err != nil {
		return doc, err
	}
	if doc, err = agentcall.Decode[Document](reply); err != nil {
		return doc, err
	}
	p.rep.Title = cmp.Or(title(doc.Title), doc.Title)
	return doc, nil
}

// addConstraints adds constraints to the requirements, except those that they contain already.
func (d *Document) addConstraints(constraints []string) {
	for _, c := range constraints {
		if !slices.Contains(d.Requirements, c) {
			d.Requirements = append(d.Requirements, c)
		}
	}
}

type prd struct {
	Document
	notes      []string // of the planner, besides the technical notes
	background []string // a person's texts that help to understand the requirement
	step       roadmapStep
}

// roadmapStep is what prd.md adds for a task that is a step of a roadmap.
type roadmapStep struct {
	objective    taskdir.Objective
	phases       []string
	files        []string
	tests        []string // commands
	verification []string // commands
	dependencies []string
}

// render returns the text of prd.md. Acceptance criteria are checkboxes with their command and level below, which the run reads
// back. Texts of others can't begin a section.
func (p prd) render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Task: %s\n\n", title(p.Title))
	if objective := p.step.objective; objective.Step != "" {
		fmt.Fprintf(&b, "Part of Objective %s, Step %s\n\n", text.OneLine(objective.Name), text.OneLine(objective.Step))
	}
	fmt.Fprintf(&b, "## Overview\n\n%s\n\n## Requirements\n\n", plainSection(p.Summary))
	bullets(&b, p.Requirements)
	p.criteria(&b)
	section(&b, "Design Decisions", p.DesignDecisions)
	p.step.render(&b)
	if text := plainSection(p.TechnicalNotes); text != "" || len(p.notes) > 0 {
		fmt.Fprintf(&b, "\n## Technical Notes\n\n%s\n", text)
		bullets(&b, p.notes)
	}
	if len(p.background) > 0 {
		fmt.Fprintf(&b, "\n## Context\n\nGiven along with the requirement, to understand it by:\n\n%s\n", withoutCriteria(quoted(p.background)))
	}
	section(&b, "Out of Scope", p.OutOfScope)
	return trellis.Visible(b.String())
}

func (p prd) criteria(b *strings.Builder) {
	b.WriteString("\n## Acceptance Criteria\n\n")
	for _, c := range p.Acceptance {
		fmt.Fprintf(b, "- [ ] %s\n", text.OneLine(c.Criterion))
		if c.Verify != "" {
			fmt.Fprintf(b, "  verify: %s\n", codeSpan(c.Verify))
		}
		if c.Level == "should" {
			b.WriteString("  level: should\n")
		}
	}
}

func (s roadmapStep) render(b *strings.Builder) {
	if s.objective.Step == "" {
		return
	}
	if len(s.phases) > 0 {
		b.WriteString("\n## Phases\n\n")
		for i, phase := range s.phases {
			fmt.Fprintf(b, "%d. %s\n", i+1, text.OneLine(phase))
		}
	}
	section(b, "Files", s.files)
	section(b, "Tests", codeSpans(s.tests))
	section(b, "Verification", orNone(codeSpans(s.verification), "no lint, test or build command was found"))
	section(b, "Dependencies", orNone(s.dependencies, "none"))
}

// copyPlan copies from the plan what it says about the step.
func (s *roadmapStep) copyPlan(p *plan.Plan) {
	s.phases, s.tests, s.verification = p.Phases(), p.Tests(), p.Verification()
	for _, f := range p.Files {
		s.files = append(s.files, codeSpan(f.Path)+": "+f.Change)
	}
}

func bullets(b *strings.Builder, list []string) {
	for _, s := range list {
		fmt.Fprintf(b, "- %s\n", text.OneLine(s))
	}
}

// section writes a section of bullets, unless there are none.
func section(b *strings.Builder, heading string, list []string) {
	if len(list) > 0 {
		fmt.Fprintf(b, "\n## %s\n\n", heading)
		bullets(b, list)
	}
}

func orNone(list []string, none string) []string {
	if len(list) == 0 {
		return []string{none}
	}
	return list
}

func codeSpans(list []string) (spans []string) {
	for _, s := range list {
		spans = append(spans, codeSpan(text.OneLine(s)))
	}
	return spans
}

// codeSpan returns s between more backticks than it holds in a row.
func codeSpan(s string) string {
	fence, pad := strings.Repeat("`", text.Backticks(s)+1), ""
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		pad = " "
	}
	return fence + pad + s + pad + fence
}

// plainSection returns a text that can be part of a section, and neither ends it nor begins another one.
func plainSection(s string) string {
	s = strings.TrimSpace(research.WithoutHeadings(s))
	if !research.Closed(s) {
		s = quoted([]string{s})
	}
	return withoutCriteria(s)
}

// withoutCriteria returns a text of others that adds nothing to the page's criteria: one that would is put into a block of code,
// where criteria are not read.
func withoutCriteria(s string) string {
	if items, problems := criteria.Parse(taskdir.PRD, []byte(s)); len(items)+len(problems) == 0 {
		return s
	}
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "text\n" + s + "\n" + fence
}

// quoted returns texts as a quotation, in which nothing is a heading or an item of the page.
func quoted(texts []string) string {
	lines := strings.Split(strings.TrimSpace(strings.Join(texts, "\n\n")), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace("> " + line)
	}
	return strings.Join(lines, "\n")
}

// maxTitle is the maximum length of a title, in characters.
const maxTitle = 100

// title returns a title for task.json and commits: one line, without the marks and labels that models add.
func title(s string) string {
	s = trellis.Visible(text.OneLine(stripMarks(s)))
	s = strings.TrimSpace(strings.TrimLeft(s, "# "))
	if !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return "" // there are only marks
	}
	for _, label := range []string{"title:", "task:", "plan:"} {
		if len(s) >= len(label) && strings.EqualFold(s[:len(label)], label) {
			s = strings.TrimSpace(s[len(label):])
		}
	}
	if r := []rune(s); len(r) > maxTitle {
		s = strings.TrimSpace(string(r[:maxTitle-1])) + "…"
	}
	return s
}

// markPattern matches code and bold text.
const markPattern = "`+[^`]*`+" + `|\*\*[^*\s](?:[^*]*[^*\s])?\*\*|\b__[^_\s](?:.*?[^_\s])?__\b`

// stripMarks returns s without the marks of code and of bold text. Names keep theirs: __init__, snake__case, **kwargs, and so
// does all code.
func stripMarks(s string) string {
	s = regexp.MustCompile(markPattern).ReplaceAllStringFunc(s, func(m string) string {
		switch {
		case m[0] == '`':
			return strings.Trim(m, "`")
		case m[0] == '_' && !strings.ContainsFunc(m, unicode.IsSpace):
			return m
		}
		return m[2 : len(m)-2]
	})
	return strings.ReplaceAll(s, "`", "")
}
