// Package update brings a branch up to a commit: by a merge, or by its own commits made anew there. It merges without a
// checkout, and what it began is gone on with after a crash.
package update

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
)

// Updater brings a branch onto its base, or a base into it.
type Updater struct {
	repo    *git.Repo
	refs    git.Refs
	history git.History
	backups snapshot.Backups
}

// New is an updater of the branches of a repository.
func New(repo *git.Repo) Updater {
	return Updater{repo, repo.Refs(), repo.History(), snapshot.NewBackups(repo)}
}

// Update is a branch on its way to another base. As long as it is under way a ref below refs/trellis/update/ names it, so
// that whoever comes after a crash can go on.
type Update struct {
	Base  string   `json:"base"`            // commit that the branch comes up to
	Ours  string   `json:"ours"`            // commit that it ended in before
	Onto  string   `json:"onto"`            // commit that it ends in until the next one is made: Ours when Base is merged, else one on Base
	Merge bool     `json:"merge,omitempty"` // the next commit must have Base as its second parent
	Files []string `json:"files,omitempty"` // those that hold both sides between marks
	About string   `json:"about,omitempty"` // what the caller wants to know again

	Moving bool `json:"moving,omitempty"` // files or branch have not been moved yet

	sha, tree string
}

// Tree has the files as the update makes them.
func (u *Update) Tree() string { return u.tree }

// Options say which branch is to be brought up to what.
type Options struct {
	Dir, Branch string // the checkout, all of which is committed, and its branch
	Whose       string // names the ref that remembers the update
	From, Base  string // the commit that the branch began at, and the one it comes up to
	Called      string // what people call that one
	Merge       bool   // one commit with both as parents; else the branch's own commits are made anew on Base
	About       string
	// Backup is the ref under which is kept what is replaced: the old end of the branch, and files that are not as a
	// call left them which was cut off.
	Backup string
}

const updateRefs = "refs/trellis/update/"

// Update brings a branch up to a commit, or goes on with what an earlier call began. It returns nil when nothing is left to do.
// Where both sides change the same lines, the branch ends where [Update].Onto says, and the files hold both sides, not
// committed. So do they when a merge is to be committed yet: the caller does that, see [git.CommitOptions].Merge, and then
// calls [Updater.EndUpdate]. Errors that callers tell apart: *ConflictError (nothing was changed), ErrOldGit.
func (r Updater) Update(ctx context.Context, o Options) (*Update, error) {
	u, err := r.Updating(ctx, o.Whose)
	again := u != nil
	if err == nil && !again {
		u, err = r.begin(ctx, o)
	}
	if err == nil && u.Moving {
		u, err = r.carryOn(ctx, o, u, again)
	}
	if err != nil {
		return nil, fmt.Errorf("bringing %s up to %.12s: %w", o.Branch, o.Base, err)
	}
	return u, nil
}

// Updating is the update that is under way, nil when none is.
func (r Updater) Updating(ctx context.Context, whose string) (*Update, error) {
	ref := updateRefs + whose
	sha, err := r.refs.Resolve(ctx, ref)
	if errors.Is(err, git.ErrNotFound) {
		return nil, nil
	}
	var out string
	if err == nil {
		out, _, err = r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"cat-file", "commit", sha}})
	}
	u := &Update{sha: sha}
	if err == nil {
		head, text, _ := strings.Cut(out, "\n\n")
		tree, _, _ := strings.Cut(strings.TrimPrefix(head, "tree "), "\n")
		u.tree = tree
		err = json.Unmarshal([]byte(text), u)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return u, nil
}

// Redo makes an update put its files into the checkout again, which was made anew.
func (r Updater) Redo(ctx context.Context, whose string, u *Update) error {
	u.Moving = true
	return r.note(ctx, whose, u)
}

// EndUpdate forgets the update: it is done, or given up.
func (r Updater) EndUpdate(ctx context.Context, whose string) error {
	ref := updateRefs + whose
	if _, err := r.refs.Resolve(ctx, ref); errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err := r.refs.PruneRefs(ctx, ref, ""); err != nil {
		return fmt.Errorf("forgetting %s: %w", ref, err)
	}
	return nil
}

// note makes the ref name the update as it stands.
func (r Updater) note(ctx context.Context, whose string, u *Update) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	parents := []string{u.Base, u.Ours, u.Onto}
	slices.Sort(parents)
	sha, err := r.repo.CommitTree(ctx, u.tree, string(text), slices.Compact(parents)...)
	if err == nil {
		err = r.refs.MoveRef(ctx, updateRefs+whose, sha, u.sha)
	}
	if err == nil {
		u.sha = sha
	}
	return err
}

// carryOn moves the files, then the branch. late: an earlier call may have come some way.
func (r Updater) carryOn(ctx context.Context, o Options, u *Update, late bool) (*Update, error) {
	tip, err := r.refs.Branch(ctx, o.Branch)
	if err != nil {
		return nil, err
	}
	if tip != u.Ours && tip != u.Onto {
		return nil, fmt.Errorf("%s was moved to %.12s meanwhile", o.Branch, tip)
	}
	if err := r.refs.OnBranch(ctx, o.Dir, o.Branch); err != nil {
		return nil, err
	}
	if late {
		err = r.refill(ctx, o, u)
	} else {
		err = r.fill(ctx, o, u)
	}
	if err == nil {
		err = r.refs.MoveRef(ctx, git.BranchPrefix+o.Branch, u.Onto, tip)
	}
	if err != nil {
		return nil, err
	}
	if !u.Merge && len(u.Files) == 0 {
		return nil, r.EndUpdate(ctx, o.Whose)
	}
	u.Moving = false
	return u, r.note(ctx, o.Whose, u)
}

// shallow keeps git from going into submodules.
var shallow = []string{"-c", "submodule.recurse=false"}

// fill makes files and index be those of the update, unless that would write over something.
func (r Updater) fill(ctx context.Context, o Options, u *Update, also ...string) error {
	args := slices.Concat(shallow, []string{"read-tree", "-m", "-u"}, also, []string{u.Ours, u.tree})
	return r.repo.Do(ctx, git.Command{Dir: o.Dir, Args: args, Write: true, Once: true})
}

// fits is nil when files and index can become those of the update.
func (r Updater) fits(ctx context.Context, o Options, u *Update) error {
	err := r.repo.Do(ctx, git.Command{Dir: o.Dir, Args: []string{"update-index", "-q", "--refresh"}, Write: true, Accept: []int{1}})
	if err == nil {
		err = r.fill(ctx, o, u, "--dry-run")
	}
	return err
}

// refill makes files and index be those of the update, whatever is there. What is neither is saved first.
func (r Updater) refill(ctx context.Context, o Options, u *Update) error {
	if err := r.repo.Unlock(ctx, o.Dir); err != nil {
		return err
	}
	const differs = 1
	_, code, err := r.repo.Run(ctx, git.Command{Dir: o.Dir, Args: []string{"diff", "--quiet", "--no-ext-diff", "--ignore-submodules=all", u.tree}, Accept: []int{differs}})
	if err == nil && code == differs {
		_, err = r.backups.Backup(ctx, o.Dir, o.Backup+"-files", "trellis: files of "+o.Branch+" when its update was cut off, or after that")
	}
	if err == nil {
		err = r.repo.Do(ctx, git.Command{Dir: o.Dir, Args: slices.Concat(shallow, []string{"read-tree", "--reset", "-u", u.tree}), Write: true})
	}
	return err
}

// Joined is a commit that has two others in its history: that of them which has the other one, else a merge of both, by the
// user's identity, which no branch has. What both change in different ways is a *ConflictError. ErrOldGit when git can't tell.
func (r Updater) Joined(ctx context.Context, ours, theirs, message string) (string, error) {
	for _, two := range [][2]string{{ours, theirs}, {theirs, ours}} {
		if within, err := r.history.IsAncestor(ctx, two[0], two[1]); err != nil || within {
			return two[1], err
		}
	}
	m, err := r.merging(ctx, ours, theirs)
	if err != nil {
		return "", err
	}
	if m.conflicts() {
		return "", m.conflict("the branch here", "what was pushed")
	}
	signed, err := r.signs(ctx)
	if err != nil {
		return "", err
	}
	args := append(slices.Clone(named), "commit-tree", m.tree, "-p", ours, "-p", theirs)
	if signed {
		args = append(args, "-S")
	}
	sha, err := r.repo.Line(ctx, git.Command{Dir: r.repo.Main, Args: args, Stdin: strings.NewReader(message + "\n"), Write: true})
	if err != nil {
		return "", fmt.Errorf("merging %.12s and %.12s: %w", ours, theirs, err)
	}
	return sha, nil
}

// merging merges two commits and touches nothing but the objects.
func (r Updater) merging(ctx context.Context, one, other string) (m merging, err error) {
	out, code, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"merge-tree", "--write-tree", "--messages", "-z", one, other}, Write: true, Accept: []int{1}})
	if err == nil && code == 1 && out == "" {
		err = fmt.Errorf("merging %.12s and %.12s: %w", one, other, git.ErrNotFound)
	}
	if err != nil {
		if v, verr := r.repo.Version(ctx); verr == nil && git.Older(v, mergesSince) {
			return m, ErrOldGit
		}
		return m, err
	}
	m, err = r.parseMerging(ctx, strings.Split(out, "\x00"), code == 0)
	m.one, m.other = one, other
	return m, err
}
