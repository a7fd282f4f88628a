package runfile

import (
	"context"
	"io"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// choices are what becomes of a step that waits.
var choices = []command.Option{
	{Key: "y", Word: "yes", Means: "the step and those behind it are run"},
	{Key: "n", Word: "no", Means: "it fails; n REASON says why"},
	{Key: "l", Word: "later", Means: "the run waits"},
}

// decide asks a person about the steps that a run waits with. goOn: they decided about all of them that wait for nobody else.
func decide(ctx context.Context, a *command.Console, p *app.Project, res runner.FileRun) (goOn bool, err error) {
	for _, q := range res.Waits {
		word, reason, err := a.AskOption(ctx, q.Path+": "+q.Title, choices...)
		if err != nil || word == "later" {
			return false, err
		}
		order, d := app.Orders.Approve, app.Decision{IsRun: true, Step: q.Path, Shown: q.Hash, Reason: reason}
		if word == "no" {
			if order = app.Orders.Reject; d.Reason == "" {
				if d.Reason, err = a.Ask(ctx, "why?"); err == io.EOF || err == nil && d.Reason == "" {
					return false, nil // they said nothing: it waits
				} else if err != nil {
					return false, err
				}
			}
		}
		done, err := order(p.Orders(), ctx, res.Dir, d)
		if err != nil {
			return false, err
		}
		a.Say("%s", done.Says)
		if done.Waits {
			return false, nil
		}
	}
	return true, nil
}
