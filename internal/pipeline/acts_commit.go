package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Trailers of every commit that Trellis makes: whose it is, and which call of which run made it.
const (
	TaskTrailer = trellis.TaskTrailer
	CallTrailer = "Trellis-Call"
)

// commit makes one commit of the work, by the user's git identity. The commit of an earlier round, which
// nobody else has seen, is amended; on what others have seen comes another one. What holds a secret is not committed.
func (a *Acts) commit(ctx context.Context, c flow.Call, in commitIn) (Committed, error) {
	out, err := a.vetted(ctx, c, in)
	if out.SHA != "" && a.Committed != nil {
		a.Committed(out.SHA)
	}
	if err == nil && out.SHA != "" && in.Job.Clash != nil {
		err = a.Repo.EndUpdate(ctx, filepath.Base(a.Dir))
	}
	return out, err
}

// record makes the commit. When this very call was cut off before, the commit that it had made is
// taken, if it holds all there is to commit: the trailer alone can be written by anyone.
func (a *Acts) record(ctx context.Context, c flow.Call, in commitIn, s *search) (Committed, error) {
	told, err := a.verifyObjects(ctx, in.Job.BaseCommit)
	for _, n := range told {
		s.note(n)
	}
	if err != nil {
		return Committed{}, err
	}
	if _, err := a.Repo.Reattach(ctx, in.Job.Worktree, in.Job.Branch, in.Job.anchor(), a.backupRef(c)+"-strayed"); err != nil {
		return Committed{}, err
	}
	if made, err := a.recorded(ctx, c, in); err != nil || made != "" {
		return Committed{SHA: made}, err
	}
	head, err := a.Repo.Head(ctx, in.Job.Worktree)
	if err != nil {
		return Committed{}, err
	}
	hooks, err := a.foreignHooks(ctx, a.theWorktree(), in.Job.BaseCommit)
	if err != nil {
		return Committed{}, err
	}
	if len(hooks) > 0 {
		s.note("hooks were changed while the run went on, and none was run at the commit: " + strings.Join(few(hooks), ", ") + "; look at them before you commit yourself")
	}
	in.Job.Title = s.mask(in.Job.Title)
	o, err := a.commitOptions(ctx, c, in, s, head)
	if err != nil {
		return Committed{}, err
	}
	notes, err := a.recordModules(ctx, c, in, o, s)
	for _, n := range notes {
		s.note(n)
	}
	sha := ""
	if err == nil {
		sha, err = a.Repo.Commit(ctx, in.Job.Worktree, o)
	}
	if err != nil {
		return a.uncommitted(c, head != in.Job.BaseCommit, head, err)
	}
	return Committed{SHA: sha}, nil
}

// callTrailer tells which call made a commit.
func callTrailer(c flow.Call) string { return CallTrailer + ": " + c.Key() }

// recorded is the commit that an earlier entry of this call made, "" when there is none, or more to commit.
func (a *Acts) recorded(ctx context.Context, c flow.Call, in commitIn) (string, error) {
	if c.Attempt <= 1 {
		return "", nil
	}
	left, err := a.leftovers(ctx, in.Job)
	if err != nil {
		return "", err
	}
	made, err := a.Repo.FindTrailer(ctx, in.Job.BaseCommit, in.Job.Branch, callTrailer(c))
	if err != nil || len(left) > 0 {
		return "", err
	}
	return made, nil
}

// commitOptions say what a commit on head holds, and whether it takes the place of that: when that is the task's own, and
// nobody has seen it.
func (a *Acts) commitOptions(ctx context.Context, c flow.Call, in commitIn, s *search, head string) (git.CommitOptions, error) {
	whose := TaskTrailer + ": " + in.Task
	own, err := a.Repo.FindTrailer(ctx, cmp.Or(in.Seen, in.Job.BaseCommit), head, whose)
	o := git.CommitOptions{Message: message(in), Trailers: []string{whose, callTrailer(c)},
		Amend: own == head, Base: in.Job.BaseCommit, Exclude: a.outside(in.Job), Branch: in.Job.Branch, Inspect: s.inspect}
	if in.Job.merging() {
		o.Merge = in.Job.BaseCommit
	}
	return o, err
}

// uncommitted is what it means that no commit was made. With work, head holds it: the agent, or an earlier run, committed
// it all.
func (a *Acts) uncommitted(c flow.Call, work bool, head string, err error) (Committed, error) {
	var hook *git.HookError
	switch {
	case errors.As(err, new(*leakError)):
		return Committed{}, err
	case errors.Is(err, git.ErrNothing) && work:
		return Committed{SHA: head}, nil
	case errors.Is(err, git.ErrNothing):
		return Committed{Nothing: true}, nil
	case errors.As(err, &hook):
		return a.refused(c, hook)
	}
	return Committed{}, flow.Fail(string(trellis.CommitFailed), "%v", err)
}

func (a *Acts) refused(c flow.Call, hook *git.HookError) (Committed, error) {
	dir, err := a.folder(c)
	if err != nil {
		return Committed{}, err
	}
	text, path := a.redact(hook.Output), filepath.Join(dir, "hook.log")
	if err := a.Disk.WriteFile(path, []byte(text), 0o600); err != nil {
		return Committed{}, err
	}
	ref, err := a.ref(path, text)
	return Committed{Hook: tail(text, tailBytes), Output: ref}, err
}

// subjectMax is how long a commit's first line may be, in bytes.
const subjectMax = 100

// message is a conventional commit: type(scope): title, and the task in the body.
func message(in commitIn) string {
	scope := ""
	if in.Job.Scope != "" {
		scope = "(" + in.Job.Scope + ")"
	}
	title := trellis.VisibleLine(in.Job.Title)
	subject := fmt.Sprintf("%s%s: %s", in.Job.CommitType, scope, title)
	switch in.Why {
	case trellis.CIFailed:
		subject = fmt.Sprintf("fix%s: mend what checks found", scope)
	case trellis.ChangesRequested:
		subject = fmt.Sprintf("fix%s: mend what reviewers found", scope)
	}
	if in.Job.merging() {
		subject = fmt.Sprintf("chore%s: merge %s", scope, in.Job.BaseBranch)
	}
	if len(subject) > subjectMax {
		subject = strings.ToValidUTF8(subject[:subjectMax-len("…")], "") + "…"
	}
	return subject + "\n\nTask: " + in.Task
}
