package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func notifyCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "notify",
		Usage: "test the notifications about tasks",
		Subcommands: []*cli.Command{{
			Name:      "test",
			Usage:     "send a test message to each recipient in notify, and show the results",
			ArgsUsage: "[KIND|NAME]",
			Flags:     []cli.Flag{command.JSONFlag()},
			Description: command.Manual(`Sends one message now, without retries. With a KIND, such as slack, or a NAME it tests only those. Programs and webhooks get
JSON with the event "test". Secrets are never printed.`,
				[]int{command.ExitDone, command.ExitFailed, command.ExitUsage}, "trellis notify test", "trellis notify test slack", "trellis notify test --json | jq '.[] | select(.ok | not)'"),
			Action: a.ForProject(func(c *cli.Context, p *app.Project) error { return runNotifyTest(a, c, p) }),
		}},
	}
}

func runNotifyTest(a *command.Console, c *cli.Context, p *app.Project) error {
	tested, err := p.News.Test(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	if err := a.Print(c.Bool("json"), tested, func() error { return printTestResults(a, tested) }); err != nil {
		return err
	}
	for _, t := range tested {
		if !t.OK {
			return app.Quiet(app.ErrFailed)
		}
	}
	return nil
}

func printTestResults(a *command.Console, tested []app.TestResult) error {
	var b strings.Builder
	for _, t := range tested {
		answer := "told"
		if !t.OK {
			answer = t.Error
		}
		fmt.Fprintf(&b, "%s: %s\n", trellis.VisibleLine(t.Name), trellis.VisibleLine(answer))
	}
	return a.Result(strings.TrimSuffix(b.String(), "\n"))
}

// notifierNames returns the kinds and names of the notifiers in the notify setting.
func notifierNames(a *command.Console) []string {
	p, err := a.OpenRepository()
	if err != nil {
		return nil
	}
	c, _ := p.Config()
	return app.Notified(c)
}
