package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/editor"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/cli/review"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func planCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "evaluate a requirement, then reject it or write a task directory",
		ArgsUsage: "[TEXT | -]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "`NAME` of the task, such as user-auth (default: from the text)"},
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "`TYPE` of work: " + strings.Join(trellis.DevTypes, ", ") + " (default: by the files that research finds)"},
			&cli.StringFlag{Name: "requirement", Aliases: []string{"r"}, Usage: "the requirement, as `TEXT`"},
			&cli.StringFlag{Name: "requirement-file", Usage: "read the requirement from `FILE`; - is standard input"},
			&cli.StringFlag{Name: "from-issue", Usage: "read the requirement from an `ISSUE` and its comments: linear:ABC-12, jira:ABC-12, gitlab:group/project#4, github:owner/repo#7, a URL, or 12 on this repository's GitHub"},
			&cli.BoolFlag{Name: "comment", Usage: "with --from-issue: add the pull request's URL to the issue, once there is one"},
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent that plans"},
			&cli.StringSliceFlag{Name: "verify", Usage: "`COMMAND` that decides whether the work is done (repeatable)"},
			&cli.StringSliceFlag{Name: "context", Usage: "`FILE` or folder of the repository for planning and all phases, or an explanation of several words (repeatable)"},
			&cli.StringSliceFlag{Name: "constraint", Usage: "constraint that every plan must meet, as `TEXT` (repeatable)"},
			&cli.StringFlag{Name: "package", Usage: "`NAME` of the package in a monorepo"},
			&cli.StringFlag{Name: "priority", Usage: "P0 to P3"},
			&cli.StringSliceFlag{Name: "depends-on", Usage: "`TASK` that must be done first (repeatable)"},
			&cli.StringFlag{Name: "base", Usage: "`BRANCH` to start from (default: the current one)"},
			&cli.BoolFlag{Name: "quick", Usage: "plan as for tiny work, whatever the size"},
			&cli.BoolFlag{Name: "no-taskspec", Usage: "plan without writing down the intent first"},
			&cli.BoolFlag{Name: "force-new", Usage: "create another task even if one of that name was created today"},
			&cli.StringFlag{Name: "retry", Usage: "plan `TASKDIR` again in place, or resume interrupted planning"},
			&cli.StringFlag{Name: "feedback", Usage: "with --retry: your answer to the rejection or the plan, as `TEXT`"},
			&cli.BoolFlag{Name: "detach", Usage: "plan in the background"},
			command.PlainFlag(),
			command.SharedFlag(),
			command.JSONFlag(),
		},
		Description: command.Manual(`An agent evaluates the requirement. Either it rejects it, with a reason and suggestions in REJECTED.md, or
agents read the code, write down the intent, and make a plan in steps, which Trellis checks and a judge
accepts: plan.json, prd.md, and the context for each phase. Tiny work needs no plan, large work
waits for approval. The directory appears under .trellis/tasks when planning ends, whatever
the result; a watcher picks it up once it is ready.

The requirement is TEXT, - for standard input, or what --requirement, --requirement-file or --from-issue gives. On a
terminal, trellis plan alone opens $VISUAL or $EDITOR to write it in. A plan that waits for approval is shown there, and you
are asked to decide as in trellis review.

The requirement never passes through a shell. The last line on standard output is the task's directory; on a terminal
it is shown earlier.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitRejected, command.ExitPlanner, command.ExitWaiting, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitInterrupted},
			"trellis plan 'The list endpoint takes limit and offset'",
			"trellis plan -n paging -t backend -r 'The list endpoint takes limit and offset'",
			"trellis plan -n paging -t backend --requirement-file issue.md --verify 'go test ./...'",
			"trellis plan -t backend --from-issue 12 --context docs/api.md --constraint 'no new dependency'",
			"trellis plan --from-issue linear:ABC-12 --comment",
			"trellis plan --retry 02-03-paging --feedback 'It is in scope: see docs/api.md'"),
		Action: func(c *cli.Context) error {
			if c.Bool("detach") {
				return planDetached(a, c)
			}
			return a.Guarded(func() error { return runPlan(a, c) })
		},
	}
}

func runPlan(a *command.Console, c *cli.Context) error {
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	if err := a.RefuseSharedDisk(c, p.Root); err != nil {
		return err
	}
	o, draft, err := planOptions(a, c, p)
	if err != nil {
		return closeDraft(draft, err)
	}
	s, err := p.Site(c.Context)
	if err != nil {
		return closeDraft(draft, err)
	}
	show := a.ShowTasks(c, s, c.Bool("json"))
	show.SetStages(terminal.Stages(s.Config.Planning, o))
	began := a.Now()
	res, err := planOrRetry(c, p, s, o)
	show.Close()
	if err = closeDraft(draft, err); err != nil {
		return outcome.PlanError(p, err)
	}
	if o.ChooseType && !c.Bool("json") {
		sayType(a, p, res.Dir)
	}
	end := outcome.Planning{PlanResult: res, Seconds: a.Now().Sub(began).Seconds()}
	end.Asked = end.IsPlanned() && end.Status == trellis.Waiting && !c.Bool("json") && a.CanAsk() && !a.InsideRun()
	if !end.Asked {
		return outcome.PrintPlanning(c.Context, a, p, s, end, c.Bool("json"))
	}
	end.Say(c.Context, a, p, s)
	return reviewPlanned(c.Context, a, p, res.Dir)
}

// reviewPlanned asks a person about a plan that waits for approval.
func reviewPlanned(ctx context.Context, a *command.Console, p *app.Project, dir string) error {
	r := &review.Review{Console: a, Project: p, Dir: dir}
	err := r.Run(ctx)
	if t, unread := p.Store.Load(dir); err == nil && unread == nil && t.Status == trellis.Rejected {
		err = app.Quiet(app.ErrRejected)
	}
	return cmp.Or(err, a.Result(p.Store.Rel(dir)))
}

// sayType prints the type that planning chose.
func sayType(a *command.Console, p *app.Project, dir string) {
	if t, err := p.Store.Load(dir); err == nil && t.DevType != "" {
		a.Say("type %s, by the files that the research found", t.DevType)
	}
}

func planOrRetry(c *cli.Context, p *app.Project, s *runner.Site, o runner.PlanOptions) (runner.PlanResult, error) {
	if ref := c.String("retry"); ref != "" {
		dir, err := taskToReplan(p, s, ref, o)
		if err != nil {
			return runner.PlanResult{}, err
		}
		return s.PlanRunner().Replan(c.Context, dir, o)
	}
	return s.PlanRunner().Plan(c.Context, o)
}

// taskToReplan finds the task to plan again. A task without requirement.md, made by hand, needs a requirement in o.
func taskToReplan(p *app.Project, s *runner.Site, ref string, o runner.PlanOptions) (string, error) {
	dir, err := p.Find(ref)
	if err == nil {
		err = s.PlanRunner().CanReplan(dir)
	}
	if err != nil || o.Requirement != "" {
		return dir, err
	}
	rel := p.Store.Rel(dir)
	text, err := taskdir.ReadFile(dir, taskdir.Requirement)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && strings.TrimSpace(string(text)) == "":
		return "", app.WithHints(app.Usagef("%s has no requirement to plan from: it was made without %s", rel, taskdir.Requirement),
			"trellis plan --retry "+trellis.ShellWord(rel)+" --requirement 'what is wanted'")
	case err != nil:
		return "", app.AsKind(app.ErrUsage, fmt.Errorf("reading the requirement: %w", err))
	}
	return dir, nil
}

// planOptions reads the flags and the requirement. Checks that cost nothing come first. draft is
// the text that a person wrote in their editor, nil if they did not use it.
func planOptions(a *command.Console, c *cli.Context, p *app.Project) (o runner.PlanOptions, draft *editor.Draft, err error) {
	o = runner.PlanOptions{Agent: c.String("agent"), Quick: c.Bool("quick"), Base: c.String("base"), Verify: c.StringSlice("verify"), NoTaskSpec: c.Bool("no-taskspec")}
	from, err := requirementSource(c)
	if err != nil {
		return o, nil, err
	}
	again := c.String("retry") != ""
	if c.Bool("comment") && (again || from != "--from-issue") {
		return o, nil, app.Usagef("--comment goes with --from-issue of a new task")
	}
	for _, flag := range []string{"name", "type", "priority", "package", "depends-on", "force-new"} {
		if again && c.IsSet(flag) {
			return o, nil, app.Usagef("--retry plans a task that is there, and takes from it what it is: leave out --%s", flag)
		}
	}
	switch {
	case !again && c.IsSet("feedback"):
		return o, nil, app.Usagef("--feedback goes with --retry TASKDIR")
	case !again && from == "" && !a.CanAsk():
		return o, nil, app.WithHints(app.Usagef("there is no requirement"), "trellis plan 'what is wanted'", "trellis plan - <FILE", "trellis plan --from-issue 12")
	}
	if err := readRemarks(a, c, p, &o); err != nil || again {
		if err == nil {
			o.Requirement, _, err = readRequirement(a, c, p)
		}
		return o, nil, err
	}
	if o.New, err = plannedTask(a, c, p); err != nil {
		return o, nil, err
	}
	var of *tracker.Issue
	if from == "" {
		if _, err := p.ValidConfig(); err != nil {
			return o, nil, err // before a person writes a requirement that can't be planned
		}
		o.Requirement, draft, err = writeRequirement(a)
	} else {
		o.Requirement, of, err = readRequirement(a, c, p)
	}
	if err == nil {
		err = fillNewTask(a, c, p, &o, of)
	}
	return o, draft, err
}

// fillNewTask fills in what no flag sets for a new task: name, package, and what its issue says. The research chooses the type.
func fillNewTask(a *command.Console, c *cli.Context, p *app.Project, o *runner.PlanOptions, of *tracker.Issue) error {
	if o.New.Name == "" {
		if of != nil {
			o.New.Name = of.TaskName()
		} else if o.New.Name = trellis.ShortName(o.Requirement); o.New.Name == "" {
			return app.WithHints(app.Usagef("no name can be made of the text: it has no letter from a to z and no digit"), "add --name NAME")
		}
		command.Note(a, "the name becomes %s", o.New.Name)
	}
	if !c.IsSet("package") {
		if name := p.PackageIn(o.Requirement); name != "" && name != o.New.Package {
			o.New.Package = name
			command.Note(a, "package %s, which the text names", name)
		}
	}
	if of != nil {
		if err := fillFromIssue(a, c, p, &o.New, of); err != nil {
			return err
		}
	}
	o.ChooseType = o.New.DevType == ""
	return nil
}

// plannedTask returns the task that the flags describe. Without --name it has no name yet.
func plannedTask(a *command.Console, c *cli.Context, p *app.Project) (n taskdir.New, err error) {
	n = taskdir.New{DevType: c.String("type"), Priority: c.String("priority"),
		BaseBranch: c.String("base"), Verify: c.StringSlice("verify"), Force: c.Bool("force-new")}
	if name := c.String("name"); name != "" {
		if n.Name, err = a.Slug(name, "--name"); err != nil {
			return n, err
		}
	}
	if c.IsSet("type") {
		if err := command.CheckDevType(n.DevType, "--type"); err != nil {
			return n, err
		}
	}
	if err := command.CheckPriority(n.Priority); err != nil {
		return n, err
	}
	cfg, _ := p.Config() // errors in the settings are reported before anything is planned
	if n.Package, err = p.PackageOf(cfg, c.String("package")); err != nil {
		return n, err
	}
	n.Creator, _ = app.Developer(p.Root) // the name of the user is optional
	n.Assignee = n.Creator
	if n.BaseBranch == "" {
		if now, err := p.Repo.Refs().CurrentBranch(c.Context, p.Root); err != nil {
			return n, err
		} else if now == "" {
			return n, app.WithHints(app.Usagef("no branch is checked out that the work could begin at"), "trellis plan --base BRANCH …, or git checkout BRANCH")
		}
	} else if _, err := p.Repo.Refs().Resolve(c.Context, n.BaseBranch); errors.Is(err, git.ErrNotFound) {
		return n, app.Usagef("--base: branch %q not found", n.BaseBranch)
	} else if err != nil {
		return n, app.AsKind(app.ErrUsage, fmt.Errorf("--base %s: %w", n.BaseBranch, err))
	}
	for _, ref := range c.StringSlice("depends-on") {
		dir, err := p.Find(ref)
		if err != nil {
			return n, err
		}
		n.DependsOn = append(n.DependsOn, filepath.Base(dir))
	}
	return n, nil
}
