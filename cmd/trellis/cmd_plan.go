package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/view"
	"github.com/trellis-tasks/trellis/taskdir"
)

// planCommand is `trellis plan`.
func (a *app) planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "evaluate a requirement, then reject it or write a task directory",
		ArgsUsage: " ",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "`NAME` of the task, such as user-auth"},
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "`TYPE` of work: " + strings.Join(trellis.DevTypes, ", ")},
			&cli.StringFlag{Name: "requirement", Aliases: []string{"r"}, Usage: "what is wanted, as `TEXT`"},
			&cli.StringFlag{Name: "requirement-file", Usage: "what is wanted, in a `FILE`; - is standard input"},
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent that plans"},
			&cli.StringSliceFlag{Name: "verify", Usage: "a `COMMAND` that decides whether the work is done; may be given more than once"},
			&cli.StringFlag{Name: "package", Usage: "`NAME` of the package in a monorepo"},
			&cli.StringFlag{Name: "priority", Usage: "P0 to P3"},
			&cli.StringSliceFlag{Name: "depends-on", Usage: "a `TASK` that has to be done before; may be given more than once"},
			&cli.StringFlag{Name: "base", Usage: "`BRANCH` to begin at; the one checked out"},
			&cli.BoolFlag{Name: "quick", Usage: "take the short way whatever the size"},
			&cli.BoolFlag{Name: "force-new", Usage: "make another task although one of that name was made today"},
			&cli.StringFlag{Name: "retry", Usage: "plan `TASKDIR` again in place, or go on with a planning that was cut off"},
			&cli.StringFlag{Name: "feedback", Usage: "with --retry: your answer to the rejection or the plan, as `TEXT`"},
			&cli.BoolFlag{Name: "detach", Usage: "plan in the background"},
			jsonFlag(),
		},
		Description: manual(`An agent evaluates the requirement. It rejects it, with a reason and suggestions in REJECTED.md, or
looks through the code and writes prd.md and the context that each phase gets. The directory appears
under .trellis/tasks when planning has ended, whatever the end; a watcher picks it up when it is ready.

The requirement is never seen by a shell. Its last line on standard output is the task's directory.`,
			[]int{exitDone, exitUsage, exitRejected, exitPlanner, exitWaiting, exitNotFound, exitLocked, exitNoAgent, exitInterrupted},
			"trellis plan -n paging -t backend -r 'The list endpoint takes limit and offset'",
			"trellis plan -n paging -t backend --requirement-file issue.md --verify 'go test ./...'",
			"trellis plan --retry 02-03-paging --feedback 'It is in scope: see docs/api.md'"),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return wrongArguments(c)
			}
			if c.Bool("detach") {
				return a.planDetached(c)
			}
			return a.guarded(func() error { return a.plan(c) })
		},
	}
}

func (a *app) plan(c *cli.Context) error {
	p, err := a.open(c.Context)
	if err != nil {
		return err
	}
	o, err := a.planOptions(c, p)
	if err != nil {
		return err
	}
	s, err := a.site(c.Context, p)
	if err != nil {
		return err
	}
	show := a.progress(s, c.Bool("json"))
	show.Ahead(stages(s.Config.Planning, o)...)
	res, err := a.planOrRetry(c, p, s, o)
	show.close()
	if err != nil {
		return a.planError(p, err)
	}
	return a.planned(c.Context, p, s, res, c.Bool("json"))
}

func (a *app) planOrRetry(c *cli.Context, p *project, s *dispatch.Site, o dispatch.PlanOptions) (dispatch.PlanResult, error) {
	if ref := c.String("retry"); ref != "" {
		dir, err := a.find(p, ref)
		if err != nil {
			return dispatch.PlanResult{}, err
		}
		return s.Replan(c.Context, dir, o)
	}
	return s.Plan(c.Context, o)
}

// planOptions reads the flags and the requirement.
func (a *app) planOptions(c *cli.Context, p *project) (o dispatch.PlanOptions, err error) {
	o = dispatch.PlanOptions{Agent: c.String("agent"), Quick: c.Bool("quick"), Base: c.String("base"), Verify: c.StringSlice("verify"), Feedback: c.String("feedback")}
	if o.Requirement, err = a.requirement(c); err != nil {
		return o, err
	}
	if len(o.Feedback) > maxFeedback {
		return o, usagef("--feedback is %d bytes long, at most %d are taken: put more into --requirement-file", len(o.Feedback), maxFeedback)
	}
	if c.String("retry") != "" {
		if c.IsSet("name") || c.IsSet("type") {
			return o, usagef("--retry takes name and type from the task: leave out --name and --type")
		}
		return o, nil
	}
	if c.IsSet("feedback") {
		return o, usagef("--feedback goes with --retry TASKDIR")
	}
	if strings.TrimSpace(o.Requirement) == "" {
		return o, hint(usagef("there is no requirement"), "trellis plan -n NAME -t TYPE -r 'what is wanted'")
	}
	o.New, err = a.plannedTask(c, p)
	return o, err
}

// plannedTask is the task that the flags describe.
func (a *app) plannedTask(c *cli.Context, p *project) (n taskdir.New, err error) {
	n = taskdir.New{Name: c.String("name"), DevType: c.String("type"), Priority: c.String("priority"), Package: c.String("package"),
		BaseBranch: c.String("base"), Verify: c.StringSlice("verify"), Force: c.Bool("force-new")}
	switch slug := trellis.Slug(n.Name); {
	case n.Name == "":
		return n, hint(usagef("the task has no name"), "trellis plan --name NAME --type TYPE --requirement TEXT")
	case slug == "":
		return n, usagef("--name %q leaves no name: it has no letter from a to z and no digit", n.Name)
	case slug != n.Name:
		a.say("the name becomes %s", slug)
		n.Name = slug
	}
	if !slices.Contains(trellis.DevTypes, n.DevType) {
		return n, usagef("--type is one of %s, not %q", strings.Join(trellis.DevTypes, ", "), n.DevType)
	}
	if n.Priority != "" && !slices.Contains(trellis.Priorities, n.Priority) {
		return n, usagef("unknown priority %q (one of %s)", n.Priority, strings.Join(trellis.Priorities, ", "))
	}
	n.Creator, _ = developer(p.Root) // nobody has to say who they are
	n.Assignee = n.Creator
	if n.BaseBranch != "" {
		if _, err := p.Repo.Resolve(c.Context, n.BaseBranch); err != nil {
			return n, as(errUsage, fmt.Errorf("--base %s: %w", n.BaseBranch, err))
		}
	}
	for _, ref := range c.StringSlice("depends-on") {
		dir, err := a.find(p, ref)
		if err != nil {
			return n, err
		}
		n.DependsOn = append(n.DependsOn, filepath.Base(dir))
	}
	return n, nil
}

// maxFeedback is the longest feedback, in bytes: it is part of the planning's record.
const maxFeedback = 32 << 10

// maxRequirement is the largest requirement, in bytes.
const maxRequirement = 4 << 20

// requirement is what is wanted, from the flag, a file or standard input, to the byte.
func (a *app) requirement(c *cli.Context) (string, error) {
	if c.IsSet("requirement") && c.IsSet("requirement-file") {
		return "", usagef("--requirement and --requirement-file exclude each other")
	}
	text := c.String("requirement")
	if name := c.String("requirement-file"); name != "" {
		data, err := a.readInput(name)
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	if len(text) > maxRequirement {
		return "", usagef("the requirement is %d bytes long, at most %d are taken", len(text), maxRequirement)
	}
	if !utf8.ValidString(text) {
		return "", usagef("the requirement is not valid UTF-8")
	}
	if strings.ContainsRune(text, 0) {
		return "", usagef("the requirement holds a NUL byte")
	}
	return text, nil
}

func (a *app) readInput(name string) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxRequirement+1))
		if err != nil {
			return nil, as(errUsage, fmt.Errorf("reading standard input: %w", err))
		}
		return data, nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(a.Dir, name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, as(errUsage, err)
	}
	return data, nil
}

// planError gives the errors of planning their exit codes and hints.
func (a *app) planError(p *project, err error) error {
	var draft *dispatch.DraftError
	var held *durable.HeldError
	switch {
	case errors.As(err, &draft):
		return hint(as(errUsage, err), "trellis plan --retry "+draft.Dir, "trellis task rm "+draft.Dir)
	case errors.Is(err, taskdir.ErrExists):
		return hint(as(errUsage, err), "choose another --name, or add --force-new")
	case errors.As(err, &held):
		return err
	}
	return a.agentError(err)
}

// planDocument is what plan --json prints.
type planDocument struct {
	Dir         string         `json:"dir"`
	ID          string         `json:"id"`
	Status      trellis.Status `json:"status"`
	Decision    string         `json:"decision"`
	Category    string         `json:"category"`
	Details     string         `json:"details"`
	Suggestions []string       `json:"suggestions"`
	Size        trellis.Size   `json:"size"`
	Title       string         `json:"title"`
	Calls       int            `json:"calls"`
	Usage       trellis.Usage  `json:"usage"`
	Contexts    map[string]int `json:"contexts"`
	Commands    []string       `json:"commands"`
	Warnings    []string       `json:"warnings"`
	Skipped     []string       `json:"skipped"`
	Failure     *view.Failure  `json:"failure"`
}

// planned says how a planning ended and what to do next.
func (a *app) planned(ctx context.Context, p *project, s *dispatch.Site, res dispatch.PlanResult, asJSON bool) error {
	rel := p.Store.Rel(res.Dir)
	if res.Interrupted {
		fmt.Fprintln(a.Stdout, rel)
		return hint(context.Canceled, "trellis plan --retry "+rel)
	}
	if len(res.Waits) > 0 {
		fmt.Fprintln(a.Stdout, rel)
		return hint(as(errWaiting, errors.New(waitsUntil(res.Until))), "trellis plan --retry "+rel)
	}
	if asJSON {
		if err := view.JSON(a.Stdout, document(rel, res)); err != nil {
			return err
		}
	} else {
		a.sayPlanned(ctx, p, s, res)
		fmt.Fprintln(a.Stdout, rel)
	}
	switch {
	case res.Failure != nil:
		return as(errPlanner, hint(fmt.Errorf("planning failed: %w", res.Failure), "trellis logs "+filepath.Base(rel), "trellis plan --retry "+rel))
	case res.Status == trellis.Rejected:
		return quiet(errRejected)
	case res.Status == trellis.Waiting:
		return quiet(errWaiting)
	}
	return nil
}

// waitsUntil says why a planning does not go on.
func waitsUntil(t time.Time) string {
	if t.IsZero() {
		return "the planning waits"
	}
	return "the provider limits requests: the planning can go on at " + t.Local().Format(time.RFC3339)
}

func document(rel string, res dispatch.PlanResult) planDocument {
	r := res.Report
	d := planDocument{Dir: rel, ID: filepath.Base(rel), Status: res.Status, Decision: r.Verdict.Decision, Category: r.Verdict.Category, Details: r.Verdict.Details,
		Suggestions: orEmpty(r.Verdict.Suggestions), Size: r.Verdict.Size, Title: r.Title, Calls: r.Calls, Usage: r.Usage, Contexts: r.Contexts,
		Commands: orEmpty(r.Commands), Warnings: orEmpty(r.Warnings), Skipped: orEmpty(r.Skipped)}
	if d.Contexts == nil {
		d.Contexts = map[string]int{}
	}
	if f := res.Failure; f != nil {
		d.Failure = &view.Failure{Code: trellis.Code(f.Code), Detail: f.Detail}
	}
	return d
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (a *app) sayPlanned(ctx context.Context, p *project, s *dispatch.Site, res dispatch.PlanResult) {
	r, id := res.Report, filepath.Base(res.Dir)
	for _, w := range r.Warnings {
		a.say("warning: %s", w)
	}
	switch {
	case res.Failure != nil:
		return
	case res.Status == trellis.Rejected:
		a.sayRejected(p, res)
		return
	}
	a.say("%s: %s (size %s)", id, r.Title, r.Verdict.Size)
	a.say("wrote %s, prd.md, research.md, context: %s", taskdir.TaskJSON, contexts(r.Contexts))
	a.say("%d calls, %s", r.Calls, view.Usage(r.Usage))
	for _, why := range r.Skipped {
		a.say("skipped: %s", why)
	}
	a.sayUncommitted(ctx, p)
	if res.Status == trellis.Waiting {
		a.say("the plan waits for approval: trellis approve %s", id)
		return
	}
	if h, ok := s.Watcher(); ok {
		a.say("the watcher (pid %d) picks it up: trellis start %s follows it", h.PID, id)
		return
	}
	a.say("no watcher is running; next: trellis start %s", id)
}

func contexts(rows map[string]int) string {
	var parts []string
	for _, name := range []string{taskdir.ImplementContext, taskdir.CheckContext, taskdir.DebugContext} {
		parts = append(parts, fmt.Sprintf("%s %d", name, rows[name]))
	}
	return strings.Join(parts, ", ")
}

func (a *app) sayRejected(p *project, res dispatch.PlanResult) {
	v := res.Report.Verdict
	fmt.Fprintf(a.Stderr, "=== PLAN REJECTED ===\nReason: %s\nDetails: %s\n", planner.Rejection{Category: v.Category}.Reason(), v.Details)
	for _, s := range v.Suggestions {
		fmt.Fprintf(a.Stderr, "  - %s\n", s)
	}
	fmt.Fprintf(a.Stderr, "See: %s\n", p.Store.Rel(filepath.Join(res.Dir, taskdir.Rejected)))
}

// sayUncommitted warns of files that a worktree won't have.
func (a *app) sayUncommitted(ctx context.Context, p *project) {
	list, err := p.Repo.Status(ctx, p.Root, ".trellis/tasks", ".trellis/.runtime")
	if err != nil {
		a.say("looking for uncommitted files: %v", err)
	} else if len(list) > 0 {
		a.say("%d uncommitted files in this checkout, such as %s: the worktree won't have them", len(list), list[0].Path)
	}
}
