package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	gitupdate "github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const commit flow.Act[commitIn, Committed] = "commit"

type commitIn struct {
	Job  Job    `json:"job"`
	Task string `json:"task"`
	// Seen is the commit that others have seen and that is not amended, and Why is what they found wrong with it.
	Seen string       `json:"seen,omitempty"`
	Why  trellis.Code `json:"why,omitempty"`
}

// Committed is the result of commit.
type Committed struct {
	SHA     string        `json:"sha,omitempty"`
	Nothing bool          `json:"nothing,omitempty"` // there was no change to commit
	Hook    string        `json:"hook,omitempty"`    // end of the output of a hook that refused the commit
	Output  agentcall.Ref `json:"output,omitzero"`
	// Leaks are the places of secrets (file, line and rule) because of which nothing was committed.
	Leaks []string `json:"leaks,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

func (r *run) commit(f flow.Flow) (*trouble, error) {
	if err := r.enter(f, "commit"); err != nil {
		return nil, err
	}
	in := commitIn{Job: r.job, Task: r.in.Task, Seen: r.in.seenCommit()}
	switch {
	case r.in.React != nil:
		in.Why = r.in.React.Code
	case r.in.Feedback != nil && in.Seen != "":
		in.Why = trellis.ChangesRequested
	}
	made, err := commit.Do(f, in)
	if err != nil {
		return nil, err
	}
	r.rep.note(made.Notes)
	if found := made.trouble(r.rep.Checks.Tree); found != nil {
		return found, nil
	}
	if made.Nothing {
		return nil, flow.Fail(string(trellis.EmptyDiff), "there is nothing to commit: all that was changed is left out of commits")
	}
	r.rep.Commit = made.SHA
	r.job.Clash = nil
	return nil, nil
}

// trouble returns the trouble that kept the work of a tree from being committed, nil if nothing did.
func (made Committed) trouble(tree string) *trouble {
	switch {
	case len(made.Leaks) > 0:
		return leakTrouble(made.Leaks, tree)
	case made.Hook != "":
		return &trouble{Code: trellis.CommitFailed, Detail: "a git hook refused the commit: " + made.Hook, Output: made.Output, Tree: tree}
	}
	return nil
}

func leakTrouble(places []string, tree string) *trouble {
	return &trouble{Code: trellis.SecretFound, Detail: "there are secrets in what was changed, which belong into configuration that is not committed: " + joinFirst(places), Tree: tree}
}

// committer is the effect of commit.
type committer struct {
	place
	onCommit func(commit string)
	guard    *worktreeGuard
	leaks    *leaks
	modules  *modules
	restorer *restorer
}

// Trailers of every commit that Trellis makes: the task it belongs to, and the call of a run that made it.
const (
	TaskTrailer = trellis.TaskTrailer
	CallTrailer = "Trellis-Call"
)

// commit makes one commit of the work, with the user's git identity. The commit of an earlier round is amended if nobody else has
// seen it; otherwise another commit follows it. Work that holds a secret is not committed.
func (cm *committer) commit(ctx context.Context, c flow.Call, in commitIn) (Committed, error) {
	out, err := cm.commitVetted(ctx, c, in)
	if out.SHA != "" && cm.onCommit != nil {
		cm.onCommit(out.SHA)
	}
	if err == nil && out.SHA != "" && in.Job.Clash != nil {
		err = gitupdate.New(cm.repo).EndUpdate(ctx, filepath.Base(cm.task.dir))
	}
	return out, err
}

// commitVetted makes the commit, and checks all commits of the branch for secrets, whoever made them. If one holds a secret they
// are all taken back: their changes are then uncommitted, and go into one commit, unless that would hold the secret as well.
func (cm *committer) commitVetted(ctx context.Context, c flow.Call, in commitIn) (out Committed, err error) {
	s, err := cm.leaks.search(ctx, in.Job)
	if err != nil {
		return out, err
	}
	defer func() { out.Notes = append(out.Notes, s.notes...) }()
	const most = 2
	for try := 1; ; try++ {
		out, err = cm.commitOnce(ctx, c, in, s)
		leak := (*leakError)(nil)
		if err != nil && !errors.As(err, &leak) || err == nil && out.SHA == "" {
			return out, err
		}
		places, err := cm.leaks.retract(ctx, c, s, try)
		switch {
		case err != nil:
			return Committed{}, err
		case leak != nil:
			return Committed{Leaks: leak.places}, nil
		case len(places) == 0:
			return out, nil
		}
		if now, err := s.addedSecrets(ctx, in.Job.BaseCommit, ""); err != nil || len(now) > 0 || try == most {
			return Committed{Leaks: append(now, places...)}, err
		}
	}
}

// commitOnce makes the commit. If this very call was interrupted before, the commit that it had made is returned, provided that
// nothing else is to be committed: the trailer alone can be written by anyone.
func (cm *committer) commitOnce(ctx context.Context, c flow.Call, in commitIn, s *search) (Committed, error) {
	objectNotes, err := cm.guard.verifyObjects(ctx, in.Job.BaseCommit)
	s.note(objectNotes...)
	if err != nil {
		return Committed{}, err
	}
	if _, err := snapshot.NewBackups(cm.repo).Reattach(ctx, in.Job.Worktree, in.Job.Branch, in.Job.requiredCommit(), cm.task.backupRef(c)+"-strayed"); err != nil {
		return Committed{}, err
	}
	if made, err := cm.earlierCommit(ctx, c, in); err != nil || made != "" {
		return Committed{SHA: made}, err
	}
	head, err := cm.repo.Refs().Head(ctx, in.Job.Worktree)
	if err != nil {
		return Committed{}, err
	}
	hooks, err := cm.guard.changedHooks(ctx, cm.guard.worktree(), in.Job.BaseCommit)
	if err != nil {
		return Committed{}, err
	}
	if len(hooks) > 0 {
		s.note("hooks were changed during the run, and none was run at the commit: " + strings.Join(shortList(hooks), ", ") + "; review them before you commit yourself")
	}
	in.Job.Title = s.mask(in.Job.Title)
	o, err := cm.commitOptions(ctx, c, in, s, head)
	if err != nil {
		return Committed{}, err
	}
	notes, err := cm.commitModules(ctx, c, in, o, s)
	s.note(notes...)
	sha := ""
	if err == nil {
		sha, err = cm.repo.Committer().Commit(ctx, in.Job.Worktree, o)
	}
	if err != nil {
		return cm.errorResult(c, head != in.Job.BaseCommit, head, err)
	}
	return Committed{SHA: sha}, nil
}

func callTrailer(c flow.Call) string { return CallTrailer + ": " + c.Key() }

// earlierCommit returns the commit that an earlier attempt of this call made, "" if there is none, or more to commit.
func (cm *committer) earlierCommit(ctx context.Context, c flow.Call, in commitIn) (string, error) {
	if c.Attempt <= 1 {
		return "", nil
	}
	left, err := cm.restorer.uncommitted(ctx, in.Job)
	if err != nil {
		return "", err
	}
	made, err := cm.repo.History().FindTrailer(ctx, in.Job.BaseCommit, git.BranchPrefix+in.Job.Branch, callTrailer(c))
	if err != nil || len(left) > 0 {
		return "", err
	}
	return made, nil
}

// commitOptions returns the options of a commit on head. The commit replaces head if head is the task's own and nobody has seen
// it.
func (cm *committer) commitOptions(ctx context.Context, c flow.Call, in commitIn, s *search, head string) (git.CommitOptions, error) {
	whose := TaskTrailer + ": " + in.Task
	own, err := cm.repo.History().FindTrailer(ctx, cmp.Or(in.Seen, in.Job.BaseCommit), head, whose)
	o := git.CommitOptions{Message: message(in), Trailers: []string{whose, callTrailer(c)},
		Amend: own == head, Exclude: NeverCommitted(in.Job), Branch: in.Job.Branch, Inspect: s.inspect}
	if err == nil && in.Job.merging() {
		o.Merge = in.Job.BaseCommit
		o.Merged, err = cm.mergedTree(ctx, in.Job)
	}
	return o, err
}

// mergedTree returns a tree or commit that has the paths that are never committed as a merge commit should have them: as git
// merged them, or as in the base if that is not known any more or git could not merge them.
func (cm *committer) mergedTree(ctx context.Context, j Job) (string, error) {
	u, err := gitupdate.New(cm.repo).Updating(ctx, filepath.Base(cm.task.dir))
	if err != nil || u == nil || slices.ContainsFunc(u.Files, isOwn) {
		return j.BaseCommit, err
	}
	return u.Tree(), nil
}

// errorResult turns the error of a commit into a result. With work, head holds all of it: the agent, or an earlier run, committed
// it.
func (cm *committer) errorResult(c flow.Call, work bool, head string, err error) (Committed, error) {
	var hook *git.HookError
	switch {
	case errors.As(err, new(*leakError)):
		return Committed{}, err
	case errors.Is(err, git.ErrNothing) && work:
		return Committed{SHA: head}, nil
	case errors.Is(err, git.ErrNothing):
		return Committed{Nothing: true}, nil
	case errors.As(err, &hook):
		return cm.hookResult(c, hook)
	}
	return Committed{}, flow.Fail(string(trellis.CommitFailed), "%v", err)
}

func (cm *committer) hookResult(c flow.Call, hook *git.HookError) (Committed, error) {
	dir, err := cm.task.folder(c)
	if err != nil {
		return Committed{}, err
	}
	text, path := cm.task.redact(hook.Output), filepath.Join(dir, "hook.log")
	if err := cm.task.disk.WriteFile(path, []byte(text), 0o600); err != nil {
		return Committed{}, err
	}
	ref, err := cm.task.outputRef(path, text)
	return Committed{Hook: tail(text, tailBytes), Output: ref}, err
}

// subjectMax is the maximum length of a commit's first line, in bytes.
const subjectMax = 100

// message returns a conventional commit message: type(scope): title, and the task in the body.
func message(in commitIn) string {
	scope := ""
	if in.Job.Scope != "" {
		scope = "(" + in.Job.Scope + ")"
	}
	title := trellis.VisibleLine(in.Job.Title)
	subject := fmt.Sprintf("%s%s: %s", in.Job.CommitType, scope, title)
	switch in.Why {
	case trellis.CIFailed:
		subject = fmt.Sprintf("fix%s: address failed checks", scope)
	case trellis.ChangesRequested:
		subject = fmt.Sprintf("fix%s: address review comments", scope)
	}
	if in.Job.merging() {
		subject = fmt.Sprintf("chore%s: merge %s", scope, in.Job.BaseBranch)
	}
	if len(subject) > subjectMax {
		subject = strings.ToValidUTF8(subject[:subjectMax-len("…")], "") + "…"
	}
	return subject + "\n\nTask: " + in.Task
}
