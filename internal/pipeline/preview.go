package pipeline

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// previewer shows prompts without a run.
type previewer struct {
	cast     agentcall.Agents
	claimer  *claimer
	observer *observer
	prompts  *prompts
}

// Preview is the prompt that an agent in a role would get for the task as it is now, and what would be left
// out of it. Nothing is claimed; without a worktree the main checkout is shown in its place.
func (pv *previewer) Preview(ctx context.Context, role trellis.Role, in Input) (p templates.Prompt, notes []string, err error) {
	job, k, err := pv.claimer.preview(ctx, in)
	if err != nil {
		return p, nil, err
	}
	if _, err := os.Stat(job.Worktree); errors.Is(err, fs.ErrNotExist) {
		job.Worktree = job.Repo
	}
	content, _, err := pv.observer.contentOf(k, job)
	if err != nil {
		return p, nil, err
	}
	d := about{Job: job, Content: content,
		Trouble: &trouble{Code: trellis.VerifyFailed, Detail: "(what failed, with the output of the command, is shown here)"}}
	for _, c := range d.Content.Criteria {
		d.Open = append(d.Open, c.ID)
	}
	data, err := agentcall.Encode(d)
	if err != nil {
		return p, nil, err
	}
	slots, notes, err := pv.prompts.Slots(ctx, flow.Call{}, agentcall.Request{Role: role, Data: data, Dir: job.Worktree})
	if err != nil {
		return p, nil, err
	}
	p, err = pv.cast.Render(string(role), slots)
	return p, notes, err
}
