package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const final flow.Act[checksIn, Checks] = "final-verify"

// final runs the commands once more, those of the criteria too, on the commit and nothing else.
func (r *run) final(f flow.Flow) (*trouble, error) {
	if err := r.enter(f, "final-verify"); err != nil {
		return nil, err
	}
	tree := r.rep.Checks.Tree
	in := checksIn{Job: r.job, Forgiven: r.forgiven(), Fingerprint: r.fingerprint, Tree: tree, Criteria: proven(r.rep.Criteria), Content: r.rep.Content, Plan: r.in.Code > 1}
	res, err := final.Do(f, in)
	if err != nil {
		return nil, err
	}
	r.rep.Checks.Results, r.rep.Checks.Fresh = res.Results, res.Fresh
	r.rep.note(res.Notes)
	if len(res.Stray) > 0 {
		return &trouble{Code: trellis.CommitFailed, Detail: "the commit does not hold all of the work: " + strings.Join(res.Stray, ", "), Tree: tree}, nil
	}
	if len(res.Leaks) > 0 {
		return leaked(res.Leaks, tree), nil
	}
	if found := forbidden(res, tree); found != nil {
		return found, nil
	}
	if err := cutOff(r.in.Task, r.rep.Baseline.Results, res.Results); err != nil {
		return nil, err
	}
	if found := r.failedCommands(res.Results, nil); found != nil {
		return found.alone(res), nil
	}
	if found := unmet(res.Judged, tree); found != nil {
		return found.alone(res), nil
	}
	if r.in.Code < 2 {
		return nil, nil
	}
	r.rep.Proofs, err = seal.Do(f, sealIn{r.in.Task, r.job, r.rep.Content, r.rep.Commit, res.Results})
	return nil, err
}

// proven are the criteria that a command judged, as they are asked of the commit.
func proven(judged []CriterionResult) (list []Criterion) {
	for _, j := range judged {
		if j.Proven && !j.Should {
			list = append(list, j.Criterion)
		}
	}
	return list
}

// alone says where the trouble was found, when that is where nothing but the commit was.
func (t *trouble) alone(c Checks) *trouble {
	if !c.Fresh {
		return t
	}
	t.Detail = "in a fresh checkout of the commit, " + t.Detail
	if len(c.Unseen) > 0 {
		t.Detail += "; files that git ignores are in the worktree and not in the commit: " + joinSome(c.Unseen)
	}
	return t
}

// finalVerifier is the effect of final verify.
type finalVerifier struct {
	repo     *git.Repo
	fresh    *freshCheckout
	inputs   *inputs
	leaks    *leaks
	prover   *prover
	restorer *restorer
	verifier *verifier
}

// final judges the commit and nothing else: what it does not hold is named, and the commands run in a checkout
// of it that no agent was in. What only git's ignore rules, or the index of the worktree, kept out of sight is
// not there.
func (fv *finalVerifier) final(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if in.Job.InPlace {
		return fv.verifier.baseline(ctx, c, in)
	}
	if err := fv.verifier.checkEnvironment(ctx, c, in, &out); err != nil || len(out.Bent) > 0 {
		return out, err
	}
	stray, err := fv.restorer.uncommitted(ctx, in.Job)
	if out.Stray = few(stray); err != nil || len(stray) > 0 {
		return out, err
	}
	if err := fv.inspectCommit(ctx, c, in, &out); err != nil || len(out.Protected)+len(out.Leaks) > 0 {
		return out, err
	}
	if list, err := fv.verifier.decidingCommands(in); err != nil || len(list)+len(in.Criteria) == 0 {
		return out, err
	}
	err = fv.fresh.do(ctx, c, in.Job, func(fresh Job, broken *CommandResult) error {
		out.Fresh = true
		if broken != nil {
			out.Results = []CommandResult{*broken}
			return nil
		}
		there := in
		there.Job = fresh
		if out.Results, err = fv.verifier.runAll(ctx, c, there); err != nil {
			return err
		}
		out.Judged, err = fv.prover.proveAt(ctx, c, proveIn{Job: fresh, Criteria: in.Criteria})
		return err
	})
	if err != nil {
		return out, err
	}
	err = fv.nameIgnored(ctx, in.Job, &out)
	return out, err
}

// inspectCommit finds what the commit holds besides what was verified: a hook, or a process that was still running,
// may have changed it.
func (fv *finalVerifier) inspectCommit(ctx context.Context, c flow.Call, in checksIn, out *Checks) error {
	j := in.Job
	if in.Tree == "" {
		return nil
	}
	same, changes, err := fv.committed(ctx, j, in.Tree)
	if err != nil || same {
		return err
	}
	out.Notes = append(out.Notes, "the commit is not what was verified before it: a hook of yours changed it, or something that was still running")
	s, err := fv.leaks.search(ctx, j)
	if err != nil {
		return err
	}
	if out.Leaks, err = fv.leaks.retract(ctx, c, s, 1); err != nil || len(out.Leaks) > 0 {
		out.Notes = append(out.Notes, s.notes...)
		return err
	}
	out.Protected, err = fv.inputs.protectedIn(j, in.Content, changes)
	return err
}

// committed reports whether the commit of a worktree is what was verified, the tree known, and if not what it changes of
// the base, submodules as what is in them. The worktree of a job with submodules holds nothing else.
func (fv *finalVerifier) committed(ctx context.Context, j Job, known string) (same bool, changes []git.Change, err error) {
	if len(j.Modules) == 0 {
		tree, err := fv.repo.Refs().TreeAt(ctx, j.Branch)
		if err != nil || tree == known {
			return err == nil, nil, err
		}
		changes, err = fv.repo.History().ChangesBetween(ctx, j.BaseCommit, j.Branch)
		return false, changes, err
	}
	snap, err := snapshot.New(fv.repo).Snapshot(ctx, j.Worktree, Outside(j)...)
	if err != nil {
		return false, nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if snap.Tree != known {
		changes, err = snap.Changes(ctx, j.BaseCommit)
	}
	return snap.Tree == known, changes, err
}

// nameIgnored names the files that git ignores in the worktree when something fails without them.
func (fv *finalVerifier) nameIgnored(ctx context.Context, j Job, out *Checks) error {
	failed := slices.ContainsFunc(out.Results, func(c CommandResult) bool { return c.Code != 0 && !c.Forgiven }) ||
		slices.ContainsFunc(out.Judged, func(j CriterionResult) bool { return j.Verdict == "unmet" })
	if !failed {
		return nil
	}
	list, err := fv.repo.Index().Ignored(ctx, j.Worktree, Outside(j)...)
	out.Unseen = few(slices.DeleteFunc(list, func(path string) bool { return path == runtimeDir+"/" }))
	return err
}

// freshCheckout is a checkout of the commit alone.
type freshCheckout struct {
	repo     *git.Repo
	commands *commands
	modules  *modules
	setup    *setup
}

// freshSuffix is what the path of a fresh checkout has behind that of the worktree: no branch can be called so.
const freshSuffix = "~final"

// do does something in a fresh checkout of the commit of a worktree, made ready like that one. broken is the
// command of worktree.setup that failed there.
func (fc *freshCheckout) do(ctx context.Context, c flow.Call, j Job, do func(fresh Job, broken *CommandResult) error) (err error) {
	head, err := fc.repo.Refs().Head(ctx, j.Worktree)
	if err != nil {
		return err
	}
	fresh := j
	fresh.Worktree += freshSuffix
	if err := fc.repo.Worktrees().Checkout(ctx, fresh.Worktree, head); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, fc.repo.Worktrees().Remove(context.WithoutCancel(ctx), fresh.Worktree))
	}()
	if err := fc.modules.checkOut(ctx, fresh, head); err != nil {
		return err
	}
	if _, err := fc.setup.copyFiles(ctx, fresh); err != nil {
		return err
	}
	if err := fc.setup.writePointer(fresh); err != nil {
		return err
	}
	for i, line := range fresh.Setup.Run {
		res, err := fc.commands.runIn(ctx, c, sandbox.Need{Kind: sandbox.Setup, Dir: fresh.Worktree, Edit: true, Agents: true}, fmt.Sprintf("setup-%d", i+1), line, fresh.Setup.Timeout)
		if err != nil {
			return err
		}
		if res.Code != 0 {
			return do(fresh, &res)
		}
	}
	return do(fresh, nil)
}
