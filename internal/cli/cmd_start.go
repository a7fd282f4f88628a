package cli

import (
	"context"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
)

func startCommand(a *command.Console) *cli.Command {
	inForeground := a.InGuard(a.ForTask(func(c *cli.Context, p *app.Project, dir string) error { return runStart(a, c, p, dir) }))
	detached := a.ForTask(func(c *cli.Context, p *app.Project, dir string) error { return startDetached(a, c, p, dir) })
	return &cli.Command{
		Name:      "start",
		Usage:     "run one task, or resume it",
		ArgsUsage: "TASKDIR",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "detach", Usage: "run in the background"},
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent for all phases"},
			&cli.BoolFlag{Name: "adopt-branch", Usage: "use the task's branch even if it exists and was not made for the task"},
			command.PlainFlag(),
			command.SharedFlag(),
			command.JSONFlag(),
		},
		Description: command.Manual(`Takes a task from its current state to a checked commit on its branch: worktree, implement, rounds of
check and debug until the project's own checks pass, acceptance, commit, report.md. An interrupted run
resumes where it stopped. If a watcher is alive, the task is handed over to it and followed; Ctrl-C then only
stops following. Otherwise Ctrl-C stops the agents and leaves the run resumable.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitRejected, command.ExitWaiting, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitTimeout, command.ExitInterrupted},
			"trellis start 02-03-paging", "trellis start paging --detach"),
		Action: func(c *cli.Context) error {
			if c.Bool("detach") {
				return detached(c)
			}
			return inForeground(c)
		},
	}
}

func runStart(a *command.Console, c *cli.Context, p *app.Project, dir string) error {
	s, err := a.Site(c, p)
	if err != nil {
		return err
	}
	outcome.SayUncommitted(c.Context, a, p)
	show := a.ShowTasks(c, s, c.Bool("json"))
	p.News.Work(s)
	o := runner.RunOptions{Agent: c.String("agent"), Adopt: c.Bool("adopt-branch")}
	stopFollowing := func(bool) {}
	if _, taken := s.Starter().WatcherFor(dir); taken && o == (runner.RunOptions{}) && !c.Bool("json") {
		if stopFollowing, err = followWatcher(c.Context, p, s, show, dir); err != nil {
			return err
		}
	}
	res, err := s.Starter().Start(c.Context, dir, o)
	stopFollowing(err == nil && res.Status.Ended())
	show.Close()
	if err != nil {
		return outcome.RunError(a, p, dir, err)
	}
	return outcome.PrintRun(c.Context, a, p, res, c.Bool("json"))
}

// lastEventWait is how long the event that a watcher's run ended may take once task.json says that the run is over.
const lastEventWait = 2 * time.Second

// followWatcher shows the watcher's events of a task until done is called or this process runs the task
// itself. If the run has ended, done waits for its last event, at most lastEventWait.
func followWatcher(ctx context.Context, p *app.Project, s *runner.Site, show *terminal.Live, dir string) (done func(ended bool), err error) {
	ctx, stop := context.WithCancel(ctx)
	watcherEvents, err := p.Events(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	if t, err := p.Reader().Task(dir); err == nil && t.Working() && t.Phase != "" { // its event was sent before
		show.ShowEvent(events.Event{Task: t.ID, Kind: events.PhaseBegun, Phase: t.Phase, Round: t.Round})
	}
	own := s.Event
	s.Event = func(e runner.Event) {
		if e.State != nil {
			stop()
		}
		own(e)
	}
	lastEvent, readerDone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(readerDone)
		for e := range watcherEvents {
			if e.Task != filepath.Base(dir) || ctx.Err() != nil {
				continue
			}
			if show.ShowEvent(e); e.Kind == events.Ended {
				close(lastEvent)
				stop()
			}
		}
	}()
	return func(ended bool) {
		if ended {
			select {
			case <-lastEvent:
			case <-ctx.Done():
			case <-time.After(lastEventWait):
			}
		}
		stop()
		<-readerDone
	}, nil
}
