package pipeline

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// LoadPlan returns the plan.json of a task directory with the files that it calls, nil if there is none. If it is not valid, the
// error is a failure with code invalid_task that names file and line. The files that it calls are read from the main checkout.
func LoadPlan(s taskdir.Store, dir string) (*plan.Bundle, error) {
	text, err := taskdir.ReadOptional(dir, taskdir.Plan)
	if text == nil {
		return nil, err
	}
	return bundleOf(text, s.Rel(filepath.Join(dir, taskdir.Plan)), func(path string) ([]byte, error) { return durable.ReadBelow(s.Root, path, plan.MaxBytes) })
}

// ReadPlan returns only the plan of LoadPlan, without the files that it calls.
func ReadPlan(s taskdir.Store, dir string) (*plan.Plan, error) {
	b, err := LoadPlan(s, dir)
	return rootPlan(b), err
}

// rootPlan returns the plan of a bundle, nil if b is nil.
func rootPlan(b *plan.Bundle) *plan.Plan {
	if b == nil {
		return nil
	}
	return b.Plan("")
}

// bundleOf returns the plan.json with this text, and the files that it calls. name is its path in messages.
func bundleOf(text []byte, name string, read func(path string) ([]byte, error)) (*plan.Bundle, error) {
	b, problems := plan.Load(plan.LoadOptions{File: name, Task: true, Read: func(path string) ([]byte, error) {
		if path == taskdir.Plan {
			return text, nil
		}
		return read(path)
	}})
	for _, p := range problems {
		if !p.Warning {
			return nil, flow.Fail(string(trellis.InvalidTask), "%s", p.Error())
		}
	}
	return b, nil
}

// protectedGlobs returns the globs of paths that a task may not change.
func protectedGlobs(cfg *config.Config, t *taskdir.Task) []string {
	return append(slices.Clone(cfg.Protected), t.Pipeline.Protected...)
}

// plannedProtected returns the protected paths that a plan says it changes. Such a plan runs only after people approved it; then
// it may change these paths, and no other protected ones.
func plannedProtected(p *plan.Plan, globs []string) []string {
	if p == nil {
		return nil
	}
	return p.Protected(func(path string) bool { return config.Protects(globs, path) })
}

// preconditionTexts lists all preconditions of a plan, in its order, for people.
func preconditionTexts(p *plan.Plan) (list []string) {
	for _, c := range p.Preconditions {
		if c.Command != "" {
			c.Text = "`" + c.Command + "`"
		}
		list = append(list, c.Text)
	}
	return list
}

// Preconditions returns the commands that must succeed before the work of a plan begins, and the sentences that people have to
// check before that.
func Preconditions(p *plan.Plan) (commands, sentences []string) {
	if p == nil {
		return nil, nil
	}
	for _, c := range p.Preconditions {
		switch {
		case c.Command != "":
			commands = append(commands, c.Command)
		case strings.TrimSpace(c.Text) != "":
			sentences = append(sentences, c.Text)
		}
	}
	return commands, sentences
}
