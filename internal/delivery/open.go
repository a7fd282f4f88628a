package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// findOrCreate returns the open pull request of a branch, or a merged or closed one of one of commits, or the one at mended if
// it was closed: who closed it gets no other one. Otherwise it creates one, or returns nil if n has no base.
func findOrCreate(ctx context.Context, f Forge, n forge.NewPR, commits []string, mended string, out *Delivered) (*forge.PR, error) {
	found, err := f.Find(ctx, n.Head)
	switch {
	case err != nil:
		return nil, err
	case found != nil && (found.State == forge.Open || slices.Contains(commits, found.HeadSHA) || found.State == forge.Closed && found.URL == mended):
		return found, nil
	case n.Base == "":
		return nil, nil
	case found != nil:
		out.Notes = append(out.Notes, fmt.Sprintf("pull request %d of this branch was %s; this is a new one", found.Number, strings.ToLower(found.State)))
	}
	return f.Create(ctx, n)
}

// open finds or creates the pull request of the work.
func (d *Deliverer) open(ctx context.Context, f Forge, w Work, out Delivered) (Delivered, error) {
	base, err := d.targetBranch(ctx, f, w, &out)
	if err != nil {
		return out, d.Redact.prFailure(ctx, err)
	}
	out.Body = d.Redact.hide(body(d.Repo.Main, w))
	mended := ""
	if w.Mends {
		mended = w.PR
	}
	pr, err := findOrCreate(ctx, f, forge.NewPR{Title: out.Title, Body: out.Body, Base: base, Head: w.Job.Branch, Draft: w.Job.Delivery.Draft}, []string{w.Report.Commit, w.pushedOnTop}, mended, &out)
	if err != nil {
		return d.finishWithoutPR(ctx, f, w, out, err)
	}
	if pr == nil {
		d.noteMissingBase(f, w, &out)
		return out, nil
	}
	out.PRURL, out.Number = pr.URL, pr.Number
	if pr.State != forge.Open {
		out.Notes = append(out.Notes, fmt.Sprintf("pull request %d was %s: no other one is opened", pr.Number, strings.ToLower(pr.State)))
		if pr.State == forge.Closed {
			out.Commands = append(out.Commands, f.ReopenCommand(pr.Number))
		}
		return out, nil
	}
	out.Body = d.Redact.updateBody(ctx, f, pr, fmt.Sprintf("pull request %d", pr.Number), func(room int) string { return section(w, room) }, &out)
	return out, d.Redact.prFailure(ctx, d.addLabelsAndReviewers(ctx, f, w.Job.Delivery, &out))
}

// noteMissingBase notes why there is no pull request, namely that the remote lacks the branch it would be for, and what to type.
func (d *Deliverer) noteMissingBase(f userCommands, w Work, out *Delivered) {
	out.Notes = append(out.Notes, fmt.Sprintf("no pull request was opened: %s has no branch %s", out.Remote, out.Into))
	out.Commands = append(out.Commands, pushCommand(out.Remote, out.Into), createCommand(f, w, *out))
	out.Into = ""
}

// targetBranch returns the branch that the pull request is for: the one that the work is stacked on if the remote has that, else
// its base, "" if the remote has neither.
func (d *Deliverer) targetBranch(ctx context.Context, f Forge, w Work, out *Delivered) (string, error) {
	base := strings.TrimPrefix(w.Job.BaseBranch, out.Remote+"/")
	names := []string{base}
	if w.StackedBranch != "" {
		names = append(names, w.StackedBranch)
	}
	tips, err := d.Repo.Remotes().RemoteBranches(ctx, out.Remote, names...)
	if err != nil {
		return "", err
	}
	if out.Into = base; w.StackedBranch != "" && tips[w.StackedBranch] != "" {
		out.Into = w.StackedBranch
	} else if w.StackedBranch != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("branch %s, on which this is based, is not at %s: the pull request is for %s and shows the work of both", w.StackedBranch, out.Remote, base))
	}
	tip := tips[out.Into]
	if tip == "" {
		return "", nil
	}
	if within, err := contains(ctx, d.Repo, tip, w.Report.Commit); err != nil || within {
		return "", errOrEmptyDiff(err, w, out.Remote+"/"+out.Into)
	}
	return out.Into, nil
}

// contains reports whether the tip of a remote's branch contains commit. It returns false if tip is not known locally, because
// others pushed it.
func contains(ctx context.Context, repo *git.Repo, tip, commit string) (bool, error) {
	if _, err := repo.Refs().Resolve(ctx, tip); errors.Is(err, git.ErrNotFound) {
		return false, nil
	}
	return repo.History().IsAncestor(ctx, commit, tip)
}

// updateBody updates our part of an open pull request's text, and returns the text. It leaves the text unchanged if our markers
// are gone, since the rest is what people wrote.
func (m mask) updateBody(ctx context.Context, f Forge, pr *forge.PR, name string, section func(room int) string, out *Delivered) string {
	body, ok := m.replaceSection(pr.Body, section)
	switch {
	case !ok:
		out.Notes = append(out.Notes, fmt.Sprintf("the text of %s was left as it is: the marks around the part of Trellis are gone", name))
	case body != pr.Body:
		if err := f.EditBody(ctx, pr.URL, body); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("the text of %s is not up to date: %s", name, m.message(err)))
		}
	}
	return body
}

// addLabelsAndReviewers adds labels and reviewers to the pull request, each only once, since a person may remove one again. A
// refusal only becomes a note, since the pull request exists.
func (d *Deliverer) addLabelsAndReviewers(ctx context.Context, f Forge, want pipeline.DeliverySettings, out *Delivered) error {
	known, err := ReadRecord(d.Dir)
	if err != nil {
		return err
	}
	addOnce := func(what string, do func() error, refused string) error {
		if known.wasGiven(out.PRURL, what) || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := do(); err != nil {
			out.Notes = append(out.Notes, refused+": "+d.Redact.message(err))
			return nil
		}
		return d.updateRecord(func(r *Record) { r.Given[out.PRURL] = append(r.Given[out.PRURL], what) })
	}
	for _, l := range want.Labels {
		label := func() error { return f.Label(ctx, out.PRURL, l) }
		if err := addOnce("label "+l, label, fmt.Sprintf("pull request %d has no label %s", out.Number, l)); err != nil {
			return err
		}
	}
	for _, who := range want.Reviewers {
		ask := func() error { return f.AskReview(ctx, out.PRURL, who) }
		if err := addOnce("reviewer "+who, ask, fmt.Sprintf("%s was not asked to review pull request %d", who, out.Number)); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// pullRequestsUnavailable reports whether the repository can't have pull requests or there is no way to ask for them; no failure.
func pullRequestsUnavailable(err error) bool {
	return errors.Is(err, forge.ErrNoProgramOrToken) || errors.Is(err, forge.ErrNotSignedIn) || errors.Is(err, forge.ErrUnsupportedRepository)
}

// finishWithoutPR finishes without a pull request: with a failure or, if there is no way to ask for one, with the commands to type.
func (d *Deliverer) finishWithoutPR(ctx context.Context, f Forge, w Work, out Delivered, err error) (Delivered, error) {
	if !pullRequestsUnavailable(err) {
		return out, d.Redact.prFailure(ctx, err)
	}
	next, what := createCommand(f, w, out), "no pull request was opened: "
	if w.PR != "" {
		out.PRURL, next, what = w.PR, "trellis deliver "+trellis.ShellWord(w.Task), "the pull request was not brought up to date: "
	}
	out.Commands = append(append([]string{f.SignInCommand()}, out.Commands...), next)
	out.Notes = append(out.Notes, what+d.Redact.message(err))
	return out, nil
}

// createCommand returns the command that opens the pull request.
func createCommand(f userCommands, w Work, out Delivered) string {
	return f.CreateCommand(forge.NewPR{Title: out.Title, Base: out.Into, Head: w.Job.Branch, Draft: w.Job.Delivery.Draft}, w.Path+"/report.md")
}
