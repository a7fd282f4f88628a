package cli

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/mcp"
)

func mcpCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "mcp",
		Usage: "serve tasks to agents by the Model Context Protocol, on standard input and output",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tools", Value: string(mcp.Work), Usage: "`KIND` of tools: read, work or all; only all has decisions about plans"},
		},
		Description: command.Manual(`An agent of yours that speaks MCP starts it and can then list, show, plan and steer tasks of the repository
that it was started in, of its main checkout when that is a linked worktree. Nothing but the protocol is written to
standard output. It ends when its input does. Inside a task it shows what there is and does nothing: no agent decides
about its own work.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitInterrupted, command.ExitTerminated}, "trellis mcp --tools read"),
		Subcommands: []*cli.Command{mcpInstallCommand(a)},
		Action:      func(c *cli.Context) error { return runMCP(a, c) },
	}
}

func runMCP(a *command.Console, c *cli.Context) error {
	tools, err := toolsOf(c)
	if err != nil {
		return err
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	o := mcp.Options{Tools: tools, Program: app.Program{Self: self, Dir: a.Dir, Env: a.Env}, Inside: a.InsideRun(), Version: command.Version(), Now: a.Now}
	return mcp.Serve(c.Context, p, o, io.NopCloser(a.Stdin), unclosed{a.Stdout})
}

// toolsOf is the kind of tools that is asked for.
func toolsOf(c *cli.Context) (mcp.Tools, error) {
	tools := mcp.Tools(c.String("tools"))
	if !slices.Contains(mcp.Kinds, tools) {
		return "", app.Usagef("--tools %q is none of read, work, all", tools)
	}
	return tools, nil
}

// unclosed is a stream that stays open when whoever writes to it is done.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
