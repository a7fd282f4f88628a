package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/mcp"
	"github.com/trellis-tasks/trellis/internal/mcp/clients"
)

func mcpInstallCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "install",
		Usage:     "have an agent program of yours start the server",
		ArgsUsage: "claude|codex|opencode",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "undo", Usage: "take the entry out again"},
			&cli.StringFlag{Name: "tools", Value: string(mcp.Work), Usage: "`KIND` of tools it gets: read, work or all"},
			&cli.BoolFlag{Name: "yes", Usage: "change the file without being asked"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Shows the entry and the file of your settings that gets it, asks, and
adds it; nothing else in the file changes. --undo takes it out, and the file is what it was before, to the byte, where
nobody changed the entry.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet}, "trellis mcp install claude", "trellis mcp install codex --tools read --yes", "trellis mcp install claude --undo"),
		Action: func(c *cli.Context) error { return runMCPInstall(a, c) },
	}
}

func runMCPInstall(a *command.Console, c *cli.Context) error {
	if err := a.OnlyPeople("change the settings of agents"); err != nil {
		return err
	}
	at := slices.IndexFunc(clients.All, func(one clients.Client) bool { return one.Name == c.Args().First() })
	if at < 0 {
		return app.Usagef("nobody knows the program %q: it is one of %s", c.Args().First(), clients.Names())
	}
	client := clients.All[at]
	if c.Bool("undo") {
		e, err := client.Remove(a.Disk, a.Getenv)
		if err != nil {
			return err
		}
		return a.Print(c.Bool("json"), e, func() error {
			if !e.Made {
				a.Say("%s has no entry for trellis", e.File)
				return nil
			}
			a.Say("taken out of %s", e.File)
			return nil
		})
	}
	tools, err := toolsOf(c)
	if err != nil {
		return err
	}
	start, err := starting(a)
	if err != nil {
		return err
	}
	return installMCP(a, client, append(start, "mcp", "--tools", string(tools)), c.Bool("yes"), c.Bool("json"))
}

// installMCP adds the entry of a command to a client's settings.
func installMCP(a *command.Console, client clients.Client, start []string, yes, asJSON bool) error {
	e, err := client.Look(a.Getenv, start)
	switch {
	case err != nil:
		return err
	case e.Other:
		return app.WithHints(app.AsKind(app.ErrUnmet, fmt.Errorf("%s has another entry for trellis", e.File)), "trellis mcp install "+client.Name+" --undo")
	case e.Made:
		if !asJSON {
			fmt.Fprintf(a.Stdout, "%s gets\n%s\n", e.File, e.Text)
		}
		if err := agreed(a, yes, client.Name); err != nil {
			return err
		}
		if err := client.Add(a.Disk, e); err != nil {
			return err
		}
	}
	return a.Print(asJSON, e, func() error {
		if e.Made {
			a.Say("added; next: start %s in a repository with tasks, and ask it for them", client.Name)
		} else {
			a.Say("%s has the entry already", e.File)
		}
		return nil
	})
}

// agreed asks the person, who may have said so before.
func agreed(a *command.Console, yes bool, name string) error {
	switch {
	case yes:
		return nil
	case !a.CanAsk():
		return app.WithHints(app.Usagef("nobody can be asked whether the file may change"), "trellis mcp install "+name+" --yes")
	}
	if ok, err := a.Confirm("add it?"); err != nil || ok {
		return err
	}
	return app.AsKind(app.ErrUnmet, errors.New("nothing was changed"))
}

// starting is how this program is started: by its name where that leads here, so that a newer one takes its place.
func starting(a *command.Console) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	name := filepath.Base(self)
	for _, dir := range filepath.SplitList(a.Getenv("PATH")) {
		found, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil || !filepath.IsAbs(found) {
			continue
		}
		one, err := os.Stat(found)
		other, selfErr := os.Stat(self)
		if err == nil && selfErr == nil && os.SameFile(one, other) {
			return []string{name}, nil
		}
		break // another one is first
	}
	return []string{self}, nil
}
