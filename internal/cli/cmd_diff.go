package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"
)

func diffCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "show the changes of a task against its base",
		ArgsUsage: "TASKDIR",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "stat", Usage: "only the files and the size of their changes"},
			&cli.BoolFlag{Name: "name-only", Usage: "only the file names"},
			command.JSONFlag(),
		},
		Description: command.Manual(`As long as the worktree exists, its contents count, committed or not; after that, the branch or the delivered commit.
A terminal shows it in colour and in a pager: $GIT_PAGER, core.pager of your git settings, $PAGER, or less.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitNotFound}, "trellis diff 02-01-auth", "trellis diff --stat 02-01-auth", "trellis diff 02-01-auth | git apply", "trellis diff 02-01-auth --json | jq -r '.files[].path'"),
		Action: a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			d := difference{console: a, project: p, dir: dir, stat: c.Bool("stat"), plain: c.Bool("name-only")}
			switch names := d.plain; {
			case names && d.stat:
				return app.Usagef("--stat and --name-only are two answers: give one of them")
			case c.Bool("json"):
				return d.json(c.Context, !names && !d.stat)
			case names:
				return d.names(c.Context)
			}
			return d.show(c.Context)
		}),
	}
}

// difference prints what a task changed.
type difference struct {
	console *command.Console
	project *app.Project
	dir     string
	stat    bool
	plain   bool // for --name-only: no colours
}

func (d difference) show(ctx context.Context) error {
	began := true
	err := d.console.Page(ctx, d.project, func(w io.Writer) (err error) {
		return d.writeVisible(w, func(out io.Writer) (err error) {
			began, err = d.project.Diff(ctx, d.dir, d.stat, out)
			return err
		})
	})
	if err == nil && !began {
		d.sayNotBegun()
	}
	return err
}

func (d difference) sayNotBegun() {
	d.console.Say("%s has not begun: nothing was changed for it", filepath.Base(d.dir))
}

// writeVisible calls write with w itself, as git apply needs it, or on a terminal with a writer that colours and escapes the text.
func (d difference) writeVisible(w io.Writer, write func(io.Writer) error) error {
	if !command.IsTerminal(d.console.Stdout) {
		return write(w)
	}
	safe := &terminal.DiffWriter{W: w, Colour: !d.plain && d.console.Colour(d.console.Stdout)}
	return errors.Join(write(safe), safe.Close())
}

func (d difference) names(ctx context.Context) error {
	c, err := d.project.Changes(ctx, d.dir)
	if err != nil {
		return err
	}
	if c.Base == "" {
		d.sayNotBegun()
		return nil
	}
	return d.console.Page(ctx, d.project, func(w io.Writer) error {
		return d.writeVisible(w, func(out io.Writer) error {
			for _, f := range c.Files {
				if _, err := fmt.Fprintln(out, f.Path); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// diffDocument is what a task changed. Its JSON is a contract.
type diffDocument struct {
	Dir   string     `json:"dir"`
	Base  string     `json:"base"` // "" while nothing was done for the task
	Head  string     `json:"head"` // the commit of the task's branch; the worktree may have further changes
	Files []diffFile `json:"files"`
	Patch string     `json:"patch,omitempty"`
}

type diffFile struct {
	Path    string `json:"path"`
	Change  string `json:"change"`  // added, modified, deleted, type
	Added   int    `json:"added"`   // lines; -1: the file is binary
	Deleted int    `json:"deleted"` // lines; -1: the file is binary
}

// changeWords maps git's letters for the kind of a change to the words of the JSON.
var changeWords = map[byte]string{'A': "added", 'M': "modified", 'D': "deleted", 'T': "type"}

func (d difference) json(ctx context.Context, patch bool) error {
	c, err := d.project.Changes(ctx, d.dir)
	if err != nil {
		return err
	}
	doc := diffDocument{Dir: d.project.Store.Rel(d.dir), Base: c.Base, Head: c.Head, Files: []diffFile{}}
	for _, f := range c.Files {
		doc.Files = append(doc.Files, diffFile{f.Path, changeWords[f.Kind], f.Added, f.Deleted})
	}
	if patch && c.Base != "" {
		var text strings.Builder
		if _, err := d.project.Diff(ctx, d.dir, false, &text); err != nil {
			return err
		}
		doc.Patch = text.String()
	}
	return terminal.JSON(d.console.Stdout, doc)
}
