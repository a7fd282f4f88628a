package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// PlanRunner takes a requirement to a published task directory.
type PlanRunner struct{ *Site }

// PlanResult is the outcome of a planning.
type PlanResult struct {
	Dir         string // published directory of the task
	Status      trellis.Status
	Report      planner.Report
	Before      trellis.Usage // what the task used before this planning; the report's usage includes it
	Failure     *flow.Failure // why the planner failed, or why it waits
	Asked       bool          // an agent was asked; false if earlier answers were only read again
	Interrupted bool          // the planning was cut off; `plan --retry` of Dir, which is the draft then, resumes it
	Waits       []string      // set if the planning is unfinished because it waits for this
	Until       time.Time     // when the wait is over
}

// DraftError is returned if an unfinished planning has the same name.
type DraftError struct{ Dir string }

func (e *DraftError) Error() string { return "an unfinished planning of that name is there: " + e.Dir }

// Plan takes a requirement to a published task directory. It returns a *durable.HeldError if another process plans the name,
// a *DraftError if a dead planner left its folder, and taskdir.ErrExists if the name is taken.
func (s PlanRunner) Plan(ctx context.Context, o PlanOptions) (PlanResult, error) {
	if err := s.Roles().CheckPlanners(ctx, o.Agent); err != nil {
		return PlanResult{}, err
	}
	if err := s.guard().checkCheckout(ctx, s.Store.Root); err != nil {
		return PlanResult{}, err
	}
	draft, err := s.Draft(o)
	if err != nil {
		return PlanResult{}, err
	}
	s.guard().recordRequirement(publishedDir(draft), o.Requirement)
	return s.plan(ctx, draft, publishedDir(draft), func(j *journal.Run) (planner.Input, error) {
		return s.beginPlan(ctx, j, publishedDir(draft), o, 0, trellis.Usage{})
	})
}

// publishedDir returns the directory that a draft becomes, and any other directory unchanged.
func publishedDir(dir string) string {
	return filepath.Join(filepath.Dir(dir), strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix))
}

// handover is how long a planner may take between making a folder and locking it, and between unlocking it and giving it its final name.
const handover = 2 * time.Second

// Draft makes the folder in which a task is planned, with the requirement in it.
func (s PlanRunner) Draft(o PlanOptions) (string, error) {
	o.New.Files = map[string][]byte{taskdir.Requirement: []byte(o.Requirement)}
	for end := patience.New(handover); ; time.Sleep(10 * time.Millisecond) { // there is no event for another process's steps
		dir, err := s.Store.Draft(o.New)
		var taken *taskdir.ExistsError
		if !errors.As(err, &taken) || !taken.Draft {
			return dir, err
		}
		if h, ok := Held(taken.Dir); ok {
			return "", &durable.HeldError{Path: filepath.Join(taken.Dir, taskdir.RunLock), Holder: h}
		}
		if isEmptyDraft(taken.Dir) {
			if err := os.RemoveAll(taken.Dir); err != nil {
				return "", fmt.Errorf("removing what a dead planner left: %w", err)
			}
		} else if s.abandoned(taken.Dir) || end.Over() {
			return "", &DraftError{s.Store.Rel(taken.Dir)}
		}
	}
}

// isEmptyDraft reports whether the process that made a folder died before it wrote a task, so that there is nothing to resume.
func isEmptyDraft(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, taskdir.TaskJSON)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	made, err := os.Lstat(dir)
	return err == nil && time.Since(made.ModTime()) > handover
}

// abandoned reports whether the planning in a folder was begun, has not ended, and belongs to no process.
func (s PlanRunner) abandoned(dir string) bool {
	cut := func() bool {
		h, err := journal.Read(filepath.Join(dir, taskdir.Run))
		return err == nil && !h.Ended
	}
	if !cut() {
		return false
	}
	_, held := Held(dir)
	return !held && cut() // a process that ended it meanwhile has released the lock only after that
}

// beginPlan begins a planning with what o asks for.
func (s PlanRunner) beginPlan(ctx context.Context, j *journal.Run, final string, o PlanOptions, revision int64, used trellis.Usage) (planner.Input, error) {
	in := planner.Input{Code: planner.Code, Task: filepath.Base(final), Name: o.New.Name, DevType: o.New.DevType, ChooseType: o.ChooseType, Quick: o.Quick, Agent: o.Agent,
		Feedback: o.Feedback, Package: o.New.Package, Priority: o.New.Priority, Base: o.Base, Verify: o.Verify,
		Objective: o.New.Objective,
		Context:   o.Context, Background: o.Background, Constraints: o.Constraints, NoTaskSpec: o.NoTaskSpec, Nonce: cmp.Or(planner.Nonce(ctx, s.Repo, s.Config, j.History()), nonce()), Revision: revision, Used: used}
	return in, beginFlow(j, planner.Flow, in.Task, in.Code, in)
}

// Replan plans a task again in place. If a planning was cut off, and o asks for nothing that it was not asked for, Replan
// resumes it. A requirement of "" keeps the existing one.
func (s PlanRunner) Replan(ctx context.Context, dir string, o PlanOptions) (PlanResult, error) {
	final, asked, agent := publishedDir(dir), o, o.Agent
	if in, ok := unfinishedPlanning(dir); ok {
		if asked.Agent == in.Agent {
			asked.Agent = ""
		}
		if !asked.isNewRequest() {
			agent = in.Agent
		}
	}
	if err := s.Roles().CheckPlanners(ctx, agent); err != nil {
		return PlanResult{}, err
	}
	if err := s.setAsideDamaged(ctx, dir); err != nil {
		return PlanResult{}, err
	}
	if err := s.guard().checkCheckout(ctx, s.Store.Root); err != nil {
		return PlanResult{}, err
	}
	if err := s.guard().checkTrusted(ctx, dir); err != nil {
		return PlanResult{}, err
	}
	return s.plan(ctx, dir, final, func(j *journal.Run) (planner.Input, error) {
		h := j.History()
		if canGoOn(dir, h) && !asked.isNewRequest() {
			var in planner.Input
			if err := json.Unmarshal(h.Input, &in); err != nil || len(h.Calls) > 0 {
				return in, err
			}
			return in, s.states().setPlanning(dir) // it may have been cut off before this
		}
		return s.replan(ctx, j, dir, final, o)
	})
}

// canGoOn reports whether the journal of a directory is that of a planning that can be resumed.
func canGoOn(dir string, h *journal.History) bool {
	return h.Run != "" && h.Flow == planner.Flow && (!h.Ended || dir != publishedDir(dir)) // a draft whose planning has ended only lacks its name
}

// unfinishedPlanning returns what the planning in a directory was asked for, if it was cut off.
func unfinishedPlanning(dir string) (in planner.Input, ok bool) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	return in, err == nil && canGoOn(dir, h) && json.Unmarshal(h.Input, &in) == nil
}

// setAsideDamaged sets aside the damaged journal of a task that can be planned again. The journal of a ready task is kept, since
// it may record work that was begun.
func (s PlanRunner) setAsideDamaged(ctx context.Context, dir string) error {
	if _, err := journal.Read(filepath.Join(dir, taskdir.Run)); !errors.Is(err, journal.ErrDamaged) {
		return nil
	}
	t, err := s.Store.Load(dir)
	if err != nil || t.Status == trellis.Ready || trellis.Move(t.Status, trellis.Planning) != nil {
		return err
	}
	j, err := s.Orders().reopen(ctx, dir)
	if err != nil {
		return err
	}
	return j.Close()
}

// replan begins another planning in a directory that had one before.
func (s PlanRunner) replan(ctx context.Context, j *journal.Run, dir, final string, o PlanOptions) (in planner.Input, err error) {
	t, err := s.Store.Load(dir)
	if err != nil {
		return in, err
	}
	if err := checkReplannable(t, j.History()); err != nil {
		return in, err
	}
	used, err := usedBy(t, j.History())
	if err != nil {
		return in, err
	}
	if o.Requirement != "" {
		err := s.Disk.Edit(filepath.Join(dir, taskdir.Requirement), func(old []byte) ([]byte, error) {
			return []byte(o.Requirement), s.keepRequirement(dir, string(old), o.Requirement)
		})
		if err != nil {
			return in, err
		}
		s.guard().recordRequirement(final, o.Requirement)
	}
	if err := planner.KeepRejection(s.Disk, dir); err != nil {
		return in, err
	}
	o.New.Name, o.New.DevType, o.New.Package, o.New.Objective = t.Name, t.DevType, t.Package, t.Pipeline.Objective
	if t.Priority != "P2" { // P2 is the default, and a TaskSpec may set another priority
		o.New.Priority = t.Priority
	}
	o.Base = cmp.Or(o.Base, t.BaseBranch)
	if len(o.Verify) == 0 {
		o.Verify = t.Pipeline.Verify
	}
	o.ChooseType = dir != final // perhaps nobody gave the type of a draft
	if err := o.inherit(j.History()); err != nil {
		return in, err
	}
	if in, err = s.beginPlan(ctx, j, final, o, t.Pipeline.Revision, used); err != nil {
		return in, err
	}
	return in, s.states().setPlanning(dir)
}

// workBegun reports whether a task's journal records work on it. A run that was only asked for is not work, unless it was
// asked for with feedback.
func workBegun(h *journal.History) (bool, error) {
	if h == nil {
		return false, nil
	}
	p, err := pipeline.ReadProgress(h)
	return h.Flow == pipeline.Flow && (p.Begun || p.Fresh || p.Feedback != nil || len(h.Calls) > 0), err
}

// CanReplan returns why a task can't be planned again, whatever the requirement. If a process works on it, Replan reports that.
func (s PlanRunner) CanReplan(dir string) error {
	if _, held := Held(dir); held {
		return nil
	}
	if err := refuseArchived(s.Store, dir); err != nil {
		return err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) { // a damaged journal is set aside
		return err
	}
	if h != nil && canGoOn(dir, h) {
		return nil
	}
	t, err := s.Store.Load(dir)
	if err != nil {
		return err
	}
	return checkReplannable(t, h)
}

// checkReplannable returns an error if a task can't be planned again, with the command that takes feedback on its work instead. h
// is the task's journal, nil without one.
func checkReplannable(t *taskdir.Task, h *journal.History) error {
	begun, err := workBegun(h)
	next := "trellis status " + trellis.ShellWord(t.ID)
	switch {
	case err != nil:
		return err
	case t.Status == trellis.Ready && begun:
		return &RefusedError{t.ID + " is ready to continue work that was begun: it can't be planned again", "trellis start " + trellis.ShellWord(t.ID)}
	case trellis.Move(t.Status, trellis.Planning) == nil:
		return nil
	case t.Status == trellis.Review || t.Status == trellis.Failed:
		next = "trellis retry " + trellis.ShellWord(t.ID) + " --feedback 'what should be different'"
	}
	return &RefusedError{fmt.Sprintf("%s is %s: it can't be planned again", t.ID, t.Status.InWords()), next}
}

// keepRequirement copies a requirement that another one replaces to requirement-1.md, -2 and so on, because a person wrote it.
func (s PlanRunner) keepRequirement(dir, old, next string) error {
	if old == "" || old == next {
		return nil
	}
	for n := 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("requirement-%d.md", n))
		kept, err := durable.ReadSettled(path)
		switch {
		case err == nil && string(kept) == old: // copied by a planning that was cut off after that
			return nil
		case errors.Is(err, fs.ErrNotExist):
			err = s.Disk.Replace(path, nil, []byte(old))
		}
		if err == nil && kept == nil || err != nil && !errors.Is(err, durable.ErrChanged) {
			return err
		}
	}
}

// plannerDeps returns the dependencies of the effects that plan a directory.
func (s PlanRunner) plannerDeps(dir, final string) planner.Deps {
	return planner.Deps{Dir: dir, Final: final, Repo: s.Repo, Store: s.Store, Config: s.Config, Choose: s.Roles().chooseOrSuspend, LookPath: s.LookPath, Disk: s.Disk, Now: s.Clock}
}

// plan runs the planner over a draft and publishes it when the planning has ended: planned, rejected or failed. After an interrupt,
// a wait that ends the process, missing trust or any other error the draft stays, and the planning is resumed later.
func (s PlanRunner) plan(ctx context.Context, dir, final string, begin func(*journal.Run) (planner.Input, error)) (PlanResult, error) {
	marker := runlock.Marker(dir)
	deps := s.plannerDeps(dir, final)
	deps.Trusted = s.guard().planCheck(dir)
	caller := agentCallers(s.Site).caller(dir, marker)
	deps.Equip(caller)
	res := PlanResult{Dir: final}
	j, err := s.open(ctx, dir, append(append(deps.Activities(), caller.CallingOff()), agentCallers(s.Site).reportCalls(dir, caller.Activities(planner.Roles()...))...), nil)
	if err != nil {
		return res, err
	}
	in, err := begin(j)
	if err == nil {
		err = checkVersion(dir, j.History())
	}
	if err == nil {
		err = deps.Reuse(ctx, caller, j.History())
	}
	if err != nil {
		return res, errors.Join(err, j.Close())
	}
	res.Before = in.Used
	caller.Agents = s.Roles().agents(in.Nonce)
	var asked atomic.Bool
	caller.Env = func(c flow.Call, r agentcall.Request) []string {
		asked.Store(true)
		return append(agentCallers(s.Site).env(dir, c, r), deps.Env(in)...)
	}
	s.traced(caller, j)
	res.Report, err = journal.Execute(ctx, j, planner.Run)
	res.Asked = asked.Load()
	if errors.As(err, new(*journal.GoneError)) && durable.WaitGone(dir) {
		j.Close() // the error is about the lock, which is gone too
		return res, &RefusedError{s.Store.Rel(dir) + " was removed or renamed while it was planned", "name it so again, then trellis plan --retry " + trellis.ShellWord(filepath.Base(dir))}
	}
	h := j.History()
	lerr := planner.WriteLog(s.Disk, dir)
	if err := errors.Join(j.Close(), lerr); err != nil {
		return res, err
	}
	if errors.Is(err, flow.ErrSuspended) && ctx.Err() != nil {
		res.Dir, res.Interrupted = dir, true
		res.Report, err = soFar(dir, h)
		return res, err
	}
	if parked, ok := errors.AsType[*journal.Parked](err); ok {
		res.Dir, res.Waits, res.Until = dir, parked.For, parked.Until
		_, res.Failure = LastFailedCall(dir)
		res.Report, err = soFar(dir, h)
		return res, err
	}
	if untrusted, ok := errors.AsType[*trust.UntrustedError](err); ok {
		return res, untrusted
	}
	if err != nil && !errors.As(err, &res.Failure) {
		return res, instructionsProblem(err, "trellis plan --retry "+trellis.ShellWord(filepath.Base(final)))
	}
	return s.publish(ctx, dir, final, res)
}

// soFar returns the report of a planning in dir up to the end of its journal, calls without an answer included.
func soFar(dir string, h *journal.History) (planner.Report, error) {
	rep, err := planner.PartialReport(h)
	rep.Usage = rep.Usage.Add(lostUsage(dir, h))
	return rep, err
}

// judgePlanned has the judge read what was planned before git has it, so that it counts as made here. It reports what is not trusted,
// because somebody withdrew the trust or somebody else wrote exactly the same: that will not run.
func (s PlanRunner) judgePlanned(ctx context.Context, dir string) error {
	err := s.guard().checkTrusted(ctx, dir)
	var untrusted *trust.UntrustedError
	if !errors.As(err, &untrusted) {
		return err
	}
	s.Tell(Event{Task: filepath.Base(dir), Level: slog.LevelWarn, Message: untrusted.Error() + "\nnext: " + untrusted.Next()})
	return nil
}

func (s PlanRunner) publish(ctx context.Context, dir, final string, res PlanResult) (PlanResult, error) {
	if dir != final {
		s.guard().recordPlanned(dir, final)
		_, err := s.Store.Publish(dir)
		if errors.Is(err, taskdir.ErrExists) {
			return res, &RefusedError{s.Store.Rel(final) + " was made while it was planned; what was planned is kept in " + s.Store.Rel(dir),
				"move the other one away, then trellis plan --retry " + trellis.ShellWord(filepath.Base(dir))}
		}
		if err != nil {
			return res, fmt.Errorf("publishing %s: %w", s.Store.Rel(final), err)
		}
		s.Hooks().hook(ctx, hooks.AfterCreate, final, "")
	}
	t, err := s.Store.Load(final)
	if err != nil {
		return res, err
	}
	if err := s.judgePlanned(ctx, final); err != nil {
		return res, err
	}
	res.Status = t.Status
	return res, nil
}
