package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/mcpserver"
)

func mcpCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "mcp",
		ArgsUsage: "[COMMAND]",
		Usage:     "let an agent read, plan and control tasks over the Model Context Protocol",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tools", Value: string(mcpserver.Work), Usage: "tools to offer: `LEVEL` read, work or all"},
		},
		Description: command.Manual(`Serves on standard input and output until the client disconnects; agents start it by themselves. read shows tasks,
work also plans and controls them, all also approves and rejects plans. It works in the main checkout of the folder that
it is started in. Inside a run it decides and controls nothing: no agent approves itself.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitInterrupted}, "trellis mcp", "trellis mcp --tools read"),
		Action:      func(c *cli.Context) error { return runMCP(a, c) },
		Subcommands: []*cli.Command{mcpInstallCommand(a)},
	}
}

func runMCP(a *command.Console, c *cli.Context) error {
	level, err := mcpserver.ParseLevel(c.String("tools"))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if command.IsTerminal(a.Stdin) {
		a.Say("agents start this and speak with it here: Ctrl-C ends it")
	}
	s := mcpserver.New(mcpserver.Options{Tools: level, Env: a.Caller(), Self: self, Version: strings.TrimPrefix(command.Version(), "v"),
		Open: func(ctx context.Context) (*app.Project, error) { return a.Open(ctx) }})
	return s.Run(c.Context, mcpserver.Stdio(a.Stdin, a.Stdout))
}
