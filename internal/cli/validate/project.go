package validate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/templates"
)

// project checks what is not a task: settings, guidelines, objectives, and the project's own roles and templates.
func (v *validation) project(ctx context.Context, p *app.Project) error {
	cfg, problems := app.CheckedConfig(ctx, p)
	v.add(".trellis/config.yaml", problems...)
	pages, err := specs.List(p.Root)
	if err != nil {
		return err
	}
	for _, page := range pages {
		v.add(page.Path)
		if page.Problem != nil {
			v.Problems = append(v.Problems, *page.Problem)
		}
	}
	var agents []string // nil: not known, as the settings have errors
	if len(trellis.Errors(problems)) == 0 {
		agents = cfg.AgentNames()
	}
	return errors.Join(v.roles(p, agents), v.templates(p), v.objectives(p))
}

func (v *validation) add(checked string, problems ...trellis.Problem) {
	v.Checked = append(v.Checked, checked)
	v.Problems = append(v.Problems, problems...)
}

// roles checks .trellis/agents, where roles may name these agents.
func (v *validation) roles(p *app.Project, agents []string) error {
	return v.overrides(p, "agents", ".md", "role", trellis.Strings(trellis.Roles), func(file, name string) error {
		in, err := app.Instructions(p.Root, trellis.Role(name), agents)
		if err != nil || !slices.Contains(templates.Names(), name) {
			return err
		}
		in.Override.Frame = nil
		return templates.Check(name, in.Override)
	})
}

// templates checks .trellis/templates.
func (v *validation) templates(p *app.Project) error {
	return v.overrides(p, "templates", ".md.tmpl", "template", templates.Names(), func(file, name string) error {
		frame, err := durable.ReadBelow(p.Root, file, durable.MaxDocument)
		if err != nil {
			return fmt.Errorf("reading the project's template: %w", err)
		}
		return templates.Check(name, templates.Override{Frame: frame})
	})
}

// overrides checks the files in a folder of .trellis that replace something built in of the same name.
func (v *validation) overrides(p *app.Project, folder, suffix, kind string, known []string, check func(file, name string) error) error {
	entries, err := durable.ReadDirBelow(p.Root, ".trellis/"+folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.Problems = append(v.Problems, *trellis.UnreadableProblem(".trellis/"+folder, err))
		return nil
	}
	for _, e := range entries {
		file := ".trellis/" + folder + "/" + e.Name()
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if e.IsDir() || !ok {
			continue
		}
		v.add(file)
		if !slices.Contains(known, name) {
			unknown := unknownName(file, kind, name, known)
			unknown.Warning = kind == "role" // the folder may have agents of other tools
			v.Problems = append(v.Problems, unknown)
			continue
		}
		err := check(file, name)
		var problem *trellis.Problem
		switch {
		case errors.As(err, new(*durable.FileError)):
			v.Problems = append(v.Problems, *trellis.UnreadableProblem(file, err))
		case errors.As(err, &problem):
			found := *problem
			found.File = file
			v.Problems = append(v.Problems, found)
		case err != nil:
			return err
		}
	}
	return nil
}

func unknownName(file, kind, name string, known []string) trellis.Problem {
	p := trellis.Problem{File: file, Message: fmt.Sprintf("there is no %s %q, so nobody reads this", kind, name), Hint: "one of " + strings.Join(known, ", ")}
	if near := trellis.Nearest(name, known); near != "" {
		p.Hint = "did you mean: " + near
	}
	return p
}
