package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// branches reads and pushes branches of a repository and its remotes for a delivery.
type branches struct {
	repo *git.Repo
	mask mask
}

// push makes sure that the remote's branch contains the commit, and returns the commit that people pushed on top of it, "" if none.
func (b branches) push(ctx context.Context, o git.PushOptions, out *Delivered) (pushedOnTop string, err error) {
	_, err = b.repo.Remotes().Push(ctx, o)
	var ahead *git.AheadError
	if !errors.As(err, &ahead) {
		return "", err
	}
	who, n, err := b.repo.History().Authors(ctx, o.Commit, ahead.Tip)
	if err != nil {
		return "", err
	}
	out.Notes = append(out.Notes, fmt.Sprintf("branch %s of %s has %s on top of %.12s, the commit that was verified: Trellis leaves that branch as it is", o.Branch, o.Remote, b.mask.hide(DescribeCommits(n, who)), o.Commit))
	return ahead.Tip, nil
}

// DescribeCommits describes n commits by the authors who.
func DescribeCommits(n int, who []string) string {
	const most = 3
	if len(who) > most {
		who = append(who[:most:most], fmt.Sprintf("%d more", len(who)-most))
	}
	return text.Count(n, "commit") + " of " + strings.Join(who, ", ")
}

// assess finds the remote and makes sure that there is something to deliver.
func (b branches) assess(ctx context.Context, w Work) (out Delivered, err error) {
	out = Delivered{Title: w.Title, Into: w.Job.BaseBranch}
	tip, err := b.repo.Refs().Branch(ctx, w.Job.Branch)
	switch {
	case err != nil:
		return out, err
	case tip == "":
		return out, flow.Fail(string(trellis.PushFailed), "there is no branch %s any more; git branch %s %s brings it back", w.Job.Branch, trellis.ShellWord(w.Job.Branch), w.Report.Commit)
	case tip != w.Report.Commit:
		if there, err := b.remoteHas(ctx, w, tip); err != nil {
			return out, err
		} else if !there {
			return out, flow.Fail(string(trellis.PushFailed), "branch %s is not at %.12s any more, the commit that was verified, but at %.12s, which nobody checked; `%s reset --keep %.12s` takes it back there",
				w.Job.Branch, w.Report.Commit, tip, gitInWorktree(w), w.Report.Commit)
		}
	}
	if base, err := b.repo.Refs().Resolve(ctx, w.Job.BaseBranch); err == nil {
		if within, err := b.repo.History().IsAncestor(ctx, w.Report.Commit, base); err != nil || within {
			return out, errOrEmptyDiff(err, w, w.Job.BaseBranch)
		}
	}
	if out.Remote, err = b.repo.Remotes().Remote(ctx, w.Job.BaseBranch); err != nil || out.Remote != "" {
		return out, err
	}
	out.Body = b.mask.hide(body(b.repo.Main, w))
	out.Notes = []string{"nothing was pushed: no remote is followed by " + w.Job.BaseBranch + ", and there is no origin"}
	out.Commands = []string{"git remote add origin URL", pushCommand("origin", w.Job.Branch), createCommand(&github.Client{}, w, out)}
	return out, nil
}

// remoteHas reports whether the remote has the local commits on top of the verified commit, which end in tip.
func (b branches) remoteHas(ctx context.Context, w Work, tip string) (bool, error) {
	if within, err := b.repo.History().IsAncestor(ctx, w.Report.Commit, tip); err != nil || !within {
		return false, err
	}
	remote, err := b.repo.Remotes().Remote(ctx, w.Job.BaseBranch)
	if err != nil || remote == "" {
		return false, err
	}
	tips, err := b.repo.Remotes().RemoteBranches(ctx, remote, w.Job.Branch)
	if err != nil || tips[w.Job.Branch] == "" {
		return false, nil // a later push reports what is wrong with the remote
	}
	return contains(ctx, b.repo, tips[w.Job.Branch], tip)
}

// gitInWorktree returns the git command for the task's worktree, as it is typed.
func gitInWorktree(w Work) string {
	git := "git -C " + trellis.ShellWord(w.Report.Worktree)
	if !durable.Exists(w.Report.Worktree) {
		git = "git worktree add " + trellis.ShellWord(w.Report.Worktree) + " " + trellis.ShellWord(w.Job.Branch) + " && " + git
	}
	return git
}

func errOrEmptyDiff(err error, w Work, base string) error {
	if err != nil {
		return err
	}
	return flow.Fail(string(trellis.EmptyDiff), "%s has all of branch %s already: there is nothing to deliver", base, w.Job.Branch)
}

// hookDir returns the directory in which the user's hook runs: the worktree as long as it exists, else the main checkout.
func hookDir(ctx context.Context, repo *git.Repo, worktree string) string {
	if worktree != "" {
		if _, err := repo.Refs().Head(ctx, worktree); err == nil {
			return worktree
		}
	}
	return repo.Main
}

func pushCommand(remote, branch string) string {
	return "git push " + trellis.ShellWord(remote) + " " + trellis.ShellWord(branch)
}
