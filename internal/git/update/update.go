// Package update brings a branch up to a commit: by a merge, or by replaying the branch's own commits there. It merges without a
// checkout, and continues an unfinished update after a crash.
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

// Updater rebases a branch onto its base, or merges a base into it.
type Updater struct{ repo *git.Repo }

// New returns an Updater for the branches of a repository.
func New(repo *git.Repo) Updater {
	return Updater{repo}
}

// Update is an update of a branch that is under way. Until it ends, a ref below refs/trellis/update/ records it, so that it can be
// continued after a crash.
type Update struct {
	Base  string   `json:"base"`            // commit that the branch is brought up to
	Ours  string   `json:"ours"`            // tip of the branch before
	Onto  string   `json:"onto"`            // tip of the branch until the next commit: Ours if Base is merged, else one on Base
	Merge bool     `json:"merge,omitempty"` // the next commit must have Base as its second parent
	Files []string `json:"files,omitempty"` // files that hold both sides between conflict markers
	About string   `json:"about,omitempty"` // data of the caller, stored with the update

	Moving bool `json:"moving,omitempty"` // files or branch may not have been moved yet

	sha, tree string
}

// Tree returns the tree with the files as the update makes them.
func (u *Update) Tree() string { return u.tree }

// Options describe an update.
type Options struct {
	Dir, Branch string // the checkout, which must have nothing uncommitted, and its branch
	Whose       string // names the ref that records the update
	From, Base  string // commit at which the branch began, and the one that it is brought up to
	Called      string // name of Base for people
	Merge       bool   // one commit with both as parents; else the branch's own commits are replayed on Base
	About       string
	// Backup is the ref that keeps the old tip of the branch if Merge is not set; with -files behind it, it keeps files that differ
	// from those that a cut-off call wrote.
	Backup string
}

const updateRefs = "refs/trellis/update/"

// Update brings a branch up to a commit, or continues what an earlier call began. It returns nil if nothing is left to do. Where
// both sides change the same lines, the branch ends at [Update].Onto, and the files hold both sides, not committed. The same holds
// if a merge still has to be committed: the caller does that, see [git.CommitOptions].Merge, and then calls [Updater.EndUpdate].
// Errors that callers distinguish: *ConflictError (nothing was changed), ErrOldGit.
func (r Updater) Update(ctx context.Context, o Options) (*Update, error) {
	u, err := r.Updating(ctx, o.Whose)
	resumed := u != nil
	if err == nil && !resumed {
		u, err = r.begin(ctx, o)
	}
	if err == nil && u.Moving {
		u, err = r.apply(ctx, o, u, resumed)
	}
	if err != nil {
		return nil, fmt.Errorf("bringing %s up to %.12s: %w", o.Branch, o.Base, err)
	}
	return u, nil
}

// Updating returns the update that is under way, nil if there is none.
func (r Updater) Updating(ctx context.Context, whose string) (*Update, error) {
	ref := updateRefs + whose
	sha, err := r.repo.Refs().Resolve(ctx, ref)
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

// Redo makes an update write its files again, into a checkout that was made again.
func (r Updater) Redo(ctx context.Context, whose string, u *Update) error {
	u.Moving = true
	return r.record(ctx, whose, u)
}

// EndUpdate removes the record of an update that is done, or given up.
func (r Updater) EndUpdate(ctx context.Context, whose string) error {
	ref := updateRefs + whose
	if _, err := r.repo.Refs().Resolve(ctx, ref); errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err := r.repo.Refs().PruneRefs(ctx, ref, ""); err != nil {
		return fmt.Errorf("forgetting %s: %w", ref, err)
	}
	return nil
}

// record records the current state of the update in its ref.
func (r Updater) record(ctx context.Context, whose string, u *Update) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	parents := []string{u.Base, u.Ours, u.Onto}
	slices.Sort(parents)
	sha, err := r.repo.CommitTree(ctx, u.tree, string(text), slices.Compact(parents)...)
	if err == nil {
		err = r.repo.Refs().MoveRef(ctx, updateRefs+whose, sha, u.sha)
	}
	if err == nil {
		u.sha = sha
	}
	return err
}

// apply moves the files, then the branch. resumed means that an earlier call may have done part of it.
func (r Updater) apply(ctx context.Context, o Options, u *Update, resumed bool) (*Update, error) {
	tip, err := r.repo.Refs().Branch(ctx, o.Branch)
	if err != nil {
		return nil, err
	}
	if tip != u.Ours && tip != u.Onto {
		return nil, fmt.Errorf("%s was moved to %.12s meanwhile", o.Branch, tip)
	}
	if err := r.repo.Refs().OnBranch(ctx, o.Dir, o.Branch); err != nil {
		return nil, err
	}
	if resumed {
		err = r.resetFiles(ctx, o, u)
	} else {
		err = r.switchFiles(ctx, o, u)
	}
	if err == nil {
		err = r.repo.Refs().MoveRef(ctx, git.BranchPrefix+o.Branch, u.Onto, tip)
	}
	if err != nil {
		return nil, err
	}
	if !u.Merge && len(u.Files) == 0 {
		return nil, r.EndUpdate(ctx, o.Whose)
	}
	u.Moving = false
	return u, r.record(ctx, o.Whose, u)
}

// noSubmodules keeps git from recursing into submodules.
var noSubmodules = []string{"-c", "submodule.recurse=false"}

// switchFiles sets files and index to those of the update, unless that would overwrite something.
func (r Updater) switchFiles(ctx context.Context, o Options, u *Update, also ...string) error {
	args := slices.Concat(noSubmodules, []string{"read-tree", "-m", "-u"}, also, []string{u.Ours, u.tree})
	return r.repo.Do(ctx, git.Command{Dir: o.Dir, Args: args, Write: true, Once: true})
}

// prepareSwitch returns an error if switchFiles would overwrite something.
func (r Updater) prepareSwitch(ctx context.Context, o Options, u *Update) error {
	err := r.repo.Do(ctx, git.Command{Dir: o.Dir, Args: []string{"update-index", "-q", "--refresh"}, Write: true, Accept: []int{1}})
	if err == nil {
		err = r.switchFiles(ctx, o, u, "--dry-run")
	}
	return err
}

// resetFiles sets files and index to those of the update, whatever they are. If files differ from the update, all are backed up first.
func (r Updater) resetFiles(ctx context.Context, o Options, u *Update) error {
	if err := r.repo.Unlock(ctx, o.Dir); err != nil {
		return err
	}
	const differs = 1
	_, code, err := r.repo.Run(ctx, git.Command{Dir: o.Dir, Args: []string{"diff", "--quiet", "--no-ext-diff", "--ignore-submodules=all", u.tree}, Accept: []int{differs}})
	if err == nil && code == differs {
		_, err = snapshot.NewBackups(r.repo).Backup(ctx, o.Dir, o.Backup+"-files", "trellis: files of "+o.Branch+" when its update was cut off, or after that")
	}
	if err == nil {
		err = r.repo.Do(ctx, git.Command{Dir: o.Dir, Args: slices.Concat(noSubmodules, []string{"read-tree", "--reset", "-u", u.tree}), Write: true})
	}
	return err
}

// Joined returns a commit that has two others in its history: the one that has the other, else a merge of both, by the user's
// identity, that is on no branch. Conflicting changes are a *ConflictError. It returns ErrOldGit if git is too old.
func (r Updater) Joined(ctx context.Context, ours, theirs, message string) (string, error) {
	for _, two := range [][2]string{{ours, theirs}, {theirs, ours}} {
		if within, err := r.repo.History().IsAncestor(ctx, two[0], two[1]); err != nil || within {
			return two[1], err
		}
	}
	m, err := r.merge(ctx, ours, theirs)
	if err != nil {
		return "", err
	}
	if m.hasConflicts() {
		return "", m.conflictError("the branch here", "what was pushed")
	}
	signed, err := r.signsCommits(ctx)
	if err != nil {
		return "", err
	}
	args := append(slices.Clone(identityOptions), "commit-tree", m.tree, "-p", ours, "-p", theirs)
	if signed {
		args = append(args, "-S")
	}
	sha, err := r.repo.Line(ctx, git.Command{Dir: r.repo.Main, Args: args, Stdin: strings.NewReader(message + "\n"), Write: true})
	if err != nil {
		return "", fmt.Errorf("merging %.12s and %.12s: %w", ours, theirs, err)
	}
	return sha, nil
}

// merge merges two commits; it writes objects and nothing else.
func (r Updater) merge(ctx context.Context, one, other string) (m mergeResult, err error) {
	out, code, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"merge-tree", "--write-tree", "--messages", "-z", one, other}, Write: true, Accept: []int{1}})
	if err == nil && code == 1 && out == "" {
		err = fmt.Errorf("merging %.12s and %.12s: %w", one, other, git.ErrNotFound)
	}
	if err != nil {
		if v, verr := r.repo.Version(ctx); verr == nil && git.VersionOlder(v, mergesSince) {
			return m, ErrOldGit
		}
		return m, err
	}
	m, err = r.parseMerge(ctx, strings.Split(out, "\x00"), code == 0)
	m.one, m.other = one, other
	return m, err
}
