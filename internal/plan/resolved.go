package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Line is one step of a bundle as a run will do it, with the values that are known before the run.
type Line struct {
	Depth  int      `json:"depth"` // nesting depth in groups and files
	Path   string   `json:"step"`  // ids from the top, separated by dots
	Kind   string   `json:"kind"`
	Title  string   `json:"title,omitempty"`
	Does   string   `json:"does,omitempty"` // the first line of its command, prompt or message, with … if more follow; the files of a workflow
	Loop   string   `json:"loop,omitempty"`
	Verify string   `json:"verify,omitempty"`
	Proof  string   `json:"proof,omitempty"`
	Asks   bool     `json:"asks,omitempty"` // people are asked before the step
	After  []string `json:"after"`          // paths of the steps that this one waits for

	Hash    string `json:"-"` // hash of the step
	Checked bool   `json:"-"` // whether something proves the step
}

// ResolvedSteps returns all steps of the bundle in the order of its files, those of a group or another file after the step that
// contains them. Loop variables stay as {{name}}.
func (b *Bundle) ResolvedSteps() []Line {
	main := b.Plan("")
	return b.lines(main.Steps, scope{}.inFile(b.Main, main, nil), "", 0)
}

func (b *Bundle) lines(steps []Step, sc scope, path string, depth int) (list []Line) {
	for i := range steps {
		s := &steps[i]
		in := sc.inStep(s)
		l := b.line(s, in, path, depth)
		for _, j := range dependencyIndexes(steps, i) {
			l.After = append(l.After, stepPath(path, steps[j].ID))
		}
		if s.Loop() != "" {
			l.Loop = s.loopDescription(sc)
		}
		list = append(list, l)
		if s.Kind() == Workflow {
			files, _ := in.expansions(s.Workflow)
			for _, name := range files {
				key := b.FileKey(sc.file, name)
				if p := b.Plan(key); p != nil {
					list = append(list, b.lines(p.Steps, in.inFile(key, p, s.Vars), l.Path, depth+1)...)
				}
			}
		}
		list = append(list, b.lines(s.Steps, in, l.Path, depth+1)...)
	}
	return list
}

func (b *Bundle) line(s *Step, sc scope, path string, depth int) Line {
	l := Line{Depth: depth, Path: stepPath(path, s.ID), Kind: s.Kind(), Title: Fill(s.Title, sc.values), Verify: summaryLine(Fill(s.Verify, sc.values)),
		Proof: s.Proof.description(), Asks: s.NeedsApproval(), After: []string{}, Hash: b.Plan(sc.file).StepHash(*s), Checked: s.Provable()}
	switch l.Kind {
	case Script:
		l.Does = s.Command
	case Prompt:
		l.Does = s.Prompt
	case Log:
		l.Does = s.Message
	case Workflow:
		files, _ := sc.expansions(s.Workflow)
		for i, name := range files {
			files[i] = b.FileKey(sc.file, name)
		}
		l.Does = strings.Join(files, ", ")
		return l
	}
	l.Does = summaryLine(Fill(l.Does, sc.values))
	return l
}

// summaryLine returns the first line of a text, with … if more lines follow.
func summaryLine(s string) string {
	first := firstLine(s)
	return first + textUnless(first == strings.TrimSpace(s), " …")
}

// NeedsApproval reports whether people are asked before the step.
func (s *Step) NeedsApproval() bool {
	return s.Kind() == Approval || s.Risk == "high" || s.Proof.has("manual")
}

// dependencyIndexes returns the indexes of the steps that steps[i] waits for.
func dependencyIndexes(steps []Step, i int) (places []int) {
	switch s := steps[i]; {
	case s.DependsOn != nil:
		for j := range steps {
			if slices.Contains(*s.DependsOn, steps[j].ID) {
				places = append(places, j)
			}
		}
	case i > 0:
		places = []int{i - 1}
	}
	return places
}

func stepPath(path, id string) string {
	return strings.TrimPrefix(path+"."+id, ".")
}

// loopDescription describes the loop of a step.
func (s *Step) loopDescription(sc scope) string {
	how := textUnless(s.Concurrency < 2, fmt.Sprintf(", up to %d at a time", s.Concurrency))
	if s.ForEach != nil && s.ForEach.Command != "" {
		return fmt.Sprintf("{{%s}}: each line of `%s`%s", s.Loop(), summaryLine(Fill(s.ForEach.Command, sc.values)), how)
	}
	if s.Repeat > 0 {
		return fmt.Sprintf("{{%s}}: 1 to %d%s", s.Loop(), s.Repeat, how)
	}
	var items []string
	for _, item := range s.ForEach.Items {
		items = append(items, Fill(item, sc.values))
	}
	return fmt.Sprintf("{{%s}}: %s%s", s.Loop(), strings.Join(items, ", "), how)
}
