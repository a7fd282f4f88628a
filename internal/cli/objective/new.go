package objective

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (cmd objectives) newCommand() *cli.Command {
	return &cli.Command{
		Name:      "new",
		Usage:     "create the file of a new objective, for you to fill in",
		ArgsUsage: "NAME",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "title", Usage: "`TITLE` of the objective (default: its name)"}},
		Description: command.Manual(`Prints the path of the file. An existing file is left unchanged.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis objective new gateway --title 'Unified gateway testing'"),
		Action: cmd.ForProject(func(c *cli.Context, p *app.Project) error {
			name, err := Name(cmd.Console, p, c.Args().First())
			if err != nil {
				name = c.Args().First() // not a name, which writeNew reports
			}
			title := name
			if c.IsSet("title") {
				title = c.String("title")
			}
			return cmd.writeNew(p, name, title)
		}),
	}
}

func (cmd objectives) writeNew(p *app.Project, name, title string) error {
	if err := roadmap.CheckName(name); err != nil {
		return app.AsKind(app.ErrUsage, err)
	}
	src, err := roadmap.New(title)
	if err != nil {
		return app.AsKind(app.ErrUsage, err)
	}
	path := filepath.Join(p.Root, roadmap.File(name))
	if err := p.Store.Disk.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := p.Store.Disk.Replace(path, nil, src); errors.Is(err, durable.ErrChanged) {
		return app.WithHints(app.Usagef("there is an objective %s", name), "trellis objective show "+trellis.ShellWord(name))
	} else if err != nil {
		return err
	}
	cmd.Say("write its steps; next: trellis objective check %s", trellis.ShellWord(name))
	_, err = fmt.Fprintln(cmd.Stdout, roadmap.File(name))
	return err
}
