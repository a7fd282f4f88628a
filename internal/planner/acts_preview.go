package planner

import (
	"context"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
	"github.com/trellis-tasks/trellis/templates"
)

// Preview is the prompt that an agent in a planning role would get for the task as it is now.
func (a *Acts) Preview(ctx context.Context, role trellis.Role, in Input) (p templates.Prompt, err error) {
	text, _ := a.describe()
	d := about{Input: in}
	if d.Project, err = a.stored("project.md", text); err != nil {
		return p, err
	}
	if data, err := os.ReadFile(filepath.Join(a.Dir, taskdir.Research)); err == nil && role == trellis.PRD {
		ref, err := a.stored("research.md", string(data))
		if err != nil {
			return p, err
		}
		d.Research = &ref
	}
	data, err := ask.Encode(d)
	if err != nil {
		return p, err
	}
	slots, _, err := a.Slots(ctx, flow.Call{}, ask.Request{Role: role, Data: data})
	if err != nil {
		return p, err
	}
	return a.Cast.Render(string(role), slots)
}

// stored keeps a text below run/ and returns its name there.
func (a *Acts) stored(name, text string) (ask.Ref, error) {
	rel := filepath.Join("preview", name)
	path := filepath.Join(a.Dir, taskdir.Run, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return ask.Ref{}, err
	}
	return ask.Ref{Path: filepath.ToSlash(rel), SHA256: ask.Sum([]byte(text)), Bytes: len(text)}, a.Disk.WriteFile(path, []byte(text), 0o600)
}
