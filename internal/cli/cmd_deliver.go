package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func deliverCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "deliver",
		Usage:     "push the branch of a task and open its pull request",
		ArgsUsage: "TASKDIR",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "dry-run", Usage: "show what would be pushed, the commands and the text, without changing anything"}, command.JSONFlag()},
		Description: command.Manual(`Takes a task in review, whatever delivery.push and delivery.pr say, or one whose delivery failed, which
resumes from its commit, without an agent. Nothing is pushed twice, and an open pull request is
updated. Commits of others are never overwritten. Without a remote, or without gh or
its sign-in, or GitLab's token, the commands to run are shown. The URL of the pull request goes to stdout.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitInterrupted}, "trellis deliver 02-03-paging --dry-run", "trellis deliver paging"),
		Action: a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			s, err := p.Site(c.Context)
			if err != nil {
				return err
			}
			if c.Bool("dry-run") {
				return previewDelivery(c.Context, a, p, s, dir, c.Bool("json"))
			}
			if err := a.RequirePerson("deliver"); err != nil {
				return err
			}
			return a.Guarded(func() error { return runDeliver(c.Context, a, p, s, dir, c.Bool("json")) })
		}),
	}
}

// deliveryDocument is the JSON of a delivery, or of its preview with --dry-run.
type deliveryDocument struct {
	Task     string              `json:"task"`
	Status   trellis.Status      `json:"status"`
	Branch   string              `json:"branch"`
	Commit   string              `json:"commit"`
	Into     string              `json:"into"` // in a preview: the base branch of the pull request
	Remote   string              `json:"remote"`
	Pushed   bool                `json:"pushed"`
	PRURL    string              `json:"pr_url"`
	Modules  []pipeline.ModulePR `json:"modules"`
	Push     string              `json:"push"` // in a preview: what would be pushed, in words
	Title    string              `json:"title"`
	Body     string              `json:"body"`
	Commands []string            `json:"commands"` // for a person to run
	Notes    []string            `json:"notes"`
}

func deliveryOf(t *taskdir.Task, d pipeline.Delivery) deliveryDocument {
	return deliveryDocument{Task: t.ID, Status: t.Status, Branch: t.BranchName(), Commit: t.Commit, Remote: d.Remote, Pushed: d.Pushed, PRURL: d.PRURL,
		Modules: append([]pipeline.ModulePR{}, d.Modules...), Commands: append([]string{}, d.Commands...), Notes: append([]string{}, d.Notes...)}
}

func runDeliver(ctx context.Context, a *command.Console, p *app.Project, s *runner.Site, dir string, asJSON bool) error {
	if !asJSON {
		if err := sayRemote(ctx, a, p, dir); err != nil {
			return err
		}
	}
	show := a.Show(s, asJSON)
	p.News.Work(s)
	res, err := s.Deliveries().Deliver(ctx, dir)
	show.Close()
	if err != nil {
		return outcome.RunError(a, p, dir, deliveryError(dir, err))
	}
	if res.Status != trellis.Review || res.Failure != nil {
		return outcome.PrintRun(ctx, a, p, res, asJSON)
	}
	if asJSON {
		t, err := p.Store.Load(dir)
		if err != nil {
			return err
		}
		return terminal.JSON(a.Stdout, deliveryOf(t, res.Report.Delivery))
	}
	outcome.SayDelivery(a, res)
	if url := res.Report.Delivery.PRURL; url != "" {
		return a.Result(url)
	}
	return nil
}

// sayRemote prints the branch of the task and the address of the remote that it is pushed to.
func sayRemote(ctx context.Context, a *command.Console, p *app.Project, dir string) error {
	t, err := p.Store.Load(dir)
	if err != nil {
		return err
	}
	remote, err := p.Repo.Remotes().Remote(ctx, t.BaseBranch)
	if err != nil || remote == "" {
		return err
	}
	where, err := remoteAddress(ctx, p, remote)
	if err == nil {
		a.Say("remote    %s, for branch %s", where, t.BranchName())
	}
	return err
}

func remoteAddress(ctx context.Context, p *app.Project, remote string) (string, error) {
	list, err := p.Repo.Remotes().Addresses(ctx, remote)
	if err != nil || len(list) == 1 && list[0] == remote {
		return remote, err
	}
	return remote + " at " + strings.Join(list, ", "), nil
}

func deliveryError(dir string, err error) error {
	var f *flow.Failure
	if !errors.As(err, &f) {
		return err
	}
	if f.Code == string(trellis.EmptyDiff) { // the base already has all changes of the task
		return app.WithHints(err, "trellis cleanup --merged")
	}
	info, _ := trellis.Code(f.Code).Info()
	return app.WithHints(err, strings.ReplaceAll(info.Todo, "DIR", filepath.Base(dir)))
}

func previewDelivery(ctx context.Context, a *command.Console, p *app.Project, s *runner.Site, dir string, asJSON bool) error {
	d, err := s.Deliveries().Preview(ctx, dir)
	if err != nil {
		return outcome.RunError(a, p, dir, deliveryError(dir, err))
	}
	t, err := p.Store.Load(dir)
	if err != nil {
		return err
	}
	if asJSON {
		doc := deliveryOf(t, d.Delivery)
		doc.Into, doc.Push, doc.Title, doc.Body = d.Into, d.Push, d.Title, d.Body
		return terminal.JSON(a.Stdout, doc)
	}
	where := d.Remote
	if where != "" {
		if where, err = remoteAddress(ctx, p, d.Remote); err != nil {
			return err
		}
	}
	for _, row := range [][2]string{{"task", filepath.Base(dir)}, {"remote", where}, {"branch", t.BranchName()}, {"base", d.Into}, {"push", d.Push}, {"pr", d.PRURL}, {"title", d.Title}} {
		if row[1] != "" {
			fmt.Fprintf(a.Stdout, "%-7s %s\n", row[0], trellis.Visible(row[1]))
		}
	}
	for _, c := range d.Commands {
		fmt.Fprintf(a.Stdout, "$ %s\n", trellis.Visible(c))
	}
	for _, m := range d.Parts {
		if m.Into != "" {
			fmt.Fprintf(a.Stdout, "\nfirst, in %s, for its %s:\n\n%s\n", trellis.Visible(m.Path), trellis.Visible(m.Into), trellis.Visible(m.Body))
		}
	}
	if len(d.Parts) > 0 {
		fmt.Fprint(a.Stdout, "\nthen:\n")
	}
	if d.Body != "" {
		fmt.Fprintf(a.Stdout, "\n%s\n", trellis.Visible(d.Body))
	}
	for _, n := range d.Notes {
		a.Say("note: %s", n)
	}
	return nil
}
