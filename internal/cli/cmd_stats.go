package cli

import (
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/terminal"
)

func statsCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "stats",
		Usage: "show what tasks used: time, tokens, cost, cache hits, rounds, refusals",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "only work since `D`: a time ago, such as 7d or 24h, or a date, such as 2026-02-01"},
			&cli.StringFlag{Name: "by", Value: string(stats.ByPhase), Usage: "print one row per `KIND`: phase, agent, model, day or task"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Adds up the journals of all tasks, including archived ones; nothing needs to be running. AGENTS is how long agents
worked, CHECKS how long the project's own commands ran, CACHED how much of the input came from the provider's cache, NO
how many answers refused a plan or the work. A cost that an agent does not report is estimated if its model has a
price, and marked ~; unknown costs are left out, and an incomplete sum is marked ≥. A first pass is a task
that its first run delivered with nothing to debug. With --since, a task counts by its last end, and a call by its end.
Days begin as for limits.day_tokens: by local time, or shared.time_zone.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis stats", "trellis stats --since 7d --by day", "trellis stats --by task --json | jq '.rows[] | [.key, .cost_usd]'"),
		Action: func(c *cli.Context) error { return runStats(a, c) },
	}
}

func runStats(a *command.Console, c *cli.Context) error {
	by := stats.Grouping(c.String("by"))
	if !slices.Contains(stats.Groupings, by) {
		return app.Usagef("--by %q is not one of phase, agent, model, day, task", by)
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	var since time.Time
	if said := c.String("since"); said != "" {
		if since, err = stats.ParseSince(said, a.Now().In(app.Zone(p))); err != nil {
			return app.Usagef("--since %v", err)
		}
	}
	read, err := p.Stats().Read(since)
	if err != nil {
		return err
	}
	t := read.Table(by)
	if c.Bool("json") {
		return terminal.JSON(a.Stdout, t)
	}
	for _, problem := range t.Problems {
		a.Say("not counted: %s", problem)
	}
	if t.Total.Tasks == 0 {
		a.Say("nothing was done for any task")
		return nil
	}
	return terminal.Stats(a.Stdout, t, a.Style(a.Stdout))
}
