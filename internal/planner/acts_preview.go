package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/research"
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
	if d.Research, err = a.shown(taskdir.Research); err != nil {
		return p, err
	}
	g := ground{}
	if g.TaskSpec, err = a.shown(taskdir.TaskSpec); err != nil {
		return p, err
	}
	var found research.Report
	if d.Research != nil {
		text, err := a.read(*d.Research)
		if err != nil {
			return p, err
		}
		found = research.Parse([]byte(text))
	}
	var f Findings
	a.confirm(a.decided(in.Verify), found, &f)
	g.Commands, g.Protected = f.Commands, f.Protected
	d.Ground = &g
	if d.Plan, err = a.shown(taskdir.Plan); err != nil {
		return p, err
	}
	if role == trellis.Judge && d.Plan == nil {
		return p, &trellis.Problem{File: a.relative(), Message: "there is no plan.json to judge yet", Hint: "trellis plan --retry " + a.relative()}
	}
	if role == trellis.Plan {
		d.Plan = nil // as for the first plan
	}
	data, err := agentcall.Encode(d)
	if err != nil {
		return p, err
	}
	slots, _, err := a.Slots(ctx, flow.Call{}, agentcall.Request{Role: role, Data: data})
	if err != nil {
		return p, err
	}
	return a.Cast.Render(string(role), slots)
}

// shown is a file of the directory, nil when it has none.
func (a *Acts) shown(name string) (*agentcall.Ref, error) {
	data, err := taskdir.ReadFile(a.Dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	ref, err := a.stored(name, string(data))
	return &ref, err
}

// stored keeps a text below run/ and returns its name there.
func (a *Acts) stored(name, text string) (agentcall.Ref, error) {
	rel := filepath.Join("preview", name)
	path := filepath.Join(a.Dir, taskdir.Run, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return agentcall.Ref{}, err
	}
	return agentcall.Ref{Path: filepath.ToSlash(rel), SHA256: agentcall.Sum([]byte(text)), Bytes: len(text)}, a.Disk.WriteFile(path, []byte(text), 0o600)
}
