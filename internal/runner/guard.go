package runner

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/taskdir"
)

// trustGuard decides whether what came by git may run here.
type trustGuard struct {
	store    taskdir.Store
	repo     *git.Repo
	bases    bases.Finder
	judge    *trust.Judge                // nil: all of it may run
	programs func(context.Context) error // see Site.TrustedPrograms
	keys     []ed25519.PublicKey
	commands map[string]config.Command
	agent    func(name string) (agents.Agent, error)
	environ  []string
	unsaved  *sync.Once // guards the warning that trust can't be stored
	tell     func(Event)
}

// checkTrusted returns a *trust.UntrustedError if nothing of a task may run here, and nil if it may.
func (g trustGuard) checkTrusted(ctx context.Context, dir string) error {
	return g.checkTexts(ctx, dir, nil)
}

// checkTexts returns an error if texts, read from the files of a task or from what agents are shown for it, may not be
// used. It checks what is about to be used, because another branch may have been checked out since the task was assessed.
// With nil texts it checks everything that the task says now.
func (g trustGuard) checkTexts(ctx context.Context, dir string, texts map[string][]byte) error {
	if g.judge == nil {
		return nil
	}
	of, err := subject.Task(g.store.Root, g.store.Rel(dir))
	if err != nil {
		return err
	}
	if texts != nil {
		of = of.Of(texts)
	}
	return g.checkSubject(ctx, of)
}

// planCheck returns a check that suspends a planning before an agent is told, or works in, something that is not trusted.
func (g trustGuard) planCheck(dir string) func(context.Context, map[string][]byte) error {
	return func(ctx context.Context, texts map[string][]byte) error {
		if err := g.checkCheckout(ctx, g.store.Root); err != nil {
			return untrustedAsSuspended(err)
		}
		return untrustedAsSuspended(g.checkTexts(ctx, dir, texts))
	}
}

// untrustedAsSuspended makes an error for lack of trust suspend the run. It returns any other error unchanged.
func untrustedAsSuspended(err error) error {
	if errors.Is(err, trust.ErrUntrusted) {
		return fmt.Errorf("%w: %w", flow.ErrSuspended, err)
	}
	return err
}

// recordRequirement records that a requirement was given here, even if somebody else asks for exactly the same.
func (g trustGuard) recordRequirement(final, requirement string) {
	file := filepath.ToSlash(g.store.Rel(filepath.Join(final, taskdir.Requirement)))
	g.recordMadeHere(final, map[string][]byte{file: []byte(requirement)}, func(items []trust.Item) ([]trust.Item, error) { return items, nil })
}

// recordPlanned records that what a planning wrote into a draft was made here. Items whose trust was withdrawn stay untrusted.
func (g trustGuard) recordPlanned(draft, final string) {
	if g.judge == nil {
		return
	}
	texts := map[string][]byte{}
	of, err := subject.Task(g.store.Root, g.store.Rel(draft))
	for _, file := range of.Files {
		if path.Dir(file) != filepath.ToSlash(g.store.Rel(draft)) {
			continue // existed before the planning
		}
		if data, unread := taskdir.ReadFile(draft, path.Base(file)); unread == nil { // else it is judged later, if it can be read then
			texts[filepath.ToSlash(g.store.Rel(filepath.Join(final, path.Base(file))))] = data
		}
	}
	g.warnUnsaved(trust.Verdict{Unsaved: err})
	g.recordMadeHere(final, texts, g.judge.Standing)
}

// RecordBrought records the content of a task directory from a machine of the team as made by people who may make tasks here.
func (s *Site) RecordBrought(dir string) {
	of, err := subject.Task(s.Store.Root, s.Store.Rel(dir))
	if err != nil {
		return // the task is judged when it can be read
	}
	texts := map[string][]byte{}
	for _, file := range of.Files {
		if data, err := taskdir.ReadFile(s.Store.Root, file); err == nil {
			texts[file] = data
		}
	}
	s.guard().recordMadeHere(dir, texts, func(items []trust.Item) ([]trust.Item, error) { return items, nil })
}

// recordMadeHere records the items in files of a task that pick returns as made here. What an agent asks for is judged instead.
func (g trustGuard) recordMadeHere(dir string, texts map[string][]byte, pick func([]trust.Item) ([]trust.Item, error)) {
	if proc.StartedByRun(g.environ) || g.judge == nil {
		return
	}
	err := func() error {
		of, err := subject.Task(g.store.Root, g.store.Rel(dir))
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
		return g.judge.Record(trust.Made, of.Name, items...)
	}()
	g.warnUnsaved(trust.Verdict{Unsaved: err})
}

func (g trustGuard) checkSubject(ctx context.Context, of trust.Subject) error {
	if g.judge == nil {
		return nil
	}
	v, err := g.judge.Subject(ctx, of)
	if err != nil {
		return err
	}
	g.warnUnsaved(v)
	return v.Err()
}

// warnUnsaved warns once if findings of the judge could not be stored.
func (g trustGuard) warnUnsaved(v trust.Verdict) {
	if v.Unsaved == nil || errors.Is(v.Unsaved, trust.ErrNoLedger) {
		return
	}
	g.unsaved.Do(func() {
		g.tell(Event{Level: slog.LevelWarn, Message: fmt.Sprintf("%v: what is yours is found out again each time, and may be asked about once git has it", v.Unsaved)})
	})
}

// checkBase returns an error if no worktree may be made on a commit and nothing of it brought into one; nil if both may be done.
func (g trustGuard) checkBase(ctx context.Context, base bases.Base) error {
	if g.judge == nil || base.Commit == "" {
		return nil
	}
	v, err := g.judge.Base(ctx, g.commitToJudge(base))
	if err != nil {
		return err
	}
	g.warnUnsaved(v)
	return v.Err()
}

// addTrustWait makes a task that could run, or waits for something else, wait until somebody here trusts it. It writes nothing
// into the task's directory for that.
func (g trustGuard) addTrustWait(ctx context.Context, l Assessment) (Assessment, error) {
	if !l.Run && len(l.Waits) == 0 {
		return l, nil
	}
	var err error
	if l.Run {
		err = g.checkPrograms(ctx)
	}
	if err == nil {
		err = g.checkTrusted(ctx, l.Dir)
	}
	if l.Run && err == nil {
		err = g.checkStart(ctx, l)
	}
	if !errors.As(err, &l.Untrusted) {
		return l, err
	}
	l.Run, l.Waits, l.From, l.To = false, bases.Waits{{For: pulse.Trust}}, "", ""
	return l, nil
}

// checkRun returns an error if the task in dir, or the programs that the settings name, are not trusted, so that nothing may run.
func (g trustGuard) checkRun(ctx context.Context, dir string) error {
	if err := g.checkPrograms(ctx); err != nil {
		return err
	}
	return g.checkTrusted(ctx, dir)
}

func (g trustGuard) checkPrograms(ctx context.Context) error {
	if g.programs == nil {
		return nil
	}
	return g.programs(ctx)
}

// trustedAgent returns an agent for one call. An agent that may be a program of the checkout, or gets its answers from a file
// of it, is judged at each call, since another branch may have been checked out after the run began; if it is not trusted,
// the run is suspended. So is a run that was begun with an agent that the settings do not name any more.
func (g trustGuard) trustedAgent(name string) (agents.Agent, error) {
	if _, command := g.commands[name]; command || name == agents.Rehearsal {
		if err := g.checkPrograms(context.Background()); err != nil {
			return nil, untrustedAsSuspended(err)
		}
	}
	a, err := g.agent(name)
	if errors.Is(err, agents.ErrUnknown) {
		err = instructionsError{&trellis.Problem{File: ".trellis/config.yaml", Message: fmt.Sprintf("has no agent %q any more, with which the work was begun: %v", name, err), Hint: "name it there again"}}
	}
	return a, err
}

// checkObjective returns an error if no step of an objective with this text may be planned here, and nil if it may.
func (g trustGuard) checkObjective(ctx context.Context, name string, text []byte) error {
	if err := g.checkPrograms(ctx); err != nil {
		return err
	}
	return g.checkSubject(ctx, subject.Objective(name).Of(map[string][]byte{roadmap.File(name): text}))
}

// checkToStart returns an error if a task may not be started here; nil if it may, or has a status in which nothing is started.
func (g trustGuard) checkToStart(ctx context.Context, t *taskdir.Task, h *journal.History) error {
	switch t.Status {
	case trellis.Planning, trellis.Ready, trellis.Waiting, trellis.InProgress, trellis.Paused:
	default:
		return nil
	}
	if err := g.checkTrusted(ctx, t.Dir); err != nil {
		return err
	}
	return g.checkStart(ctx, Assessment{Dir: t.Dir, Task: t, journal: h})
}

// checkStart returns an error if the work of a task may not begin at its base, and nil if it may or has begun.
func (g trustGuard) checkStart(ctx context.Context, l Assessment) error {
	if g.judge == nil {
		return nil
	}
	p, err := pipeline.ReadProgress(l.journal)
	if err != nil || underWay(l.journal) && p.Claimed.Branch != "" {
		return err
	}
	base, _, err := baseAndWaits(ctx, g.bases, l.Task, l.journal)
	if errors.As(err, new(*flow.Failure)) {
		return nil // there is no base, and so no run: claiming the task reports that
	}
	if err != nil {
		return err
	}
	return g.checkClaim(ctx, l.Task, base, p.Begun || p.Fresh)
}

// checkClaim checks, as checkBase does, where the work of a task begins and what its branch has already. The branch is
// left out if a run of this clone has begun the work, or takes the branch away to begin afresh.
func (g trustGuard) checkClaim(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error {
	if err := g.checkBase(ctx, base); err != nil || begun {
		return err
	}
	tip, err := g.repo.Refs().Branch(ctx, t.BranchName())
	if err != nil {
		return err
	}
	return g.checkBase(ctx, bases.Base{Commit: tip})
}

// commitToJudge returns the commit to judge for a base. If a task begins on the branch of another task, just as a run of this clone
// left it, that is where the work of the other task began, and so on downwards; otherwise it is base.Commit.
func (g trustGuard) commitToJudge(base bases.Base) string {
	for range maxStacked {
		h, err := journal.Read(filepath.Join(g.store.Tasks(), base.On, taskdir.Run))
		if base.On == "" || err != nil || h.Flow != pipeline.Flow || g.checkJournalOrigin(context.Background(), filepath.Join(g.store.Tasks(), base.On), h) != nil {
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

// maxStacked is how many tasks, each on the branch of the next, commitToJudge follows.
const maxStacked = 100

// checkPush returns an error if what people pushed to a task's branch, whose local tip is tip, may not be taken in; nil if it may.
func (g trustGuard) checkPush(ctx context.Context, tip, theirs string) error {
	if g.judge == nil || theirs == "" || theirs == tip {
		return nil
	}
	v, err := g.judge.Base(ctx, theirs)
	if err != nil {
		return err
	}
	var pushed []trust.Foreign
	for _, f := range v.Foreign {
		here, err := g.repo.History().IsAncestor(ctx, f.Commit, tip)
		if err != nil {
			return err
		}
		if !here { // otherwise a run of this clone made it, or took it in
			pushed = append(pushed, f)
		}
	}
	v.Foreign = pushed
	return v.Err()
}

// checkCheckout returns an error if nothing may run in dir, where commands or agents use whatever is checked out, and nil if something may.
func (g trustGuard) checkCheckout(ctx context.Context, dir string) error {
	if g.judge == nil {
		return nil
	}
	linked, err := g.repo.Worktrees().List(ctx)
	if err != nil {
		return err
	}
	for _, w := range append(linked, git.Worktree{Path: g.repo.Main}) {
		if rel, err := filepath.Rel(w.Path, dir); w.Gone || err != nil || !filepath.IsLocal(rel) {
			continue
		}
		head, err := g.repo.Refs().Head(ctx, w.Path)
		if errors.Is(err, git.ErrNoCommit) {
			continue
		}
		if err == nil {
			err = g.checkBase(ctx, bases.Base{Commit: head})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// guardEffects makes the effects of a run judge what they take in, and report to the judge what they make.
func (g trustGuard) guardEffects(d *pipeline.Deps) {
	if g.judge == nil {
		return
	}
	d.Counts = g.decisionFilter()
	d.TrustedClaim, d.TrustedBase = g.checkClaim, g.checkBase
	d.TrustedTexts = func(ctx context.Context, texts map[string][]byte) error { return g.checkTexts(ctx, d.Dir, texts) }
	d.Committed = func(commit string) {
		if err := g.judge.Committed(filepath.Base(d.Dir), commit); err != nil {
			g.tell(Event{Task: filepath.Base(d.Dir), Level: slog.LevelWarn, Message: err.Error()})
		}
	}
}

// ForeignError is returned for a journal that no run of this task in this clone wrote: it came by git, or with a copied
// directory. Its author could have written any answer of any step into it, so the run is not resumed.
type ForeignError struct{ trellis.Problem }

func (e *ForeignError) Error() string { return e.Problem.Error() }
func (e *ForeignError) Unwrap() error { return &e.Problem }

// checkJournalOrigin returns a *ForeignError if the run of a journal may not be resumed here, and nil if it may. A journal without the ID
// of a clone is older than these IDs and accepted, unless git tracks it.
func (g trustGuard) checkJournalOrigin(ctx context.Context, dir string, h *journal.History) error {
	if h == nil || h.Empty() {
		return nil
	}
	path := g.store.Rel(filepath.Join(dir, taskdir.Journal))
	if h.Clone == "" {
		if tracked, err := g.repo.History().Tracks(ctx, path); err != nil || !tracked {
			return err
		}
		return g.foreign(dir, path, "was committed to git, and does not say where its run began")
	}
	if mine, err := g.repo.CloneID(); err != nil {
		return err
	} else if mine != h.Clone {
		return g.foreign(dir, path, "is of a run that began in another clone of the repository")
	}
	if of := ready.CopyOf(g.store, dir, h); of != "" {
		return g.foreign(dir, path, "is of a run of "+of+", of whose directory this is a copy")
	}
	return nil
}

func (g trustGuard) foreign(dir, path, why string) error {
	p := trellis.Problem{File: path, Message: "its journal, run/journal.jsonl, " + why + ": it is not gone on with here", Hint: "trellis retry " + trellis.ShellWord(filepath.Base(dir))}
	if filepath.Dir(dir) != g.store.Tasks() {
		p.Hint = "trellis run FILE"
	}
	return &ForeignError{p}
}

// decisionFilter returns the filter for decisions that count: those signed with a trusted key, those written in this clone, and those
// on the trusted branch. Others that came by git are ignored. The filter is nil if everything is trusted.
func (g trustGuard) decisionFilter() proof.Filter {
	if g.judge == nil || g.judge.Everything {
		return nil
	}
	return func(dir string, list []proof.Approval) (counted []proof.Approval, err error) {
		if filepath.Dir(dir) != g.store.Tasks() {
			return list, nil // decisions about the run of a file are never in git
		}
		v, err := g.judge.Subject(context.Background(), decisions(g.store.Rel(filepath.Join(dir, proof.ApprovalsFile)), filepath.Base(dir), list))
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if a.Voter = a.SignedBy(g.keys); a.Voter != "" || !slices.ContainsFunc(v.Foreign, func(f trust.Foreign) bool { return f.Item.Text == a.Text }) {
				counted = append(counted, a)
			}
		}
		return counted, nil
	}
}

// decisions returns the lines of an approvals.jsonl, as they were read, as a subject with one item per line.
func decisions(file, task string, list []proof.Approval) trust.Subject {
	var text bytes.Buffer
	for _, a := range list {
		text.WriteString(a.Text + "\n")
	}
	s := trust.Subject{Name: "decisions " + task, Read: func(file string, data []byte) (items []trust.Item, _ []string) {
		n := 0
		for line := range bytes.Lines(data) {
			if n++; len(bytes.TrimSpace(line)) > 0 {
				items = append(items, trust.Item{Kind: trust.Approval, Text: string(bytes.TrimSpace(line)), File: file, Line: n})
			}
		}
		return items, nil
	}}
	return s.Of(map[string][]byte{filepath.ToSlash(file): text.Bytes()})
}
