package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Trailers of every commit that Trellis makes: whose it is, and which call of which run made it.
const (
	TaskTrailer = "Trellis-Task"
	CallTrailer = "Trellis-Call"
)

// commit makes one commit of the work, by the user's git identity. The commit of an earlier round, which
// nobody else has seen, is amended. What holds a secret is not committed.
func (a *Acts) commit(ctx context.Context, c flow.Call, in commitIn) (Committed, error) {
	return a.vetted(ctx, c, in)
}

// record makes the commit. When this very call was cut off before, the commit that it had made is
// taken, if it holds all there is to commit: the trailer alone can be written by anyone.
func (a *Acts) record(ctx context.Context, c flow.Call, in commitIn, s *search) (Committed, error) {
	if _, err := a.Repo.Reattach(ctx, in.Job.Worktree, in.Job.Branch, in.Job.BaseCommit); err != nil {
		return Committed{}, err
	}
	which := CallTrailer + ": " + c.Key()
	if c.Attempt > 1 {
		left, err := a.leftovers(ctx, in.Job)
		if err != nil {
			return Committed{}, err
		}
		made, err := a.Repo.FindTrailer(ctx, in.Job.BaseCommit, in.Job.Branch, which)
		if err != nil || made != "" && len(left) == 0 {
			return Committed{SHA: made}, err
		}
	}
	head, err := a.Repo.Head(ctx, in.Job.Worktree)
	if err != nil {
		return Committed{}, err
	}
	in.Job.Title = s.mask(in.Job.Title)
	whose := TaskTrailer + ": " + in.Task
	own, err := a.Repo.FindTrailer(ctx, in.Job.BaseCommit, head, whose)
	if err != nil {
		return Committed{}, err
	}
	o := git.CommitOptions{Message: message(in), Trailers: []string{whose, which},
		Amend: own == head, Base: in.Job.BaseCommit, Exclude: a.outside(in.Job), Branch: in.Job.Branch, Inspect: s.inspect}
	notes, err := a.recordModules(ctx, c, in, o, s)
	for _, n := range notes {
		s.note(n)
	}
	sha := ""
	if err == nil {
		sha, err = a.Repo.Commit(ctx, in.Job.Worktree, o)
	}
	var hook *git.HookError
	switch {
	case errors.As(err, new(*leakError)):
		return Committed{}, err
	case errors.Is(err, git.ErrNothing) && head != in.Job.BaseCommit: // the agent, or an earlier run, committed it all
		return Committed{SHA: head}, nil
	case errors.Is(err, git.ErrNothing):
		return Committed{Nothing: true}, nil
	case errors.As(err, &hook):
		return a.refused(c, hook)
	case err != nil:
		return Committed{}, flow.Fail(string(trellis.CommitFailed), "%v", err)
	}
	return Committed{SHA: sha}, nil
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
	title := strings.Join(strings.Fields(in.Job.Title), " ")
	subject := fmt.Sprintf("%s%s: %s", in.Job.CommitType, scope, title)
	if len(subject) > subjectMax {
		subject = strings.ToValidUTF8(subject[:subjectMax-len("…")], "") + "…"
	}
	return subject + "\n\nTask: " + in.Task
}
