// Package trust is `trellis trust`: it shows commands and texts that came by git and would run here, and records that a person agrees to them.
package trust

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Command returns `trellis trust`.
func Command(console *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "trust",
		Usage:     "show what came through git and would run here, and trust it",
		ArgsUsage: "[TASKDIR]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "settings", Usage: "the project's settings"},
			&cli.StringFlag{Name: "objective", Usage: "the objective `NAME`"},
			&cli.StringFlag{Name: "base", Usage: "what `COMMIT` has and the trusted branch lacks"},
			&cli.BoolFlag{Name: "all", Usage: "settings, objectives, and unfinished tasks"},
			&cli.BoolFlag{Name: "yes", Usage: "trust without asking"},
			&cli.BoolFlag{Name: "list", Usage: "list what is recorded for this repository"},
			&cli.BoolFlag{Name: "revoke", Usage: "revoke earlier trust"},
			command.JSONFlag(),
		},
		Description: command.Manual(`What you write here runs without asking, and so does what is on the remote's default branch as
last fetched (trust.branch in your settings). Anything else waits until you agree: this shows each command,
its place and whose commit it came with, asks, and records the answer outside the repository. If a word of it
changes, you are asked again. Without arguments it shows what is not trusted, and asks nothing.
TRELLIS_TRUST=checkout trusts everything that is checked out, for one process.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitWaiting, command.ExitNotFound}, "trellis trust", "trellis trust 11-22-paging", "trellis trust --settings --yes", "trellis trust --all --json", "trellis trust 11-22-paging --revoke"),
		Action: func(c *cli.Context) error {
			o := options{c.Args().First(), c.Bool("settings"), c.String("objective"), c.String("base"), c.Bool("all"), c.Bool("yes"), c.Bool("json")}
			if err := o.check(c); err != nil {
				return err
			}
			if err := console.RequirePerson("say what is trusted"); err != nil {
				return err
			}
			p, err := console.OpenRepository()
			if err != nil {
				return err
			}
			j, err := p.Gate.Judge()
			if err != nil {
				return err
			}
			t := &call{console: console, project: p, judge: j, options: o,
				yesCommand: strings.Join(slices.Concat([]string{"trellis trust"}, c.Args().Slice(), command.GivenFlags(c, "settings", "objective", "base", "all"), []string{"--yes"}), " ")}
			switch {
			case c.Bool("list"):
				return t.list()
			case c.Bool("revoke"):
				return t.revoke(c.Context)
			}
			return t.run(c.Context)
		},
	}
}

type options struct {
	task            string
	settings        bool
	objective, base string
	all, yes, json  bool
}

func (o options) check(c *cli.Context) error {
	named := 0
	for _, said := range []bool{o.task != "", o.settings, o.objective != "", o.base != "", o.all} {
		if said {
			named++
		}
	}
	switch {
	case named > 1:
		return app.Usagef("a task, --settings, --objective, --base and --all are each for themselves")
	case c.Bool("list") && (named > 0 || o.yes || c.Bool("revoke")):
		return app.Usagef("--list shows what is remembered of the whole repository, and changes nothing")
	case named == 0 && (o.yes || c.Bool("revoke")):
		return app.WithHints(app.Usagef("say what: a task, --settings, --objective NAME, --base COMMIT or --all"), "trellis trust")
	case c.Bool("revoke") && (o.yes || o.all):
		return app.Usagef("--revoke takes back trust in one thing: a task, --settings, --objective NAME or --base COMMIT")
	}
	return nil
}

// call is one call of `trellis trust`.
type call struct {
	console *command.Console
	project *app.Project
	judge   *trust.Judge
	options
	yesCommand string // the same call with --yes

	askError error // the error if a person had to agree and could not be asked
}

// run prints what is not trusted, and asks a person to agree to it if the call names something.
func (c *call) run(ctx context.Context) error {
	verdicts, err := c.verdicts(ctx)
	if err != nil {
		return err
	}
	branch, err := c.judge.Chosen(ctx)
	if err != nil {
		return err
	}
	report := report{Trusted: true, Branch: branch, Subjects: []subjectReport{}}
	for _, v := range verdicts {
		agreed, err := c.decide(v)
		if err != nil {
			return err
		}
		report.add(v, agreed)
	}
	if c.json {
		if err := terminal.JSON(c.console.Stdout, report); err != nil {
			return err
		}
	} else if c.judge.Everything {
		c.console.Say("everything that is checked out here is trusted, and nothing is remembered")
	} else if report.Trusted && !c.namesSubject() {
		fmt.Fprintln(c.console.Stdout, "all of it is trusted")
	}
	if !c.json && !c.namesSubject() && !c.judge.Everything {
		fmt.Fprintln(c.console.Stdout, "the trusted branch is", trellis.VisibleLine(branch))
	}
	switch {
	case report.Trusted:
		return nil
	case c.askError != nil:
		return c.askError
	}
	return app.Quiet(app.ErrWaiting)
}

// namesSubject reports whether the call names something to agree to.
func (c *call) namesSubject() bool {
	return c.all || c.settings || c.task != "" || c.objective != "" || c.base != ""
}

// decide prints a verdict and has a person agree to it.
func (c *call) decide(v trust.Verdict) (agreed bool, err error) {
	if v.Unsaved != nil {
		c.console.Say("%s: %v", v.Subject, v.Unsaved)
	}
	var untrusted *trust.UntrustedError
	if !errors.As(v.Err(), &untrusted) {
		if c.namesSubject() && !c.json && !c.judge.Everything && !c.all {
			fmt.Fprintf(c.console.Stdout, "%s: nothing in it waits for approval\n", trellis.Visible(v.Subject))
		}
		return false, nil
	}
	if !c.json {
		printVerdict(c.console.Stdout, untrusted)
	}
	switch {
	case c.yes:
	case !c.namesSubject() || c.json:
		if !c.json {
			c.console.Say("next: %s", untrusted.Next())
		}
		return false, nil
	case !c.console.CanAsk():
		c.askError = app.WithHints(app.AsKind(app.ErrWaiting, errors.New("there is no terminal to ask on: it is not trusted")), c.yesCommand)
		return false, nil
	default:
		if yes, err := c.console.Confirm("may all of this run here?"); err != nil || !yes {
			return false, err
		}
	}
	if err := c.judge.Agree(v); err != nil {
		return false, app.WithHints(err, "TRELLIS_TRUST=checkout trellis … trusts all that is checked out, for one process")
	}
	c.console.Say("%s may run here now", v.Called())
	return true, nil
}

func (c *call) verdicts(ctx context.Context) (list []trust.Verdict, err error) {
	if c.base != "" {
		v, err := c.commitVerdict(ctx, c.base)
		return []trust.Verdict{v}, err
	}
	subjects, err := c.subjects()
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		v, err := c.judge.Subject(ctx, s)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if !c.namesSubject() {
		return list, nil
	}
	v, err := c.baseVerdict(ctx, subjects[0].Name) // hooks and planners see what is checked out
	if err == nil && !v.Trusted() {
		list = append(list, v)
	}
	return list, err
}

func (c *call) commitVerdict(ctx context.Context, name string) (trust.Verdict, error) {
	commit, err := c.project.Repo.Refs().Resolve(ctx, name)
	if err != nil {
		return trust.Verdict{}, app.AsKind(app.ErrUsage, err)
	}
	return c.judge.Base(ctx, commit)
}

// baseVerdict returns the verdict on the base branch of the task that is named, or else on the commit that is checked out.
func (c *call) baseVerdict(ctx context.Context, id string) (trust.Verdict, error) {
	task, err := c.project.Store.Load(filepath.Join(c.project.Store.Tasks(), id))
	if c.task != "" && err == nil && task.BaseBranch != "" {
		if commit, err := c.project.Repo.Refs().Resolve(ctx, task.BaseBranch); err == nil {
			return c.judge.Base(ctx, commit)
		}
	}
	head, err := c.project.Repo.Refs().Head(ctx, c.project.Root)
	if errors.Is(err, git.ErrNoCommit) {
		return trust.Verdict{}, nil // there is no commit to begin at, which the run reports
	}
	if err != nil {
		return trust.Verdict{}, err
	}
	return c.judge.Base(ctx, head)
}

func (c *call) subjects() ([]trust.Subject, error) {
	switch {
	case c.settings:
		return []trust.Subject{subject.Settings()}, nil
	case c.objective != "":
		if _, err := roadmap.Read(c.project.Root, c.objective); err != nil {
			return nil, app.WithHints(err, "trellis objective list")
		}
		return []trust.Subject{subject.Objective(c.objective)}, nil
	case c.task != "":
		dir, err := c.project.Find(c.task)
		if err != nil {
			return nil, err
		}
		s, err := subject.Task(c.project.Root, c.project.Store.Rel(dir))
		return []trust.Subject{s}, err
	}
	return c.allSubjects()
}

// allSubjects returns the settings, all objectives, and the tasks that are not over.
func (c *call) allSubjects() ([]trust.Subject, error) {
	list := []trust.Subject{subject.Settings()}
	names, err := roadmap.Names(c.project.Root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		list = append(list, subject.Objective(name))
	}
	entries, err := c.project.Store.List()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if isClosed(e) {
			continue
		}
		s, err := subject.Task(c.project.Root, c.project.Store.Rel(e.Dir))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func isClosed(e taskdir.Entry) bool {
	return e.Task != nil && (e.Task.Status == trellis.Completed || e.Task.Status == trellis.Rejected)
}

func (c *call) revoke(ctx context.Context) error {
	name := trust.BasePrefix
	if c.base != "" {
		commit, err := c.project.Repo.Refs().Resolve(ctx, c.base)
		if err != nil {
			return app.AsKind(app.ErrUsage, err)
		}
		name += commit
	} else {
		subjects, err := c.subjects()
		if err != nil {
			return err
		}
		name = subjects[0].Name
	}
	n, err := c.judge.Revoke(name)
	if err == nil && name == trust.Settings {
		err = c.project.Gate.ForgetSettings()
	}
	if err != nil {
		return err
	}
	if n == 0 {
		c.console.Say("nothing in %s was remembered as trusted", name)
		return nil
	}
	c.console.Say("%s of %s will be asked about again", text.Count(n, "thing"), name)
	return nil
}

func (c *call) list() error {
	entries, problems, err := c.judge.List()
	if err != nil {
		return err
	}
	for _, p := range problems {
		c.console.Say("%v", &p)
	}
	if c.json {
		return terminal.JSON(c.console.Stdout, append([]trust.Entry{}, entries...))
	}
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, []string{e.At.Local().Format("2006-01-02 15:04"), string(e.How), trellis.Visible(e.Subject), string(e.Kind), trellis.VisibleLine(strings.TrimSpace(e.Text + " " + shortCommit(e.Commit)))})
	}
	return terminal.Grid{Rows: rows, Squeezes: []terminal.Squeeze{{Column: 4, To: 16}, {Column: 2, To: 12}, {Column: 4, To: 0}}}.Print(c.console.Stdout, c.console.Style(c.console.Stdout))
}

func shortCommit(commit string) string {
	const short = 10
	return commit[:min(short, len(commit))]
}
