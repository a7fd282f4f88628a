package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// promptDocument is what prompt --json prints.
type promptDocument struct {
	Role       trellis.Role       `json:"role"`
	Agent      string             `json:"agent"`
	Model      string             `json:"model"`
	Permission trellis.Permission `json:"permission"`
	System     string             `json:"system"`
	Prompt     string             `json:"prompt"`
	Bytes      int                `json:"bytes"`  // of system and prompt
	Tokens     int                `json:"tokens"` // estimated, four bytes a token
	Shared     int                `json:"shared"` // bytes at the start that every phase has in common
	Notes      []string           `json:"notes"`
}

func promptCommand(a *command.Console) *cli.Command {
	roles := append(planner.Roles(), pipeline.Roles()...)
	names := trellis.Strings(roles)
	return &cli.Command{
		Name:      "prompt",
		Usage:     "show the prompt that an agent would get, with sizes",
		ArgsUsage: "ROLE",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "task", Usage: "`TASKDIR` of the task"}, command.JSONFlag()},
		Description: command.Manual(fmt.Sprintf(`Renders the prompt of a role for the current state of a task. Nothing is started. Roles: %s.
The prompt goes to standard output, sizes and omissions to standard error.`, strings.Join(names, ", ")),
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis prompt implement --task 02-03-paging"),
		Action: func(c *cli.Context) error {
			role := c.Args().First()
			if i := slices.Index(names, role); i >= 0 {
				return runPrompt(a, c, roles[i])
			}
			return app.WithNearest(app.Usagef("unknown role %q (one of %s)", role, strings.Join(names, ", ")), role, names)
		},
	}
}

func runPrompt(a *command.Console, c *cli.Context, role trellis.Role) error {
	if c.String("task") == "" {
		return app.Usagef("say for which task: --task TASKDIR")
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	dir, err := p.Find(c.String("task"))
	if err != nil {
		return err
	}
	s, err := p.ReadingSite(c.Context)
	if err != nil {
		return err
	}
	prompt, who, notes, err := s.TaskRunner().Prompt(c.Context, dir, role)
	if err != nil {
		return outcome.AgentError(err)
	}
	size := len(prompt.System) + len(prompt.Text)
	d := promptDocument{role, who.Agent, who.Model, who.Permission, prompt.System, prompt.Text, size, (size + 3) / 4, prompt.Shared, append([]string{}, notes...)}
	if c.Bool("json") {
		return terminal.JSON(a.Stdout, d)
	}
	if prompt.System != "" {
		fmt.Fprintf(a.Stdout, "%s\n\n", strings.TrimSpace(prompt.System))
	}
	fmt.Fprintln(a.Stdout, prompt.Text)
	a.Say("%s by %s, permission %s: %d bytes, about %s tokens, of which %d bytes are the same in every phase", role, who.Agent, who.Permission, d.Bytes, text.Tokens(int64(d.Tokens)), d.Shared)
	for _, n := range notes {
		a.Say("left out: %s", n)
	}
	return nil
}
