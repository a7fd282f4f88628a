package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/taskdir"
)

// guard says whether what came by git may be run here.
type guard struct{ *Site }

func (s *Site) guard() guard { return guard{s} }

// trusted says why nothing of a task may run here, nil when it may: an *trust.UntrustedError.
func (s guard) trusted(ctx context.Context, dir string) error {
	if s.Trust == nil {
		return nil
	}
	of, err := subject.Task(s.Store.Root, s.Store.Rel(dir))
	if err != nil {
		return err
	}
	return s.judged(ctx, of)
}

// trustedTexts says why files of a task, or that agents are shown for it, may not be used as they were read; nil when they may.
// It is asked of what is used: another branch may have been checked out since the task was looked at.
func (s guard) trustedTexts(ctx context.Context, dir string, texts map[string][]byte) error {
	if s.Trust == nil {
		return nil
	}
	of, err := subject.Task(s.Store.Root, s.Store.Rel(dir))
	if err != nil {
		return err
	}
	return s.judged(ctx, of.Of(texts))
}

// trustedToPlan has a planning sleep before a call that would be told, or look around in, what is not trusted.
func (s guard) trustedToPlan(dir string) func(context.Context, map[string][]byte) error {
	return func(ctx context.Context, texts map[string][]byte) error {
		return suspended(cmp.Or(s.trustedHere(ctx, s.Store.Root), s.trustedTexts(ctx, dir, texts)))
	}
}

// suspended has a run sleep for what is not trusted. Any other error stays what it is.
func suspended(err error) error {
	if errors.Is(err, trust.ErrUntrusted) {
		return fmt.Errorf("%w: %w", flow.ErrSuspended, err)
	}
	return err
}

// wanted remembers that a requirement was given here, whoever else asks for the same to the letter.
func (s guard) wanted(final, requirement string) {
	file := filepath.ToSlash(s.Store.Rel(filepath.Join(final, taskdir.Requirement)))
	s.madeHere(final, map[string][]byte{file: []byte(requirement)}, func(items []trust.Item) ([]trust.Item, error) { return items, nil })
}

// planned remembers that what a planning wrote into a draft was made here. What trust was taken back in stays so.
func (s guard) planned(draft, final string) {
	if s.Trust == nil {
		return
	}
	texts := map[string][]byte{}
	of, err := subject.Task(s.Store.Root, s.Store.Rel(draft))
	for _, file := range of.Files {
		if path.Dir(file) != filepath.ToSlash(s.Store.Rel(draft)) {
			continue // it was there before
		}
		if data, unread := taskdir.ReadFile(draft, path.Base(file)); unread == nil { // else it is judged, if it can be read then
			texts[filepath.ToSlash(s.Store.Rel(filepath.Join(final, path.Base(file))))] = data
		}
	}
	s.remembered(trust.Verdict{Unsaved: err})
	s.madeHere(final, texts, s.Trust.Standing)
}

// madeHere remembers what files of a task say, as far as pick has it so. What an agent asks for is judged as all else is.
func (s guard) madeHere(dir string, texts map[string][]byte, pick func([]trust.Item) ([]trust.Item, error)) {
	if _, inside := proc.InsideRun(s.Environ); inside || s.Trust == nil {
		return
	}
	err := func() error {
		of, err := subject.Task(s.Store.Root, s.Store.Rel(dir))
		if err != nil {
			return err
		}
		var items []trust.Item
		for _, file := range slices.Sorted(maps.Keys(texts)) {
			said, _ := of.Read(file, texts[file])
			items = append(items, said...)
		}
		if items, err = pick(items); err != nil {
			return err
		}
		return s.Trust.Record(trust.Made, of.Name, items...)
	}()
	s.remembered(trust.Verdict{Unsaved: err})
}

// judged is that of any subject.
func (s guard) judged(ctx context.Context, of trust.Subject) error {
	if s.Trust == nil {
		return nil
	}
	v, err := s.Trust.Subject(ctx, of)
	if err != nil {
		return err
	}
	s.remembered(v)
	return v.Err()
}

// remembered tells once that what was found out could not be remembered.
func (s guard) remembered(v trust.Verdict) {
	if v.Unsaved == nil || errors.Is(v.Unsaved, trust.ErrNowhere) {
		return
	}
	s.shared().forgetful.Do(func() {
		s.Tell(Event{Level: slog.LevelWarn, Message: fmt.Sprintf("%v: what is yours is found out again each time, and may be asked about once git has it", v.Unsaved)})
	})
}

// trustedBase says why no worktree is made on a commit, and nothing of it brought into one; nil when it may be.
func (s guard) trustedBase(ctx context.Context, base bases.Base) error {
	if s.Trust == nil || base.Commit == "" {
		return nil
	}
	v, err := s.Trust.Base(ctx, s.below(base))
	if err != nil {
		return err
	}
	s.remembered(v)
	return v.Err()
}

// awaiting has a task that could run, or waits for something else, wait until somebody here trusts it. Nothing is written
// into its directory for that.
func (s guard) awaiting(ctx context.Context, l Assessment) (Assessment, error) {
	if !l.Run && l.Waits == "" {
		return l, nil
	}
	if !l.Run {
		return kept(l, s.trusted(ctx, l.Dir))
	}
	err := s.trustedRun(ctx, l.Dir)
	if err == nil {
		err = s.trustedStart(ctx, l)
	}
	return kept(l, err)
}

// kept has a task wait when it, its base, or a program of the settings is not trusted.
func kept(l Assessment, err error) (Assessment, error) {
	if !errors.As(err, &l.Untrusted) {
		return l, err
	}
	l.Run, l.Waits, l.From, l.To = false, pulse.Trust, "", ""
	return l, nil
}

// trustedRun says why nothing may be run for the task in dir: by itself, or as the programs of the settings are not trusted.
func (s guard) trustedRun(ctx context.Context, dir string) error {
	if err := s.trustedPrograms(ctx); err != nil {
		return err
	}
	return s.trusted(ctx, dir)
}

// trustedPrograms says why what the settings name may not be run now, nil when it may be.
func (s guard) trustedPrograms(ctx context.Context) error {
	if s.TrustedPrograms == nil {
		return nil
	}
	return s.TrustedPrograms(ctx)
}

// trustedAgent is an agent for one call. One that may be a program of the checkout, or is told by a file of it what to do, is judged
// each time: another branch may be checked out since the run began, which then sleeps.
func (s guard) trustedAgent(name string) (agents.Agent, error) {
	if _, command := s.Config.Agents.Commands[name]; command || name == agents.Rehearsal {
		if err := s.trustedPrograms(context.Background()); err != nil {
			return nil, suspended(err)
		}
	}
	return s.Agent(name)
}

// trustedObjective says why no step of an objective with this text is planned here, nil when one may be.
func (s guard) trustedObjective(ctx context.Context, name string, text []byte) error {
	if err := s.trustedPrograms(ctx); err != nil {
		return err
	}
	return s.judged(ctx, subject.Objective(name).Of(map[string][]byte{roadmap.File(name): text}))
}

// trustedToStart says why a task is not started here, nil when it may be, or stands where nothing is started anyway.
func (s guard) trustedToStart(ctx context.Context, t *taskdir.Task, h *journal.History) error {
	switch t.Status {
	case trellis.Planning, trellis.Ready, trellis.Waiting, trellis.InProgress, trellis.Paused:
	default:
		return nil
	}
	if err := s.trusted(ctx, t.Dir); err != nil {
		return err
	}
	return s.trustedStart(ctx, Assessment{Dir: t.Dir, Task: t, journal: h})
}

// trustedStart says why the work of a task can't begin where it would, nil when it can, or has begun.
func (s guard) trustedStart(ctx context.Context, l Assessment) error {
	if s.Trust == nil {
		return nil
	}
	p, err := pipeline.ReadProgress(l.journal)
	if err != nil || underWay(l.journal) && p.Claimed().Branch != "" {
		return err
	}
	base, _, err := s.Assessor().base(ctx, l.Task, l.journal)
	if errors.As(err, new(*flow.Failure)) {
		return nil // there is no base, and so no run: its claim says so
	}
	if err != nil {
		return err
	}
	return s.trustedClaim(ctx, l.Task, base, p.Begun || p.Fresh)
}

// trustedClaim is trustedBase of where the work of a task begins, and, where no run of this clone has begun it and none takes
// it away to begin afresh, of what its branch has already.
func (s guard) trustedClaim(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error {
	if err := s.trustedBase(ctx, base); err != nil || begun {
		return err
	}
	tip, err := s.Repo.Refs().Branch(ctx, t.BranchName())
	if err != nil {
		return err
	}
	return s.trustedBase(ctx, bases.Base{Commit: tip})
}

// below is the commit that the work of others began at, whose branch a task begins on just as a run of this clone left it;
// or else where the task begins itself.
func (s guard) below(base bases.Base) string {
	for range stackedMost {
		h, err := journal.Read(filepath.Join(s.Store.Tasks(), base.On, taskdir.Run))
		if base.On == "" || err != nil || h.Flow != pipeline.Flow || s.ours(context.Background(), filepath.Join(s.Store.Tasks(), base.On), h) != nil {
			return base.Commit
		}
		p, err := pipeline.ReadProgress(h)
		if err != nil || p.Report == nil || p.Report.Commit != base.Commit || p.Base == "" {
			return base.Commit
		}
		base = bases.Base{Commit: p.Base, On: p.StackedOn}
	}
	return base.Commit
}

// stackedMost is how many tasks may stand on each other before nobody looks further down.
const stackedMost = 100

// trustedPush says why what people pushed to the branch of a task, which ends in tip here, is not taken in; nil when it may be.
func (s guard) trustedPush(ctx context.Context, tip, theirs string) error {
	if s.Trust == nil || theirs == "" || theirs == tip {
		return nil
	}
	v, err := s.Trust.Base(ctx, theirs)
	if err != nil {
		return err
	}
	var pushed []trust.Foreign
	for _, f := range v.Foreign {
		here, err := s.Repo.History().IsAncestor(ctx, f.Commit, tip)
		if err != nil {
			return err
		}
		if !here { // else a run of this clone made it, or took it in
			pushed = append(pushed, f)
		}
	}
	v.Foreign = pushed
	return v.Err()
}

// trustedHere says why nothing is run in a folder that may run, or be told by, whatever is checked out there; nil when it
// may be.
func (s guard) trustedHere(ctx context.Context, dir string) error {
	if s.Trust == nil {
		return nil
	}
	linked, err := s.Repo.Worktrees().List(ctx)
	if err != nil {
		return err
	}
	for _, w := range append(linked, git.Worktree{Path: s.Repo.Main}) {
		if rel, err := filepath.Rel(w.Path, dir); w.Gone || err != nil || !filepath.IsLocal(rel) {
			continue
		}
		head, err := s.Repo.Refs().Head(ctx, w.Path)
		if errors.Is(err, git.ErrNoCommit) {
			continue
		}
		if err == nil {
			err = s.trustedBase(ctx, bases.Base{Commit: head})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// watchTrust gives the effects of a run who judges what they take in, and tells the judge what they make.
func (s guard) watchTrust(d *pipeline.Deps) {
	if s.Trust == nil {
		return
	}
	d.Counts = s.Approvals().counts()
	d.TrustedClaim, d.TrustedBase = s.trustedClaim, s.trustedBase
	d.TrustedTexts = func(ctx context.Context, texts map[string][]byte) error { return s.trustedTexts(ctx, d.Dir, texts) }
	d.Committed = func(commit string) {
		if err := s.Trust.Committed(filepath.Base(d.Dir), commit); err != nil {
			s.Tell(Event{Task: filepath.Base(d.Dir), Level: slog.LevelWarn, Message: err.Error()})
		}
	}
}
