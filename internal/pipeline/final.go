package pipeline

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const final flow.Act[checksIn, Checks] = "final-verify"

// final runs the commands, including those of criteria, on the commit and nothing else. Commands that passed in a fresh checkout
// of the same files before are not repeated.
func (r *run) final(f flow.Flow) (*trouble, error) {
	if err := r.enter(f, "final-verify"); err != nil {
		return nil, err
	}
	tree := r.rep.Checks.Tree
	in := checksIn{Job: r.job, Forgiven: r.rep.Baseline.forgiven(r.namedCommands), Fingerprint: r.fingerprint, Tree: tree, Criteria: provenCriteria(r.rep.Criteria), Content: r.rep.Content, Plan: r.in.Code > 1}
	if r.in.Code > 6 {
		in.Later = r.job.slowCommands(r.rep.Baseline)
	}
	if r.freshResults != nil && r.freshResults.Tree == tree {
		in.Passed = r.freshResults
	}
	res, err := final.Do(f, in)
	if err != nil {
		return nil, err
	}
	r.rep.Checks.Results, r.rep.Checks.Fresh, r.rep.Checks.Skipped = res.Results, res.Fresh, res.Skipped
	r.rep.note(res.Notes)
	if len(res.UncommittedPaths) > 0 {
		return uncommittedTrouble(res, tree), nil
	}
	if len(res.Leaks) > 0 {
		return leakTrouble(res.Leaks, tree), nil
	}
	if found := forbiddenTrouble(res, tree); found != nil {
		return found, nil
	}
	if err := failedOffline(r.in.Task, r.rep.Baseline.Results, res.Results); err != nil {
		return nil, err
	}
	if found := r.failedCommands(res, nil); found != nil {
		return found.addFreshDetail(res), nil
	}
	if found := unmetTrouble(res.Judged, tree); found != nil {
		return found.addFreshDetail(res), nil
	}
	if r.in.Code < 2 {
		return nil, nil
	}
	r.rep.Proofs, err = seal.Do(f, sealIn{r.in.Task, r.job, r.rep.Content, r.rep.Commit, res.Results})
	return nil, err
}

// uncommittedTrouble returns the trouble of work that the commit does not hold.
func uncommittedTrouble(c Checks, tree string) *trouble {
	return &trouble{Code: trellis.CommitFailed, Detail: "the commit does not hold all of the work: " + strings.Join(c.UncommittedPaths, ", "), Tree: tree}
}

// provenCriteria returns the blocking criteria that a command proved. They have to hold for the commit too.
func provenCriteria(judged []CriterionResult) (list []Criterion) {
	for _, j := range judged {
		if j.Proven && !j.Should {
			list = append(list, j.Criterion)
		}
	}
	return list
}

// addFreshDetail adds to the detail that the trouble was found in a fresh checkout of the commit, if it was.
func (t *trouble) addFreshDetail(c Checks) *trouble {
	if !c.Fresh {
		return t
	}
	t.Detail = "in a fresh checkout of the commit, " + t.Detail
	if len(c.IgnoredFiles) > 0 {
		t.Detail += "; files that git ignores are in the worktree and not in the commit: " + joinFirst(c.IgnoredFiles)
	}
	return t
}

// allPassed reports whether no command that counts and no criterion failed.
func allPassed(out Checks) bool {
	return !anyFailed(out.Results) && !slices.ContainsFunc(out.Judged, func(j CriterionResult) bool { return j.Verdict == "unmet" })
}

func anyFailed(results []CommandResult) bool {
	return slices.ContainsFunc(results, func(c CommandResult) bool { return c.Code != 0 && !c.Forgiven })
}

// final judges the commit and nothing else: uncommitted paths are reported, and the commands run in a checkout of the commit in
// which no agent has been. Files that git's ignore rules, or the index of the worktree, kept out of the commit are missing there.
// What passed in such a checkout of the same files, in the same environment, is not run again.
func (fv *freshVerifier) final(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if in.Job.InPlace {
		return fv.verifier.baseline(ctx, c, in)
	}
	if err := fv.verifier.checkEnvironment(ctx, c, in, &out); err != nil || len(out.UnsafeSettings) > 0 {
		return out, err
	}
	list, err := fv.restorer.uncommitted(ctx, in.Job)
	if err == nil && len(list) == 0 {
		list, err = fv.unsavedModules(ctx, in.Job)
	}
	if out.UncommittedPaths = shortList(list); err != nil || len(list) > 0 {
		return out, err
	}
	same, err := fv.inspectOrRetract(ctx, c, in, &out)
	if err != nil || len(out.Protected)+len(out.Leaks) > 0 {
		return out, err
	}
	if in.Passed != nil && (!same || in.Passed.Environment != out.Environment) {
		in.Passed = nil
	}
	list, err = fv.verifier.decidingCommands(in)
	if err != nil || len(list)+len(in.Criteria) == 0 {
		return out, err
	}
	if in.Passed.covers(list, in.Criteria) {
		out.Fresh, out.Results, out.Judged = true, in.Passed.earlierResults(), in.Passed.earlierVerdicts()
	} else if err := fv.runAtHead(ctx, c, in, &out); err != nil {
		return out, err
	}
	at, err := fv.verifier.passes.atHead(ctx, in.Job) // other tasks begin at this commit, once it is merged
	if err == nil && len(in.Job.Modules) == 0 {
		out.Notes = append(out.Notes, at.keep(out.Results)...)
	}
	return out, err
}

// unsavedModules returns submodules whose recorded commit exists only in the worktree, so that nobody could check it out.
func (fv *freshVerifier) unsavedModules(ctx context.Context, j Job) (list []string, err error) {
	if !durable.Exists(filepath.Join(j.Worktree, ".gitmodules")) {
		return nil, nil
	}
	_, changes, err := fv.compareCommit(ctx, j, "")
	for _, ch := range changes {
		if !ch.Submodule() || !durable.Exists(filepath.Join(j.Worktree, ch.Path, ".git")) {
			continue
		}
		unsaved, err := fv.repo.Worktrees().HasUnsavedWork(ctx, j.Worktree, ch.Path)
		if err != nil {
			return nil, err
		}
		if unsaved {
			list = append(list, ch.Path+" (a submodule with commits that no remote of it has, and that is not the task's package)")
		}
	}
	return list, err
}

func (fv *freshVerifier) runAtHead(ctx context.Context, c flow.Call, in checksIn, out *Checks) error {
	head, err := fv.repo.Refs().Head(ctx, in.Job.Worktree)
	if err != nil {
		return err
	}
	return fv.run(ctx, c, in, head, out)
}

// earlierResults returns the results of the commands, marked as not run again.
func (p *FreshResults) earlierResults() []CommandResult {
	list := slices.Clone(p.Results)
	for i := range list {
		list[i].Earlier = true
	}
	return list
}

// earlierVerdicts returns the results of the criteria, marked as not run again.
func (p *FreshResults) earlierVerdicts() []CriterionResult {
	list := slices.Clone(p.Judged)
	for i := range list {
		list[i].Earlier = true
	}
	return list
}

// covers reports whether each command and each criterion has a result.
func (p *FreshResults) covers(commands []string, criteria []Criterion) bool {
	return p != nil && !slices.ContainsFunc(commands, func(line string) bool { return p.commandResult(line) == nil }) &&
		!slices.ContainsFunc(criteria, func(cr Criterion) bool { return resultOf(p.Judged, cr) == nil })
}

// inspectOrRetract reports whether the commit holds what was verified. Otherwise it checks its contents, which a hook or a process
// that was still running may have changed, and takes the commits back if they hold a secret or a path that is never committed.
func (fv *freshVerifier) inspectOrRetract(ctx context.Context, c flow.Call, in checksIn, out *Checks) (same bool, err error) {
	j := in.Job
	if in.Tree == "" {
		return false, nil
	}
	same, changes, err := fv.compareCommit(ctx, j, in.Tree)
	if err != nil || same {
		return same, err
	}
	out.Notes = append(out.Notes, "the commit is not what was verified before it: a hook of yours changed it, something that was still running, or Trellis, which left out what is not committed")
	s, err := fv.leaks.search(ctx, j)
	if err != nil {
		return false, err
	}
	if out.Leaks, err = fv.leaks.retract(ctx, c, s, 1); err != nil || len(out.Leaks) > 0 {
		out.Notes = append(out.Notes, s.notes...)
		return false, err
	}
	out.Protected, err = fv.inputs.protectedChanges(j, in.Content, changes)
	return false, err
}

// compareCommit reports whether the commit of a worktree has the tree known, which was verified. If not, it also returns what the
// commit changes against the base, submodules by their contents. The worktree of a job with submodules holds only what is
// committed.
func (fv *freshVerifier) compareCommit(ctx context.Context, j Job, known string) (same bool, changes []git.Change, err error) {
	if len(j.Modules) == 0 {
		tip, err := fv.repo.Refs().Branch(ctx, j.Branch) // for git, the name could be that of a tag
		if err != nil {
			return false, nil, err
		}
		tree, err := fv.repo.Refs().TreeAt(ctx, tip)
		if err != nil || tree == known {
			return err == nil, nil, err
		}
		changes, err = fv.repo.History().ChangesBetween(ctx, j.BaseCommit, tip)
		return false, changes, err
	}
	snap, err := snapshot.New(fv.repo).Snapshot(ctx, j.Worktree, NeverCommitted(j)...)
	if err != nil {
		return false, nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if snap.Tree != known {
		changes, err = snap.Changes(ctx, j.BaseCommit)
	}
	return snap.Tree == known, changes, err
}

// recordIgnored records the files that git ignores in the worktree, if something failed without them.
func (fv *freshVerifier) recordIgnored(ctx context.Context, j Job, out *Checks) error {
	if allPassed(*out) {
		return nil
	}
	list, err := fv.repo.Index().Ignored(ctx, j.Worktree, NeverCommitted(j)...)
	out.IgnoredFiles = shortList(slices.DeleteFunc(list, func(path string) bool { return path == runtimeDir+"/" }))
	return err
}
