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

// Resolved returns all steps of the bundle in the order of its files, those of a group or another file after the step that
// contains them. Loop variables stay as {{name}}.
func (b *Bundle) Resolved() []Line {
	main := b.Plan("")
	return b.lines(main.Steps, scope{}.into(b.Main, main, nil), "", 0)
}

func (b *Bundle) lines(steps []Step, sc scope, path string, depth int) (list []Line) {
	for i := range steps {
		s := &steps[i]
		in := sc.inside(s)
		l := b.line(s, in, path, depth)
		for _, j := range before(steps, i) {
			l.After = append(l.After, joined(path, steps[j].ID))
		}
		if s.Loop() != "" {
			l.Loop = s.goesThrough(sc)
		}
		list = append(list, l)
		if s.Kind() == Workflow {
			files, _ := in.all(s.Workflow)
			for _, name := range files {
				key := b.Called(sc.file, name)
				if p := b.Plan(key); p != nil {
					list = append(list, b.lines(p.Steps, in.into(key, p, s.Vars), l.Path, depth+1)...)
				}
			}
		}
		list = append(list, b.lines(s.Steps, in, l.Path, depth+1)...)
	}
	return list
}

func (b *Bundle) line(s *Step, sc scope, path string, depth int) Line {
	l := Line{Depth: depth, Path: joined(path, s.ID), Kind: s.Kind(), Title: Fill(s.Title, sc.values), Verify: opening(Fill(s.Verify, sc.values)),
		Proof: s.Proof.words(), Asks: s.Asks(), After: []string{}, Hash: b.Plan(sc.file).StepHash(*s), Checked: s.Provable()}
	switch l.Kind {
	case Script:
		l.Does = s.Command
	case Prompt:
		l.Does = s.Prompt
	case Log:
		l.Does = s.Message
	case Workflow:
		files, _ := sc.all(s.Workflow)
		for i, name := range files {
			files[i] = b.Called(sc.file, name)
		}
		l.Does = strings.Join(files, ", ")
		return l
	}
	l.Does = opening(Fill(l.Does, sc.values))
	return l
}

// opening returns the first line of a text, with … if more lines follow.
func opening(s string) string {
	first := firstLine(s)
	return first + unless(first == strings.TrimSpace(s), " …")
}

// Asks reports whether people are asked before the step.
func (s *Step) Asks() bool { return s.Kind() == Approval || s.Risk == "high" || s.Proof.has("manual") }

// before returns the indexes of the steps that steps[i] waits for.
func before(steps []Step, i int) (places []int) {
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

func joined(path, id string) string {
	return strings.TrimPrefix(path+"."+id, ".")
}

// goesThrough describes the loop of a step.
func (s *Step) goesThrough(sc scope) string {
	how := unless(s.Concurrency < 2, fmt.Sprintf(", up to %d at a time", s.Concurrency))
	if s.ForEach != nil && s.ForEach.Command != "" {
		return fmt.Sprintf("{{%s}}: each line of `%s`%s", s.Loop(), opening(Fill(s.ForEach.Command, sc.values)), how)
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
