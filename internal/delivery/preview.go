package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/text"
)

// Preview returns what Deliver would do, without doing it. It asks the remote for its branches, but fetches nothing, and it
// looks for no pull request: only the one recorded in the task is shown.
func (d *Deliverer) Preview(ctx context.Context, w Work) (out Delivered, err error) {
	if first, err := d.branches().unverifiedCommits(ctx, w); err != nil || first != "" {
		return Delivered{Title: w.Title, Into: w.Job.BaseBranch, Delivery: pipeline.Delivery{Notes: []string{first}}}, err
	}
	w = d.Redact.hideInWork(w)
	if out, err = d.branches().assess(ctx, w); err != nil {
		return out, err
	}
	first, err := d.changedModules(ctx, w)
	if err != nil {
		return out, err
	}
	if out.Remote == "" {
		out.Commands = slices.Concat(first.pushCommands(w), out.Commands)
		return out, nil
	}
	out.Commands = first.pushCommands(w)
	if w.Job.Delivery.PR {
		for _, m := range first {
			f, err := d.Forges.ForRemote(ctx, m.Repo, m.remote)
			if err != nil {
				return out, err
			}
			p, err := d.describePart(ctx, f, w, m, &out)
			if err != nil {
				return out, err
			}
			out.Parts = append(out.Parts, p)
		}
	}
	w.parts = out.Parts
	if out.Push, err = d.branches().pushPreview(ctx, w, out.Remote); err != nil {
		return out, err
	}
	out.Commands = append(out.Commands, pushCommand(out.Remote, w.Job.Branch))
	f, err := d.Forges.ForRemote(ctx, d.Repo, out.Remote)
	if err != nil {
		return out, err
	}
	base, err := d.targetBranch(ctx, f, w, &out)
	if err != nil {
		return out, err
	}
	if base == "" && w.PR == "" {
		d.noteMissingBase(f, w, &out)
		return out, nil
	}
	out.Body = d.Redact.hide(body(d.Repo.Main, w))
	if out.PRURL = w.PR; w.PR == "" {
		out.Commands = append(out.Commands, createCommand(f, w, out))
	}
	return out, nil
}

// unverifiedCommits describes the commits on top of the work that are neither verified nor pushed, "" if there are none.
func (b branches) unverifiedCommits(ctx context.Context, w Work) (string, error) {
	tip, err := b.repo.Refs().Branch(ctx, w.Job.Branch)
	if err != nil || tip == "" || tip == w.Report.Commit {
		return "", err
	}
	if within, err := b.repo.History().IsAncestor(ctx, w.Report.Commit, tip); err != nil || !within {
		return "", err // assess reports it
	}
	if there, err := b.remoteHas(ctx, w, tip); err != nil || there {
		return "", err
	}
	who, n, err := b.repo.History().Authors(ctx, w.Report.Commit, tip)
	return "its branch has " + DescribeCommits(n, who) + " that nobody verified: a run checks what is there, then it is delivered", err
}

// pushPreview describes what a push would bring to the remote, given the current tips of its branches.
func (b branches) pushPreview(ctx context.Context, w Work, remote string) (string, error) {
	base := strings.TrimPrefix(w.Job.BaseBranch, remote+"/")
	tips, err := b.repo.Remotes().RemoteBranches(ctx, remote, w.Job.Branch, base)
	if err != nil {
		return "", b.mask.pushFailure(ctx, w, err)
	}
	said, err := b.missingAtRemote(ctx, w, remote, tips[w.Job.Branch])
	if err != nil {
		return "", err
	}
	behind, err := b.describeLag(ctx, w.Report.Commit, tips[base])
	if err == nil && behind != "" {
		said += " (" + behind + " " + remote + "/" + base + ")"
	}
	return said, err
}

// missingAtRemote describes what the remote's branch, which ends in tip, lacks of the work.
func (b branches) missingAtRemote(ctx context.Context, w Work, remote, tip string) (string, error) {
	branch := remote + "/" + w.Job.Branch
	if tip == w.Report.Commit {
		return "nothing: " + branch + " has it", nil
	}
	if tip == "" {
		n, err := b.repo.History().Ahead(ctx, w.Job.BaseCommit, w.Report.Commit)
		return text.Count(n, "commit") + " to " + branch + ", which is new", err
	}
	known, err := b.repo.Modules().Has(ctx, tip)
	if err != nil || !known {
		return fmt.Sprintf("%s is at %.12s, which somebody pushed and which is not known here: it stays, and is merged where that is needed", branch, tip), err
	}
	theirs, err := b.repo.History().Ahead(ctx, w.Report.Commit, tip)
	if err != nil {
		return "", err
	}
	ours, err := b.repo.History().Ahead(ctx, tip, w.Report.Commit)
	if err != nil || theirs == 0 {
		return text.Count(ours, "commit") + " to " + branch, err
	}
	who, n, err := b.repo.History().Authors(ctx, w.Report.Commit, tip)
	if err != nil {
		return "", err
	}
	if ours == 0 {
		return fmt.Sprintf("nothing: %s has it, and %s on top", branch, b.mask.hide(DescribeCommits(n, who))), nil
	}
	own, err := b.repo.Remotes().Pushed(ctx, w.Task, tip)
	if own {
		return fmt.Sprintf("%s to %s, in the place of what was pushed before (%.12s)", text.Count(ours, "commit"), branch, tip), err
	}
	return fmt.Sprintf("%s to %s, and %s there is taken in first, where that works by itself", text.Count(ours, "commit"), branch, b.mask.hide(DescribeCommits(n, who))), err
}

// describeLag describes how far commit is behind tip, the tip of a remote's branch, "" if it contains tip.
func (b branches) describeLag(ctx context.Context, commit, tip string) (string, error) {
	if tip == "" {
		return "", nil
	}
	if known, err := b.repo.Modules().Has(ctx, tip); err != nil || !known {
		return "behind what was not fetched yet of", err
	}
	n, err := b.repo.History().Ahead(ctx, commit, tip)
	if err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("%d behind", n), nil
}
