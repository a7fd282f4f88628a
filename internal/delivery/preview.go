package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Preview is what Deliver would do, without doing it. The remote is asked where its branches are, and nothing is fetched. No
// pull request is looked for but the one that is known.
func (d *Deliverer) Preview(ctx context.Context, w Work) (out Delivered, err error) {
	w = d.masked(w)
	if out, err = d.look(ctx, w); err != nil {
		return out, err
	}
	first, err := d.modules(ctx, w)
	if err != nil {
		return out, err
	}
	if out.Remote == "" {
		out.Commands = slices.Concat(first.pushes(w), out.Commands)
		return out, nil
	}
	out.Commands = first.pushes(w)
	if d.PR {
		for _, m := range first {
			p, err := d.part(ctx, w, m, &out)
			if err != nil {
				return out, err
			}
			out.Modules = append(out.Modules, p)
		}
	}
	w.parts = out.Modules
	if out.Push, err = d.toPush(ctx, w, out.Remote); err != nil {
		return out, err
	}
	out.Commands = append(out.Commands, push(out.Remote, w.Branch))
	if err := d.into(ctx, w, &out); err != nil || out.Into == "" {
		return out, err
	}
	out.Body = d.redact(d.body(w))
	if out.URL = w.PR; w.PR == "" {
		out.Commands = append(out.Commands, d.create(w, out))
	}
	return out, nil
}

// toPush says what a push would bring to the remote, by where its branches are now.
func (d *Deliverer) toPush(ctx context.Context, w Work, remote string) (string, error) {
	base := strings.TrimPrefix(w.Base, remote+"/")
	tips, err := d.Repo.Remotes().RemoteBranches(ctx, remote, w.Branch, base)
	if err != nil {
		return "", d.pushFailure(ctx, w, err)
	}
	said, err := d.bring(ctx, w, remote, tips[w.Branch])
	if err != nil {
		return "", err
	}
	behind, err := d.behind(ctx, w.Commit, tips[base])
	if err == nil && behind != "" {
		said += " (" + behind + " " + remote + "/" + base + ")"
	}
	return said, err
}

// bring says what a remote's branch that ends in tip lacks of the work.
func (d *Deliverer) bring(ctx context.Context, w Work, remote, tip string) (string, error) {
	there := remote + "/" + w.Branch
	if tip == w.Commit {
		return "nothing: " + there + " has it", nil
	}
	if tip == "" {
		n, err := d.Repo.History().Ahead(ctx, w.BaseCommit, w.Commit)
		return many(n) + " to " + there + ", which is new", err
	}
	known, err := d.Repo.Modules().Has(ctx, tip)
	if err != nil || !known {
		return fmt.Sprintf("%s is at %.12s, which somebody pushed and which is not known here: it stays, and is merged where that is needed", there, tip), err
	}
	theirs, err := d.Repo.History().Ahead(ctx, w.Commit, tip)
	if err != nil {
		return "", err
	}
	ours, err := d.Repo.History().Ahead(ctx, tip, w.Commit)
	if err != nil || theirs == 0 {
		return many(ours) + " to " + there, err
	}
	who, n, err := d.Repo.History().Authors(ctx, w.Commit, tip)
	if err != nil {
		return "", err
	}
	if ours == 0 {
		return fmt.Sprintf("nothing: %s has it, and %s on top", there, d.redact(Commits(n, who))), nil
	}
	own, err := d.Repo.Remotes().Pushed(ctx, w.Task, tip)
	if own {
		return fmt.Sprintf("%s to %s, in the place of what was pushed before (%.12s)", many(ours), there, tip), err
	}
	return fmt.Sprintf("%s to %s, and %s there is taken in first, where that works by itself", many(ours), there, d.redact(Commits(n, who))), err
}

// behind says how far a commit is behind one of a remote, "" when it has that.
func (d *Deliverer) behind(ctx context.Context, commit, tip string) (string, error) {
	if tip == "" {
		return "", nil
	}
	if known, err := d.Repo.Modules().Has(ctx, tip); err != nil || !known {
		return "behind what was not fetched yet of", err
	}
	n, err := d.Repo.History().Ahead(ctx, commit, tip)
	if err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("%d behind", n), nil
}

func many(n int) string {
	if n == 1 {
		return "1 commit"
	}
	return fmt.Sprintf("%d commits", n)
}
