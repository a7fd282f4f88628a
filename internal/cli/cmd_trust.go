package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/taskdir"
)

// trustCommand is `trellis trust`.
func (a *console) trustCommand() *cli.Command {
	return &cli.Command{
		Name:      "trust",
		Usage:     "show what came by git and would run here, and agree to it",
		ArgsUsage: "[TASKDIR]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "settings", Usage: "the project's settings"},
			&cli.StringFlag{Name: "objective", Usage: "the objective `NAME`"},
			&cli.StringFlag{Name: "base", Usage: "what `COMMIT` has and the trusted branch has not"},
			&cli.BoolFlag{Name: "all", Usage: "settings, objectives, and tasks that are not over"},
			&cli.BoolFlag{Name: "yes", Usage: "agree without being asked"},
			&cli.BoolFlag{Name: "list", Usage: "show what is remembered of this repository"},
			&cli.BoolFlag{Name: "revoke", Usage: "take back what was agreed to"},
			command.JSONFlag(),
		},
		Description: command.Manual(`What you write here runs without a question, and so does what stands on the remote's default branch as
last fetched (trust.branch in your settings). What came any other way waits until you agree: this shows each command,
where it stands and whose commit it came with, asks, and remembers the answer outside of the repository. A word of it that
changes is asked about again. Without arguments it shows what is not trusted, and asks nothing.
TRELLIS_TRUST=checkout trusts all that is checked out, for one process.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitWaiting, command.ExitNotFound}, "trellis trust", "trellis trust 11-22-paging", "trellis trust --settings --yes", "trellis trust --all --json", "trellis trust 11-22-paging --revoke"),
		Action: func(c *cli.Context) error {
			o := trustOptions{c.Args().First(), c.Bool("settings"), c.String("objective"), c.String("base"), c.Bool("all"), c.Bool("yes"), c.Bool("json")}
			if err := o.check(c); err != nil {
				return err
			}
			if _, inside := proc.InsideRun(a.Env); inside {
				return app.Usagef("this runs inside a task or a run: only a person can say what is trusted")
			}
			p, err := a.OpenRepository()
			if err != nil {
				return err
			}
			j, err := p.Gate.Judge()
			if err != nil {
				return err
			}
			t := &truster{app: a, p: p, judge: j, o: o}
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

type trustOptions struct {
	task            string
	settings        bool
	objective, base string
	all, yes, json  bool
}

func (o trustOptions) check(c *cli.Context) error {
	named := 0
	for _, said := range []bool{o.task != "", o.settings, o.objective != "", o.base != "", o.all} {
		if said {
			named++
		}
	}
	switch {
	case c.NArg() > 1:
		return command.WrongArguments(c)
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

// truster is one call of `trellis trust`.
type truster struct {
	app   *console
	p     *app.Project
	judge *trust.Judge
	o     trustOptions

	unasked error // why something that was to be agreed to was not
}

// run shows what is not trusted, and has it agreed to unless nothing was named.
func (t *truster) run(ctx context.Context) error {
	verdicts, err := t.verdicts(ctx)
	if err != nil {
		return err
	}
	branch, err := t.judge.Chosen(ctx)
	if err != nil {
		return err
	}
	report := trustReport{Trusted: true, Branch: branch, Subjects: []trustSubject{}}
	for _, v := range verdicts {
		agreed, err := t.settle(v)
		if err != nil {
			return err
		}
		report.add(v, agreed)
	}
	if t.o.json {
		if err := terminal.JSON(t.app.Stdout, report); err != nil {
			return err
		}
	} else if t.judge.Everything {
		t.app.Say("everything that is checked out here is trusted, and nothing is remembered")
	} else if report.Trusted && !t.asks() {
		fmt.Fprintln(t.app.Stdout, "all of it is trusted")
	}
	if !t.o.json && !t.asks() {
		fmt.Fprintln(t.app.Stdout, "the trusted branch is", trellis.VisibleLine(branch))
	}
	switch {
	case report.Trusted:
		return nil
	case t.unasked != nil:
		return t.unasked
	}
	return app.Quiet(app.ErrWaiting)
}

// asks reports whether something was named to be agreed to.
func (t *truster) asks() bool {
	return t.o.all || t.o.settings || t.o.task != "" || t.o.objective != "" || t.o.base != ""
}

// settle shows a verdict and has a person agree to it.
func (t *truster) settle(v trust.Verdict) (agreed bool, err error) {
	if v.Unsaved != nil {
		t.app.Say("%s: %v", v.Subject, v.Unsaved)
	}
	var untrusted *trust.UntrustedError
	if !errors.As(v.Err(), &untrusted) {
		if t.asks() && !t.o.json && !t.judge.Everything && !t.o.all {
			fmt.Fprintf(t.app.Stdout, "%s: nothing of it waits for anybody to agree\n", terminal.Safe(v.Subject))
		}
		return false, nil
	}
	if !t.o.json {
		printVerdict(t.app, untrusted)
	}
	switch {
	case t.o.yes:
	case !t.asks() || t.o.json:
		if !t.o.json {
			t.app.Say("next: %s", untrusted.Next())
		}
		return false, nil
	case !t.app.CanAsk():
		t.unasked = app.WithHints(app.AsKind(app.ErrWaiting, errors.New("nobody is here to be asked: it is not trusted")), t.again())
		return false, nil
	default:
		if yes, err := t.app.Confirm("may all of this run here?"); err != nil || !yes {
			return false, err
		}
	}
	if err := t.judge.Agree(v); err != nil {
		return false, app.WithHints(err, "TRELLIS_TRUST=checkout trellis … trusts all that is checked out, for one process")
	}
	t.app.Say("%s may run here now", v.Called())
	return true, nil
}

// again is the same call for somebody who is not asked.
func (t *truster) again() string {
	switch {
	case t.o.settings:
		return "trellis trust --settings --yes"
	case t.o.objective != "":
		return "trellis trust --objective " + t.o.objective + " --yes"
	case t.o.base != "":
		return "trellis trust --base " + t.o.base + " --yes"
	case t.o.all:
		return "trellis trust --all --yes"
	}
	return "trellis trust " + t.o.task + " --yes"
}

// verdicts are those that a call is about.
func (t *truster) verdicts(ctx context.Context) (list []trust.Verdict, err error) {
	if t.o.base != "" {
		v, err := t.base(ctx, t.o.base)
		return []trust.Verdict{v}, err
	}
	subjects, err := t.subjects()
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		v, err := t.judge.Subject(ctx, s)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if !t.asks() {
		return list, nil
	}
	v, err := t.baseOf(ctx, subjects[0].Name) // hooks and planners have what is checked out before them
	if err == nil && !v.Trusted() {
		list = append(list, v)
	}
	return list, err
}

// base is the verdict on a commit.
func (t *truster) base(ctx context.Context, name string) (trust.Verdict, error) {
	commit, err := t.p.Repo.Resolve(ctx, name)
	if err != nil {
		return trust.Verdict{}, app.AsKind(app.ErrUsage, err)
	}
	return t.judge.Base(ctx, commit)
}

// baseOf is the verdict on the branch that a task names to begin at, or, of anything else too, on what is checked out.
func (t *truster) baseOf(ctx context.Context, id string) (trust.Verdict, error) {
	task, err := t.p.Store.Load(filepath.Join(t.p.Store.Tasks(), id))
	if t.o.task != "" && err == nil && task.BaseBranch != "" {
		if commit, err := t.p.Repo.Resolve(ctx, task.BaseBranch); err == nil {
			return t.judge.Base(ctx, commit)
		}
	}
	head, err := t.p.Repo.Head(ctx, t.p.Root)
	if errors.Is(err, git.ErrNoCommit) {
		return trust.Verdict{}, nil // there is nothing to begin at yet, and the run says so
	}
	if err != nil {
		return trust.Verdict{}, err
	}
	return t.judge.Base(ctx, head)
}

func (t *truster) subjects() ([]trust.Subject, error) {
	switch {
	case t.o.settings:
		return []trust.Subject{subject.Settings()}, nil
	case t.o.objective != "":
		if _, err := roadmap.Read(t.p.Root, t.o.objective); err != nil {
			return nil, app.WithHints(err, "trellis objective list")
		}
		return []trust.Subject{subject.Objective(t.o.objective)}, nil
	case t.o.task != "":
		dir, err := t.p.Find(t.o.task)
		if err != nil {
			return nil, err
		}
		s, err := subject.Task(t.p.Root, t.p.Store.Rel(dir))
		return []trust.Subject{s}, err
	}
	return t.everySubject()
}

// everySubject is the settings, all objectives, and the tasks that are not over.
func (t *truster) everySubject() ([]trust.Subject, error) {
	list := []trust.Subject{subject.Settings()}
	names, err := roadmap.Names(t.p.Root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		list = append(list, subject.Objective(name))
	}
	entries, err := t.p.Store.List()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if finished(e) {
			continue
		}
		s, err := subject.Task(t.p.Root, t.p.Store.Rel(e.Dir))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// finished reports whether a task will not run again.
func finished(e taskdir.Entry) bool {
	return e.Task != nil && (e.Task.Status == trellis.Completed || e.Task.Status == trellis.Rejected)
}

// revoke takes back trust in one subject.
func (t *truster) revoke(ctx context.Context) error {
	name := trust.BasePrefix
	if t.o.base != "" {
		commit, err := t.p.Repo.Resolve(ctx, t.o.base)
		if err != nil {
			return app.AsKind(app.ErrUsage, err)
		}
		name += commit
	} else {
		subjects, err := t.subjects()
		if err != nil {
			return err
		}
		name = subjects[0].Name
	}
	n, err := t.judge.Revoke(name)
	if err == nil && name == trust.Settings {
		err = t.p.Gate.ForgetSettings()
	}
	if err != nil {
		return err
	}
	if n == 0 {
		t.app.Say("nothing of %s was remembered as trusted", name)
		return nil
	}
	t.app.Say("%s of %s will be asked about again", command.Count(n, "thing"), name)
	return nil
}

// list prints the ledger's lines about this repository.
func (t *truster) list() error {
	entries, problems, err := t.judge.List()
	if err != nil {
		return err
	}
	for _, p := range problems {
		t.app.Say("%v", &p)
	}
	if t.o.json {
		if entries == nil {
			entries = []trust.Entry{}
		}
		return terminal.JSON(t.app.Stdout, entries)
	}
	w := tabwriter.NewWriter(t.app.Stdout, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.At.Local().Format("2006-01-02 15:04"), e.How, terminal.Safe(e.Subject), e.Kind, trellis.VisibleLine(strings.TrimSpace(e.Text+" "+shortCommit(e.Commit))))
	}
	return w.Flush()
}

func shortCommit(commit string) string {
	const short = 10
	return commit[:min(short, len(commit))]
}
