package runfile

import (
	"context"
	"io"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// choices are the answers about a step that waits for approval.
var choices = []command.Option{
	{Key: "y", Word: "yes", Means: "the step and those after it are run"},
	{Key: "n", Word: "no", Means: "it fails; n REASON says why"},
	{Key: "l", Word: "later", Means: "the run waits"},
}

// decide asks a person about the steps that wait for approval in a run. left are those that still wait afterwards.
func decide(ctx context.Context, a *command.Console, p *app.Project, res runner.FileRun) (left []workflow.Request, err error) {
	for i, q := range res.Waits {
		left = res.Waits[i:]
		word, reason, err := a.AskOption(ctx, "approve "+q.Path+"?", choices...)
		if err != nil || word == "later" {
			return left, err
		}
		order, d := app.Orders.Approve, app.Decision{IsRun: true, Step: q.Path, Shown: q.Hash, Reason: reason}
		if word == "no" {
			if order = app.Orders.Reject; d.Reason == "" {
				if d.Reason, err = a.Ask(ctx, "why?"); err == io.EOF || err == nil && d.Reason == "" {
					return left, nil // no reason was given: the step still waits
				} else if err != nil {
					return left, err
				}
			}
		}
		done, err := order(p.Orders(), ctx, res.Dir, d)
		if err != nil {
			return left, err
		}
		a.Say("%s", done.Says)
		if done.Waits {
			return left, nil
		}
	}
	return nil, nil
}
