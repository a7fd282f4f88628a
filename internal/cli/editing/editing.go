// Package editing is `trellis edit`: a person changes a file of a task in their editor.
package editing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/editor"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	letters "github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Command returns `trellis edit`.
func Command(console *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "edit",
		Usage:     "edit a file of a task in your editor, and check it before saving",
		ArgsUsage: "TASKDIR [prd|plan|task|implement|check|debug]",
		Description: command.Manual(`Opens a copy of the file (default: prd.md) in $VISUAL or $EDITOR. When you leave the editor, the copy is checked
as by trellis validate. Problems are shown with their line, and you are asked: edit again, discard your
changes, or, if the task has not begun, keep them. Your changes are never lost: if the editor dies, or the
file was changed meanwhile, the copy is kept and you are told where.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, "trellis edit 02-01-auth", "trellis edit 02-01-auth plan"),
		Action: console.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			word := cmp.Or(c.Args().Get(1), "prd")
			name, err := app.EditedFile(word)
			if err != nil {
				return err
			}
			return File(c.Context, console, p, dir, name)
		}),
	}
}

// File has a person change a file of a task. While the editor runs, Ctrl-C is for the editor.
func File(ctx context.Context, console *command.Console, p *app.Project, dir, name string) error {
	if err := console.RequirePerson("edit a task"); err != nil {
		return err
	}
	if !console.CanAsk() && console.Getenv("VISUAL")+console.Getenv("EDITOR") == "" {
		return app.WithHints(app.Usagef("there is no terminal and no editor: change %s by hand", p.Store.Rel(filepath.Join(dir, name))), "trellis validate "+trellis.ShellWord(filepath.Base(dir)))
	}
	was, text, err := p.Edits().Text(dir, name)
	if err != nil {
		return err
	}
	draft, err := editor.Open(console, name, text)
	if err != nil {
		return err
	}
	e := &editSession{console, p, p.Edits(), dir, name, was, draft}
	return e.run(ctx, text)
}

// editSession is a file of a task while a person changes it.
type editSession struct {
	*command.Console
	p        *app.Project
	edits    app.Edits
	dir      string
	name     string
	original []byte // the text before; nil: there was no file
	draft    *editor.Draft
}

func (e *editSession) file() string { return e.p.Store.Rel(filepath.Join(e.dir, e.name)) }

// run has the person edit until the text is saved or discarded.
func (e *editSession) run(ctx context.Context, begun []byte) error {
	for {
		text, err := e.draft.Edit()
		if err != nil {
			return app.WithHints(err, append(app.HintsOf(err), e.editCommand())...)
		}
		if bytes.Equal(text, begun) && (e.original != nil || len(text) == 0) {
			e.Say("%s stays as it is: nothing was changed", e.file())
			return e.draft.Discard()
		}
		again, err := e.checkAndSave(ctx, text)
		if err != nil || !again {
			return err
		}
	}
}

// checkAndSave checks a text and saves it, or asks what to do.
func (e *editSession) checkAndSave(ctx context.Context, text []byte) (again bool, err error) {
	problems, err := e.edits.Check(context.WithoutCancel(ctx), e.dir, e.name, text)
	if err != nil {
		return false, e.withDraftPath(err)
	}
	e.SayProblems(withoutFixCommands(problems))
	if wrong := len(trellis.Errors(problems)); wrong == 0 {
		return false, e.save(text)
	} else if !e.CanAsk() {
		return false, e.withDraftPath(app.AsKind(app.ErrUnmet, fmt.Errorf("%s has %s and was not saved", e.file(), letters.Count(wrong, "problem"))))
	}
	answers := []string{"edit again", "discard"}
	if e.edits.MaySaveInvalid(e.dir) {
		answers = append(answers, "keep")
	}
	asked, stop := questionContext(ctx)
	defer stop()
	switch answer, err := e.Choose(asked, "it is not saved yet", answers...); {
	case asked.Err() != nil:
		return false, e.withDraftPath(context.Cause(asked))
	case err != nil:
		return false, e.withDraftPath(err)
	case answer == "keep":
		return false, e.save(text)
	case answer == "discard":
		e.Say("%s stays as it was", e.file())
		return false, e.draft.Discard()
	}
	return true, nil
}

// questionContext returns a context that ends with a signal, other than a SIGINT from before, which was for the editor.
func questionContext(ctx context.Context) (asked context.Context, stop func()) {
	var by *proc.SignalError
	if errors.As(context.Cause(ctx), &by) && by.Signal == syscall.SIGINT {
		return proc.SignalContext(context.WithoutCancel(ctx))
	}
	return ctx, func() {}
}

// withoutFixCommands returns problems of a text that is not in its file yet, without the commands that would mend the file.
func withoutFixCommands(problems []trellis.Problem) []trellis.Problem {
	list := slices.Clone(problems)
	for i := range list {
		if strings.HasPrefix(list[i].Hint, "trellis ") {
			list[i].Hint = ""
		}
	}
	return list
}

func (e *editSession) save(text []byte) error {
	err := e.edits.Save(e.dir, e.name, e.original, text)
	if errors.Is(err, durable.ErrChanged) {
		err = app.WithHints(app.AsKind(app.ErrUnmet, fmt.Errorf("%s was changed meanwhile, and stays so; what you wrote is in %s", e.file(), e.draft.Path())),
			"diff "+trellis.ShellWord(e.draft.Path())+" "+trellis.ShellWord(e.file()))
		return err
	}
	if err != nil {
		return e.withDraftPath(err)
	}
	e.Say("%s is saved", e.file())
	return e.draft.Discard()
}

func (e *editSession) withDraftPath(err error) error {
	hints := append(app.HintsOf(err), e.editCommand())
	return app.WithHints(fmt.Errorf("%w; what you wrote is in %s", err, e.draft.Path()), hints...)
}

// editCommand returns the command that edits the file again.
func (e *editSession) editCommand() string {
	word := strings.TrimSuffix(e.name, filepath.Ext(e.name))
	return strings.TrimSuffix("trellis edit "+trellis.ShellWord(filepath.Base(e.dir))+" "+word, " prd")
}
