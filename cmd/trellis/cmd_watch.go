package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// watchCommand is `trellis watch`.
func (a *app) watchCommand() *cli.Command {
	return &cli.Command{
		Name:      "watch",
		Usage:     "run tasks as they become ready, until interrupted",
		ArgsUsage: " ",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "end when nothing is left to run"},
			&cli.IntFlag{Name: "parallel", Usage: "`N` tasks at once; limits.parallel of config.yaml"},
			&cli.DurationFlag{Name: "rescan", Value: 30 * time.Second, Usage: "look at everything every `D`, whatever file events say"},
			&cli.BoolFlag{Name: "poll", Usage: "use no file events, only the rescan"},
		},
		Description: manual(`Sees task directories appear and change, runs those that are ready and goes on with those that were
cut off. A broken directory is reported once, with file, line and what to do, and stops nobody else. One
process watches a repository.`,
			[]int{exitDone, exitFailed, exitUsage, exitUnmet, exitWaiting, exitLocked, exitNoAgent, exitInterrupted, exitTerminated},
			"trellis watch", "trellis watch --once --parallel 4"),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return wrongArguments(c)
			}
			if c.Duration("rescan") < time.Second {
				return usagef("--rescan must be at least 1s")
			}
			return a.guarded(func() error { return a.watch(c) })
		},
	}
}

func (a *app) watch(c *cli.Context) error {
	p, err := a.open(c.Context)
	if err != nil {
		return err
	}
	s, err := a.site(c.Context, p)
	if err != nil {
		return err
	}
	o := dispatch.WatchOptions{Once: c.Bool("once"), Parallel: c.Int("parallel"), Rescan: c.Duration("rescan"), Poll: c.Bool("poll")}
	if o.Parallel <= 0 {
		o.Parallel = s.Config.Limits.Parallel
	}
	a.say("watching %s, %d at once", p.Store.Rel(p.Store.Tasks()), o.Parallel)
	show := a.progress(s, false)
	results, err := s.Watch(c.Context, o)
	show.close()
	for _, r := range results {
		a.sayEnd(p, r)
	}
	if c.Context.Err() != nil {
		return context.Canceled
	}
	if err != nil {
		return a.agentError(err)
	}
	return a.endOfAll(results)
}

// endOfAll is the error that the ends of several tasks mean for the exit code: the first that applies of
// failed, no agent, not ready, waiting.
func (a *app) endOfAll(results []dispatch.Result) error {
	var found [4]bool
	for _, r := range results {
		switch {
		case r.Failure != nil && (r.Failure.Code == string(trellis.AgentMissing) || r.Failure.Code == string(trellis.AgentAuth)) && r.Status != trellis.Failed:
			found[1] = true
		case r.Status == trellis.Failed, r.Status == trellis.Cancelled:
			found[0] = true
		case r.Status == trellis.Ready, r.Status == "": // "": task.json can't be read
			found[2] = true
		case r.Status == trellis.Waiting, r.Status == trellis.Paused:
			found[3] = true
		}
	}
	for i, kind := range []error{errors.New(""), errNoAgent, errUnmet, errWaiting} {
		if found[i] {
			return quiet(kind)
		}
	}
	return nil
}
