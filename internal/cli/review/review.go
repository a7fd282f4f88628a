// Package review is `trellis review`: a person reads what is going to be built, and decides about it.
package review

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/editing"
	"github.com/trellis-tasks/trellis/internal/cli/editor"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Command returns `trellis review`. readKey reads the private key of --key.
func Command(a *command.Console, readKey func(*command.Console, string) (ed25519.PrivateKey, error)) *cli.Command {
	return &cli.Command{
		Name:      "review",
		Usage:     "show a plan, and approve, change or reject it",
		ArgsUsage: "TASKDIR",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "by", Usage: "`NAME` of the person who decides (default: the git user)"},
			&cli.StringFlag{Name: "key", Usage: "PEM `FILE` with a private Ed25519 key to sign the decision, for those whose trust.keys has its public key"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Shows the plan of a task: what will be built, the command that proves each criterion, the steps, the
assumptions and the open questions. On a terminal you can then approve it, have it planned again with your feedback, edit
its files, reject it, or decide later. An approval applies to what was shown: if a file was changed
meanwhile, the plan is shown again instead. Ctrl-C and Ctrl-D change nothing. Without a terminal the plan is
only shown; if it waits for approval, the exit code is 8 and the commands to decide are named.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitPlanner, command.ExitWaiting, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitInterrupted}, "trellis review 02-03-paging", "trellis review paging --json"),
		Action: a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			r := &Review{Console: a, Project: p, Dir: dir, By: c.String("by")}
			if c.Bool("json") || !a.CanAsk() || a.InsideRun() {
				return r.show(c.Context, c.Bool("json"))
			}
			var err error
			if r.Sign, err = readKey(a, c.String("key")); err != nil {
				return err
			}
			return a.Guarded(func() error { return r.Run(c.Context) })
		}),
	}
}

// Review has one person read the plan of a task and decide about it.
type Review struct {
	*command.Console
	Project *app.Project
	Dir     string
	By      string             // who decides; "": the git user
	Sign    ed25519.PrivateKey // nil: nothing is signed
}

// show prints the review where nobody can be asked.
func (r *Review) show(ctx context.Context, asJSON bool) error {
	shown, err := r.Project.Review(ctx, r.Dir)
	if err != nil {
		return err
	}
	err = r.Print(asJSON, shown, func() error { return terminal.Review(r.Stdout, shown, r.Style(r.Stdout)) })
	if err != nil || !shown.Asked {
		return err
	}
	if !asJSON {
		r.sayAnswers()
	}
	return app.Quiet(app.ErrWaiting)
}

// sayAnswers prints the commands that answer the review.
func (r *Review) sayAnswers() {
	id := filepath.Base(r.Dir)
	r.Say("%s waits for approval", id)
	r.Say("next: trellis approve %s", trellis.ShellWord(id))
	r.Say("next: trellis reject %s --reason TEXT", trellis.ShellWord(id))
	r.Say("next: trellis plan --retry %s --feedback TEXT", trellis.ShellWord(id))
}

// choices are the answers that a person may give. The last one is taken if there is no answer.
var choices = []command.Option{
	{Key: "a", Word: "accept", Means: "it may be built as it was shown"},
	{Key: "r", Word: "revise", Means: "have it planned again; what you write behind it is your feedback, else you are asked"},
	{Key: "e", Word: "edit", Means: "change a file in your editor: edit prd, plan, task, implement, check or debug"},
	{Key: "x", Word: "reject", Means: "it is not built; what you write behind it is the reason, else you are asked"},
	{Key: "l", Word: "later", Means: "nothing is decided"},
}

// availableChoices returns the choices for a plan in its current state, without those that would be refused.
func availableChoices(shown status.Review) (list []command.Option) {
	for _, o := range choices {
		switch o.Word {
		case "accept", "reject":
			if shown.Asked {
				list = append(list, o)
			}
		default:
			list = append(list, o)
		}
	}
	return list
}

// isOpen reports whether a person can change what is planned, or decide about it.
func isOpen(shown status.Review) bool {
	return shown.Asked || slices.Contains([]trellis.Status{trellis.Planning, trellis.Rejected, trellis.Ready, trellis.Waiting}, shown.Status)
}

// Run shows the plan and asks, until the person has decided. If there is nothing to decide, it prints the next command.
func (r *Review) Run(ctx context.Context) error {
	for {
		shown, err := r.Project.Review(ctx, r.Dir)
		if err != nil {
			return err
		}
		if err := terminal.Review(r.Stderr, shown, r.Style(r.Stderr)); err != nil {
			return err
		}
		if !isOpen(shown) {
			return r.sayNext(ctx, shown.Task+" "+cmp.Or(shown.Approved, "needs no approval"))
		}
		again, err := r.decide(ctx, shown)
		if errors.Is(err, context.Canceled) && len(app.HintsOf(err)) == 0 {
			return app.WithHints(err, "trellis review "+trellis.ShellWord(shown.Task))
		}
		if err != nil || !again {
			return err
		}
	}
}

// decide asks until something was done about the plan that was shown. again means that the plan is to be shown once again.
func (r *Review) decide(ctx context.Context, shown status.Review) (again bool, err error) {
	for {
		word, rest, err := r.AskOption(ctx, "what becomes of "+shown.Task+"?", availableChoices(shown)...)
		if err != nil {
			return false, err
		}
		var done bool
		switch word {
		case "accept":
			done, again, err = r.accept(ctx, shown)
		case "revise":
			done, err = r.revise(ctx, rest)
			again = done
		case "edit":
			done, err = r.edit(ctx, rest, len(shown.Steps) > 0)
			again = done
		case "reject":
			done, err = r.reject(ctx, shown, rest)
		default:
			return false, r.decideLater(ctx, shown)
		}
		if err != nil || done || again {
			return again, err
		}
	}
}

func (r *Review) decideLater(ctx context.Context, shown status.Review) error {
	if !shown.Asked {
		return r.sayNext(ctx, "nothing was changed")
	}
	r.sayAnswers()
	return app.Quiet(app.ErrWaiting)
}

// sayNext prints said, and the command that comes next for the task.
func (r *Review) sayNext(ctx context.Context, said string) error {
	s, err := r.Project.SiteForOrders(ctx)
	if err != nil {
		return err
	}
	command, err := s.Assessor().Next(ctx, r.Dir)
	if command != "" {
		said += "; next: " + command
	}
	r.Say("%s", said)
	return err
}

func (r *Review) accept(ctx context.Context, shown status.Review) (done, again bool, err error) {
	if errs := trellis.Errors(shown.Problems); len(errs) > 0 {
		r.Say("it can't be built like this: %v", &errs[0])
		return false, false, nil
	}
	o, err := r.Project.Orders().Approve(ctx, r.Dir, app.Decision{By: r.By, Shown: shown.Hash, Sign: r.Sign})
	if errors.Is(err, runner.ErrPlanChanged) {
		r.Say("a file was changed since this was shown: nothing is approved, and this is what it says now")
		return false, true, nil
	}
	if err != nil {
		return false, false, outcome.RunError(r.Console, r.Project, r.Dir, err)
	}
	return true, false, outcome.PrintOrder(r.Console, o, false)
}

func (r *Review) reject(ctx context.Context, shown status.Review, reason string) (done bool, err error) {
	if reason == "" {
		if reason, err = r.Ask(ctx, "why? (nothing: back)"); err == io.EOF || err == nil && reason == "" {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	o, err := r.Project.Orders().Reject(ctx, r.Dir, app.Decision{By: r.By, Reason: reason, Shown: shown.Hash, Sign: r.Sign})
	if errors.Is(err, runner.ErrPlanChanged) {
		r.Say("it was changed since it was shown: nothing was done")
		return false, nil
	}
	if err != nil {
		return false, outcome.RunError(r.Console, r.Project, r.Dir, err)
	}
	return true, outcome.PrintOrder(r.Console, o, false)
}

// edit has the person change a file. It prints the error if that fails, and the question is asked
// again: the draft of the editor keeps text that was not saved.
func (r *Review) edit(ctx context.Context, word string, planned bool) (done bool, err error) {
	if word == "" && planned {
		if word, err = r.Ask(ctx, "which file? (prd, plan, task, implement, check or debug; nothing: prd)"); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	word = cmp.Or(word, "prd")
	name, err := app.EditedFile(word)
	if err == nil {
		err = editing.File(ctx, r.Console, r.Project, r.Dir, name)
	}
	if err != nil {
		r.Report(err)
	}
	return err == nil, nil
}

// revise has the task planned again. Feedback that planning did not take is kept, and a message says where.
func (r *Review) revise(ctx context.Context, feedback string) (done bool, err error) {
	s, err := r.Project.Site(ctx) // fails before a person writes feedback in vain
	if err != nil {
		return false, err
	}
	if feedback == "" {
		if feedback, err = r.Ask(ctx, "what should be different? (nothing: your editor)"); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	draft, err := editor.Open(r.Console, "feedback.md", []byte(feedback))
	if err != nil {
		return false, err
	}
	if feedback == "" {
		text, err := draft.Edit()
		if err != nil {
			r.Report(err)
			return false, nil
		}
		if feedback = strings.TrimSpace(string(text)); feedback == "" {
			r.Say("nothing was written")
			return false, draft.Discard()
		}
	}
	if err := app.CheckFeedback("your feedback", feedback); err != nil {
		r.Say("%v; it is in %s", err, draft.Path())
		return false, nil
	}
	end, err := r.plan(ctx, s, feedback)
	if err != nil {
		return false, app.WithHints(fmt.Errorf("%w; your feedback is in %s", err, draft.Path()), app.HintsOf(err)...)
	}
	if err := draft.Discard(); err != nil {
		return false, err
	}
	if end.IsPlanned() {
		return true, nil
	}
	return false, outcome.PrintPlanning(ctx, r.Console, r.Project, s, end, false)
}

// plan plans the task again with the feedback of a person.
func (r *Review) plan(ctx context.Context, s *runner.Site, feedback string) (end outcome.Planning, err error) {
	show, began := r.Show(s, false), r.Now()
	res, err := s.PlanRunner().Replan(ctx, r.Dir, runner.PlanOptions{Feedback: feedback})
	show.Close()
	if err != nil {
		return end, outcome.PlanError(r.Project, err)
	}
	return outcome.Planning{PlanResult: res, Seconds: r.Now().Sub(began).Seconds()}, nil
}
