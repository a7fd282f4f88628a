package update

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
)

// begin computes the update of the branch, and records it before anything is changed.
func (r Updater) begin(ctx context.Context, o Options) (*Update, error) {
	tip, err := r.repo.Refs().Branch(ctx, o.Branch)
	if err != nil {
		return nil, err
	}
	u := &Update{Base: o.Base, Ours: tip, Onto: tip, Merge: o.Merge, About: o.About, Moving: true}
	var m mergeResult
	if !u.Merge {
		m, err = r.replay(ctx, o, u)
	}
	if err == nil && u.Merge { // asked for, or its history can't be replayed
		m, err = r.mergeOwn(ctx, o, tip)
	}
	if err == nil {
		err = m.checkResolvable(cmp.Or(o.Called, "the base"), "the task")
	}
	if err != nil {
		return nil, err
	}
	u.tree = m.tree
	for _, c := range m.clashes {
		u.Files = append(u.Files, c.path)
	}
	if len(m.clashes) > 0 {
		if u.tree, err = r.treeWithMarkers(ctx, m, markerLabels{shortName(o.Called, o.Base), "what both began with", shortName(o.Branch, tip)}); err != nil {
			return nil, err
		}
	}
	if err = r.prepareSwitch(ctx, o, u); err == nil && !u.Merge {
		_, err = snapshot.NewBackups(r.repo).PinBranch(ctx, o.Branch, o.Backup)
	}
	if err == nil {
		err = r.record(ctx, o.Whose, u)
	}
	return u, err
}

// mergeOwn merges the branch's own changes. A base that was rewritten, or that has the commits before the branch as other
// commits (a squash), is treated as if it continued from where the branch began: otherwise both sides would have changed the same.
func (r Updater) mergeOwn(ctx context.Context, o Options, tip string) (m mergeResult, err error) {
	theirs := o.Base
	grew, err := r.repo.History().IsAncestor(ctx, o.From, o.Base)
	if err != nil {
		return m, err
	}
	within, err := r.repo.History().IsAncestor(ctx, o.From, tip)
	if err == nil && within && !grew {
		theirs, err = r.commitWithParent(ctx, o.Base, o.From)
	}
	if err != nil {
		return m, err
	}
	return r.merge(ctx, theirs, tip)
}

// commitWithParent creates a commit that is on no branch: the tree of one commit, with another one as parent.
func (r Updater) commitWithParent(ctx context.Context, commit, parent string) (string, error) {
	tree, err := r.repo.Refs().TreeAt(ctx, commit)
	if err != nil {
		return "", err
	}
	return r.repo.CommitTree(ctx, tree, "trellis: "+commit, parent)
}

func shortName(name, commit string) string { return name + " " + commit[:min(12, len(commit))] }

// replay replays the commits of the branch on the base, one after the other, and drops those that change nothing there. It ends at
// the first one that conflicts: that one and all later ones are merged then, not committed. A history with merges, or one that
// conflicts in single commits but not as a whole, is left to a merge.
func (r Updater) replay(ctx context.Context, o Options, u *Update) (m mergeResult, err error) {
	list, straight, err := r.ownCommits(ctx, o, u.Ours)
	if err != nil || !straight {
		u.Merge = !straight
		return m, err
	}
	at, signed := o.Base, false
	if len(list) > 0 {
		if signed, err = r.signsCommits(ctx); err != nil {
			return m, err
		}
	}
	for _, c := range list {
		if at == c.parent {
			at = c.sha
			continue
		}
		tree, err := r.repo.Refs().TreeAt(ctx, at)
		if err != nil {
			return m, err
		}
		here, err := r.commitWithParent(ctx, at, c.parent) // so that both have the same parent
		if err != nil {
			return m, err
		}
		if m, err = r.merge(ctx, here, c.sha); err == nil && m.hasConflicts() {
			if m, err = r.merge(ctx, here, u.Ours); err == nil && !m.hasConflicts() { // a later commit undid the conflict
				u.Merge = true
				return m, nil
			}
			u.Onto = at
			return m, err
		}
		if err == nil && m.tree != tree {
			at, err = r.recreateCommit(ctx, c.sha, m.tree, at, signed)
		}
		if err != nil {
			return m, err
		}
	}
	u.Onto = at
	m = mergeResult{}
	m.tree, err = r.repo.Refs().TreeAt(ctx, at)
	return m, err
}

type ownCommit struct{ sha, parent string }

// ownCommits returns the commits of the branch alone, oldest first; straight is false if one of them has several parents, or none.
func (r Updater) ownCommits(ctx context.Context, o Options, tip string) (list []ownCommit, straight bool, err error) {
	out, _, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"rev-list", "--reverse", "--topo-order", "--parents", "--end-of-options", tip, "^" + o.From, "^" + o.Base}})
	if err != nil {
		return nil, false, err
	}
	for row := range strings.Lines(out) {
		f := strings.Fields(row)
		if len(f) != 2 {
			return nil, false, nil
		}
		list = append(list, ownCommit{f[0], f[1]})
	}
	return list, true, nil
}

// identityOptions keeps git from making up an identity from user and host name.
var identityOptions = []string{"-c", "user.useConfigOnly=true"}

// signsCommits reports whether the user wants commits signed.
func (r Updater) signsCommits(ctx context.Context) (bool, error) {
	out, _, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"config", "--type=bool", "--get", "commit.gpgSign"}, Accept: []int{1}})
	return strings.TrimSpace(out) == "true", err
}

// recreateCommit creates a commit again, with another tree and parent; author and message stay.
func (r Updater) recreateCommit(ctx context.Context, old, tree, parent string, signed bool) (string, error) {
	raw, _, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"cat-file", "commit", old}})
	if err != nil {
		return "", err
	}
	head, message, _ := strings.Cut(raw, "\n\n")
	args, env := slices.Clone(identityOptions), []string(nil)
	for row := range strings.SplitSeq(head, "\n") {
		switch key, value, _ := strings.Cut(row, " "); key {
		case "author":
			who, when, ok := cutLast(value, "> ")
			name, mail, is := cutLast(who, " <")
			if !ok || !is {
				return "", errors.New("reading the author of " + old)
			}
			env = []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_AUTHOR_DATE=@" + when}
		case "encoding":
			args = append(args, "-c", "i18n.commitEncoding="+value)
		}
	}
	args = append(args, "commit-tree", tree, "-p", parent)
	if signed {
		args = append(args, "-S")
	}
	return r.repo.Line(ctx, git.Command{Dir: r.repo.Main, Args: args, Env: env, Stdin: strings.NewReader(message), Write: true})
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
