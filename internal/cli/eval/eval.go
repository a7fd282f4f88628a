// Package eval is `trellis eval`: it measures how well an agent plans.
package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/eval"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// evals implements `trellis eval`.
type evals struct{ *command.Console }

// Command returns `trellis eval`.
func Command(a *command.Console) *cli.Command {
	cmd := evals{a}
	return &cli.Command{
		Name:  "eval",
		Usage: "measure how well an agent plans, on requirements with known answers",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent that plans"},
			&cli.StringFlag{Name: "only", Value: "*", Usage: "run only cases whose id, kind or project matches `GLOB`"},
			&cli.BoolFlag{Name: "quick", Usage: "plan as for tiny work, whatever the size"},
			&cli.IntFlag{Name: "parallel", Value: 2, Usage: "`NUMBER` of cases to plan at once"},
			&cli.Float64Flag{Name: "min-score", Usage: "exit with 3 if the score is below this `PERCENTAGE`"},
			&cli.StringFlag{Name: "keep", Usage: "create the repositories in the new or empty folder `DIR`, and keep them"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Plans a set of requirements for small projects, each in its own scratch repository: clear, tiny, vague,
incomplete, out-of-scope, harmful and too large ones. Then it shows which were wrongly accepted or
rejected, what the plans lack, and how many calls and tokens and how much money it took.

The agents are those of this project's settings, or those that a new project would have; nothing in
this project is changed. The calls are real: with a paid agent they cost money.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNoAgent, command.ExitInterrupted},
			"trellis eval --agent claude --only tiny", "trellis eval --only 'parcels-*' --keep ../looked-at", "trellis eval --min-score 80 --json"),
		Action: cmd.InGuard(cmd.eval),
	}
}

func (cmd evals) eval(c *cli.Context) error {
	cases, err := evalCases(c)
	if err != nil {
		return err
	}
	e, err := cmd.newEvaluation(c)
	if err != nil {
		return err
	}
	defer e.close()
	who, err := e.checkAgents(c.Context, cases[0])
	if err != nil {
		return outcome.AgentError(err)
	}
	out := e.report(c.Bool("json"), len(cases))
	cmd.Say("%s", e.warning(who, cases, c.Int("parallel")))
	runner := eval.Runner{Plan: e.plan, Dir: e.dir, Parallel: c.Int("parallel"), Env: cmd.Env, Ended: out.printResult, Now: cmd.Now}
	began := cmd.Now()
	results, err := runner.Run(c.Context, cases)
	e.show.Close()
	sum := eval.Summarize(results, len(cases))
	if werr := out.printSummary(Document{who, results, sum, cmd.Now().Sub(began).Seconds()}); err == nil {
		err = werr
	}
	if least := c.Float64("min-score"); err == nil && sum.Score < least {
		err = app.AsKind(app.ErrUnmet, fmt.Errorf("the score is %.1f, less than %g", sum.Score, least))
	}
	return err
}

// evalCases checks the flags and returns the cases that they select.
func evalCases(c *cli.Context) ([]eval.Case, error) {
	if n := c.Int("parallel"); n < 1 {
		return nil, app.Usagef("--parallel %d: at least one case is planned at a time", n)
	}
	if p := c.Float64("min-score"); p < 0 || p > 100 {
		return nil, app.Usagef("--min-score %g is not a percentage", p)
	}
	only := c.String("only")
	cases, err := eval.Load(only)
	switch {
	case errors.Is(err, path.ErrBadPattern):
		return nil, app.Usagef("--only %q is not a glob", only)
	case err == nil && len(cases) == 0:
		return nil, app.WithHints(app.Usagef("--only %q fits no case", only), "a kind: "+strings.Join(eval.Kinds, ", "), "a project or an id, such as parcels-*: see docs/reference/eval.md")
	}
	return cases, err
}

// evaluation is what all cases of one call share.
type evaluation struct {
	app      *command.Console
	home     *app.Project // its agents plan; without a repository, the folder that trellis was called in
	cfg      *config.Config
	agent    string
	quick    bool
	dir      string // of the repositories
	keep     bool
	show     *terminal.Live
	event    func(runner.Event)
	fallback func() (string, error) // returns the agent to use if nobody chose one
}

func (cmd evals) newEvaluation(c *cli.Context) (*evaluation, error) {
	e := &evaluation{app: cmd.Console, agent: c.String("agent"), quick: c.Bool("quick"), keep: c.IsSet("keep")}
	var err error
	if e.home, err = cmd.OpenRepository(); errors.Is(err, git.ErrNoRepository) || errors.Is(err, git.ErrBare) {
		e.home, err = &app.Project{Env: cmd.Caller(), Root: cmd.Dir, Settings: app.Settings{Root: cmd.Dir, UserFile: cmd.Caller().UserFile()}}, nil
	}
	if err != nil {
		return nil, err
	}
	if e.home.Repo != nil {
		if e.home, err = e.home.InForce(c.Context); err != nil {
			return nil, err
		}
	}
	own, err := e.home.ValidConfig()
	if err != nil {
		return nil, err
	}
	e.cfg, _ = config.Load(config.Files{}) // the other settings of this project are not for the cases
	e.cfg.Agents, e.cfg.Planning, e.cfg.Limits = own.Agents, own.Planning, own.Limits
	e.cfg.Planning.Approval = "none"
	if err := e.makeDir(c.String("keep")); err != nil {
		return nil, err
	}
	watched := &runner.Site{}
	e.show = cmd.Show(watched, c.Bool("json") || !command.IsTerminal(cmd.Stderr))
	e.show.SetStages(terminal.Stages(e.cfg.Planning, runner.PlanOptions{Quick: e.quick}))
	e.event, e.fallback = watched.Event, e.home.Wire(c.Context, e.cfg, e.home).Default
	return e, nil
}

// makeDir makes the folder of the repositories, outside of the current project.
func (e *evaluation) makeDir(keep string) (err error) {
	if !e.keep {
		e.dir, err = os.MkdirTemp(e.app.Getenv("TMPDIR"), "trellis-eval-")
	} else {
		e.dir = e.app.Path(keep)
		err = os.MkdirAll(e.dir, 0o755)
	}
	if err != nil {
		return app.AsKind(app.ErrUsage, fmt.Errorf("making a folder for the repositories: %w", err))
	}
	there, err := os.ReadDir(e.dir)
	if err == nil && len(there) > 0 {
		err = fmt.Errorf("--keep %s: there is something in it", keep)
	}
	if err == nil && e.home.Repo != nil {
		err = e.checkOutside()
	}
	if err != nil {
		_ = os.Remove(e.dir) // removes it only if it is empty
		return app.AsKind(app.ErrUsage, err)
	}
	return nil
}

func (e *evaluation) checkOutside() error {
	dir, err := filepath.EvalSymlinks(e.dir)
	if err != nil {
		return fmt.Errorf("looking for the folder of the repositories: %w", err)
	}
	if rel, err := filepath.Rel(e.home.Root, dir); err == nil && filepath.IsLocal(rel) {
		return app.WithHints(fmt.Errorf("the repositories would be inside this one (%s)", dir), "trellis eval --keep DIR, outside of it", "or set TMPDIR")
	}
	return nil
}

func (e *evaluation) close() {
	e.show.Close()
	if e.keep {
		return
	}
	if err := os.RemoveAll(e.dir); err != nil {
		e.app.Say("removing the repositories: %v", err)
	}
}

// site returns the site that plans a case in its repository.
func (e *evaluation) site(ctx context.Context, c eval.Case, dir string) (*runner.Site, error) {
	repo, err := git.Open(dir)
	if err != nil {
		return nil, err
	}
	repo.Env = e.app.Env
	p := &app.Project{Env: e.home.Env, Repo: repo, Root: repo.Main, Store: taskdir.Store{Root: repo.Main, Now: e.app.Now}}
	s := p.Wire(ctx, e.cfg, e.home)
	s.LookPath, s.Event, s.Default = c.Project.LookPath, e.event, e.fallback
	return s, nil
}

// checkAgents makes sure, before anything is spent, that the agents can plan, and returns who they are: by
// role, with the model if one is named.
func (e *evaluation) checkAgents(ctx context.Context, c eval.Case) (map[trellis.Role]string, error) {
	dir := filepath.Join(e.dir, ".able")
	defer os.RemoveAll(dir)
	if err := c.Project.CreateRepository(ctx, dir, e.app.Env); err != nil {
		return nil, err
	}
	s, err := e.site(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	if err := s.Roles().CheckPlanners(ctx, e.agent); err != nil {
		return nil, err
	}
	who := map[trellis.Role]string{}
	for _, role := range planner.Roles() {
		in, err := s.Instruct(role)
		if err != nil {
			return nil, err
		}
		agent, model := e.cfg.AgentFor(role, "", e.agent, in.Agent, in.Model)
		if agent == "" {
			if agent, err = s.Default(); err != nil {
				return nil, err
			}
		}
		who[role] = strings.TrimSpace(agent + " " + model)
	}
	return who, nil
}

// warning returns a message about the calls that the cases are going to take.
func (e *evaluation) warning(who map[trellis.Role]string, cases []eval.Case, parallel int) string {
	calls := 0
	for _, c := range cases {
		switch {
		case c.Wanted() == eval.Reject:
			calls++
		case e.quick || c.Kind == "tiny":
			calls += 3
		default:
			calls += 5
		}
	}
	var names []string
	for _, role := range planner.Roles() {
		if !slices.Contains(names, who[role]) {
			names = append(names, who[role])
		}
	}
	return fmt.Sprintf("planning %s, %d at once, with %s: about %s or more, which cost money with a paid agent",
		text.Count(len(cases), "case"), parallel, strings.Join(names, ", "), text.Count(calls, "call"))
}

func (e *evaluation) plan(ctx context.Context, c eval.Case, dir string) (eval.Planned, error) {
	s, err := e.site(ctx, c, dir)
	if err != nil {
		return eval.Planned{}, err
	}
	res, err := s.PlanRunner().Plan(ctx, runner.PlanOptions{New: taskdir.New{Name: c.ID, DevType: c.DevType}, Requirement: c.Requirement, Agent: e.agent, Quick: e.quick})
	if res.Dir != "" {
		e.show.End(strings.TrimPrefix(filepath.Base(res.Dir), taskdir.DraftPrefix))
	}
	p := eval.Planned{Dir: res.Dir, Calls: res.Report.Calls, Usage: res.Report.Usage}
	if len(res.Waits) > 0 {
		p.Cut = outcome.Planning{PlanResult: res}.WaitsUntil()
	}
	return p, err
}
