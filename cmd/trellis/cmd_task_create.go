package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
	"github.com/urfave/cli/v2"
)

func (a *app) taskCreateCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "make the directory of a task that you write yourself",
		ArgsUsage: "TITLE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "slug", Usage: "`NAME` of the task: small letters, digits, dashes (default: from the title)"},
			&cli.StringFlag{Name: "assignee", Usage: "`WHO` works on it (default: trellis init -u)"},
			&cli.StringFlag{Name: "priority", Usage: "`P0` to P3", Value: "P2"},
			&cli.StringFlag{Name: "description", Usage: "`TEXT` that says more than the title"},
			&cli.StringFlag{Name: "parent", Usage: "`TASKDIR` that it becomes a subtask of"},
			&cli.StringFlag{Name: "package", Usage: "`NAME` of the package that it is about, in a repository of several"},
		},
		Description: manual(`The task is in planning: write its prd.md, let init-context name the files that agents read, and set
it ready. The last line printed is the directory.`,
			[]int{exitDone, exitUsage, exitNotFound}, `trellis task create "Log in with mail" --slug mail-login --priority P1`),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || strings.TrimSpace(c.Args().First()) == "" {
				return wrongArguments(c)
			}
			p, err := a.open(c.Context)
			if err != nil {
				return err
			}
			n, parent, err := a.newTask(c, p)
			if err != nil {
				return err
			}
			return a.taskCreate(p, n, parent)
		},
	}
}

// newTask is the task that the flags describe, and the directory of its parent.
func (a *app) newTask(c *cli.Context, p *project) (n taskdir.New, parent string, err error) {
	n = taskdir.New{Title: strings.TrimSpace(c.Args().First()), Description: c.String("description"), Priority: c.String("priority"),
		Assignee: c.String("assignee"), Package: c.String("package")}
	if err := checkPriority(n.Priority); err != nil {
		return n, "", err
	}
	if text := c.String("slug"); text != "" {
		n.Name, err = a.slug(text, "--slug")
	} else if n.Name = trellis.Slug(n.Title); n.Name == "" {
		err = hint(usagef("the title %q leaves no name: it has no letter from a to z and no digit", n.Title), "give one with --slug")
	}
	if err != nil {
		return n, "", err
	}
	if n.Creator, err = developer(p.Root); err != nil {
		return n, "", err
	}
	if n.Assignee == "" {
		n.Assignee = n.Creator
	}
	if ref := c.String("parent"); ref != "" {
		if parent, err = a.find(p, ref); err != nil {
			return n, "", err
		}
		n.Parent = filepath.Base(parent)
	}
	return n, parent, nil
}

func (a *app) taskCreate(p *project, n taskdir.New, parent string) error {
	t, err := p.Store.Create(n)
	var taken *taskdir.ExistsError
	if errors.As(err, &taken) {
		return hint(as(errUsage, err), "trellis task show "+filepath.Base(taken.Dir), "choose another with --slug")
	}
	if err != nil {
		return err
	}
	if parent != "" {
		if err := p.Store.AddSubtask(parent, t.Dir); err != nil {
			return err
		}
	}
	rel := p.Store.Rel(t.Dir)
	a.say("made %s; what is next:", rel)
	a.say("  write what is wanted into %s/prd.md", rel)
	a.say("  trellis task init-context %s backend|frontend|fullstack|test|docs", t.ID)
	a.say("  trellis task ready %s", t.ID)
	_, err = fmt.Fprintln(a.Stdout, rel)
	return err
}
