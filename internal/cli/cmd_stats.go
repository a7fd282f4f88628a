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
		Usage: "show what tasks took: time, tokens, cost, cache hits, rounds, refusals",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "only what was done since `D`: so long ago, as 7d and 24h, or a date, as 2026-02-01"},
			&cli.StringFlag{Name: "by", Value: string(stats.ByPhase), Usage: "one row for each `KIND`: phase, agent, model, day or task"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Adds up what the journals of all tasks say, archived ones too; nothing has to run for it. AGENTS is how long agents
worked, CHECKS how long the project's own commands ran, CACHED how much of the input came from the provider's cache, NO
how many answers said no to a plan or to the work. A cost that an agent does not tell is estimated where its model has a
price, which ~ says; what nobody knows is not in the sums: a sum that is not whole has ≥ before it. A first pass is a task that its first run delivered with nothing to debug. With
--since a task counts by its last end, and a call by when it ended. Days begin where
those of limits.day_tokens do: by local time, or shared.time_zone.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis stats", "trellis stats --since 7d --by day", "trellis stats --by task --json | jq '.rows[] | [.key, .cost_usd]'"),
		Action: func(c *cli.Context) error { return runStats(a, c) },
	}
}

func runStats(a *command.Console, c *cli.Context) error {
	by := stats.Grouping(c.String("by"))
	if !slices.Contains(stats.Groupings, by) {
		return app.Usagef("--by %q is none of phase, agent, model, day, task", by)
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
