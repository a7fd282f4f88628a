package task

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func (cmd tasks) createCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "create the directory of a task that you write yourself",
		ArgsUsage: "TITLE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "slug", Usage: "`NAME` of the task: lower-case letters, digits, dashes (default: from the title)"},
			&cli.StringFlag{Name: "assignee", Usage: "`WHO` works on it (default: the user of trellis init -u)"},
			&cli.StringFlag{Name: "priority", Usage: "`P0` to P3", Value: "P2"},
			&cli.StringFlag{Name: "description", Usage: "`TEXT` that describes it in more detail"},
			&cli.StringFlag{Name: "parent", Usage: "`TASKDIR` of the parent task"},
			&cli.StringFlag{Name: "package", Usage: "`NAME` of the package in a monorepo"},
			command.JSONFlag(),
		},
		Description: command.Manual(`The task is in planning: fill in its prd.md (trellis edit), add the files that agents read with init-context, and set
it ready. The last line printed is the directory; with --json the task is printed, as by trellis task show.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, `trellis task create "Log in with mail" --slug mail-login --priority P1`),
		Action: func(c *cli.Context) error {
			if strings.TrimSpace(c.Args().First()) == "" {
				return command.MissingArgument(c)
			}
			return cmd.GuardedFor(c.Context, hooks.AfterCreate, func() error { return cmd.create(c) })
		},
	}
}

func (cmd tasks) create(c *cli.Context) error {
	p, err := cmd.Open(c.Context)
	if err != nil {
		return err
	}
	cfg, _ := p.Config() // errors in the settings don't keep a person from writing a task
	n, parent, err := cmd.newTask(c, p, cfg)
	if err != nil {
		return err
	}
	dir, err := cmd.makeTask(p, n, parent)
	if err != nil {
		return err
	}
	if !cmd.InsideRun() {
		p.Gate.WarnNotRecorded(p.Gate.RecordMade(dir, []string{taskdir.TaskJSON, taskdir.PRD}))
	}
	cmd.Report(p.Hook(c.Context, hooks.AfterCreate, dir))
	if !c.Bool("json") {
		_, err = fmt.Fprintln(cmd.Stdout, p.Store.Rel(dir))
		return err
	}
	return cmd.PrintTask(p, dir)
}

// newTask returns the task that the flags describe, and the directory of its parent.
func (cmd tasks) newTask(c *cli.Context, p *app.Project, cfg *config.Config) (n taskdir.New, parent string, err error) {
	n = taskdir.New{Title: strings.TrimSpace(c.Args().First()), Description: c.String("description"), Priority: c.String("priority"),
		Assignee: c.String("assignee")}
	n.Files = map[string][]byte{taskdir.PRD: taskdir.BlankPRD(n.Title, n.Description)}
	if n.Package, err = p.PackageOf(cfg, c.String("package")); err != nil {
		return n, "", err
	}
	if err := command.CheckPriority(n.Priority); err != nil {
		return n, "", err
	}
	if text := c.String("slug"); text != "" {
		n.Name, err = cmd.Slug(text, "--slug")
	} else if n.Name = trellis.Slug(n.Title); n.Name == "" {
		err = app.WithHints(app.Usagef("the title %q leaves no name: it has no letter from a to z and no digit", n.Title), "give one with --slug")
	}
	if err != nil {
		return n, "", err
	}
	if n.Creator, err = app.Developer(p.Root); err != nil {
		return n, "", err
	}
	n.Assignee = cmp.Or(n.Assignee, n.Creator)
	if ref := c.String("parent"); ref != "" {
		if parent, err = p.Find(ref); err != nil {
			return n, "", err
		}
		n.Parent = filepath.Base(parent)
	}
	return n, parent, nil
}

// makeTask creates the directory, and links it to its parent.
func (cmd tasks) makeTask(p *app.Project, n taskdir.New, parent string) (dir string, err error) {
	t, err := p.Store.Create(n)
	if taken, ok := errors.AsType[*taskdir.ExistsError](err); ok {
		if old, loadErr := p.Store.Load(taken.Dir); loadErr == nil && parent != "" && old.Parent == n.Parent { // cut off before the link?
			err = errors.Join(err, p.Store.AddSubtask(parent, taken.Dir))
		}
		return "", app.WithHints(app.AsKind(app.ErrUsage, err), "trellis task show "+trellis.ShellWord(filepath.Base(taken.Dir)), "choose another with --slug")
	}
	if err != nil {
		return "", err
	}
	if parent != "" {
		if err := p.Store.AddSubtask(parent, t.Dir); err != nil {
			return t.Dir, err
		}
	}
	rel := p.Store.Rel(t.Dir)
	cmd.Say("made %s", rel)
	cmd.Say("next: trellis edit %s", trellis.ShellWord(t.ID))
	cmd.Say("next: trellis task init-context %s backend|frontend|fullstack|test|docs", trellis.ShellWord(t.ID))
	cmd.Say("next: trellis task ready %s", trellis.ShellWord(t.ID))
	return t.Dir, nil
}
