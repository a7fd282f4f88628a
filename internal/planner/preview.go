package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Preview are the slots of the prompt that an agent in a planning role would get for the task as it is now.
func (d Deps) Preview(ctx context.Context, role trellis.Role, in Input) (map[string]string, error) {
	a, err := d.researcher().previewed(in)
	if err != nil {
		return nil, err
	}
	dir := d.record().relative()
	if role == trellis.Judge && a.Plan == nil {
		return nil, &trellis.Problem{File: dir, Message: "there is no plan.json to judge yet", Hint: "trellis plan --retry " + dir}
	}
	if role == trellis.Plan {
		a.Plan = nil // as for the first plan
	}
	data, err := agentcall.Encode(a)
	if err != nil {
		return nil, err
	}
	slots, _, err := d.prompts().slots(ctx, flow.Call{}, agentcall.Request{Role: role, Data: data})
	return slots, err
}

// previewed is what a planning that got as far as the files of the directory would tell its agents.
func (r researcher) previewed(in Input) (a about, err error) {
	text, _ := r.describe()
	a = about{Input: in, Ground: &ground{}}
	if a.Project, err = r.preview("project.md", []byte(text)); err != nil {
		return a, err
	}
	for name, to := range map[string]**agentcall.Ref{taskdir.Research: &a.Research, taskdir.TaskSpec: &a.Ground.TaskSpec, taskdir.Plan: &a.Plan} {
		if *to, err = r.shown(name); err != nil {
			return a, err
		}
	}
	var report research.Report
	if a.Research != nil {
		text, err := r.read(*a.Research)
		if err != nil {
			return a, err
		}
		report = research.Parse([]byte(text))
	}
	var found Findings
	r.confirm(r.decided(in.Verify), report, &found)
	a.Ground.Commands, a.Ground.Protected = found.Commands, found.Protected
	return a, nil
}

// shown is a file of the directory, nil when it has none.
func (f files) shown(name string) (*agentcall.Ref, error) {
	data, err := taskdir.ReadFile(f.dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	ref, err := f.preview(name, data)
	return &ref, err
}

func (f files) preview(name string, data []byte) (agentcall.Ref, error) {
	return f.keepAt(filepath.Join("preview", name), data)
}
