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

// preview is the job of a run that would be claimed now, and what it would take in.
func (cl *claimer) preview(ctx context.Context, in Input) (Job, *taken, error) {
	t, err := cl.store.Load(cl.task.dir)
	if err != nil {
		return Job{}, nil, err
	}
	k, err := cl.intake.read(t)
	if err != nil {
		return Job{}, nil, err
	}
	if k.wrong != nil {
		return Job{}, nil, k.wrong
	}
	base, _, err := cl.findBase(ctx, t, in)
	if err != nil {
		return Job{}, nil, err
	}
	j, err := cl.job(t, k, main(k.plan), in, base)
	return j, k, err
}
