package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

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

// UpdateOptions say which branch is to be brought up to what.
type UpdateOptions struct {
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

// ConflictError says that two commits change the same thing in a way of which no file can show both sides.
type ConflictError struct {
	Files []string
	Said  []string // what git said of each
}

func (e *ConflictError) Error() string { return strings.Join(e.Said, "; ") }

// Update brings a branch up to a commit, or goes on with what an earlier call began. It returns nil when nothing is left to do.
// Where both sides change the same lines, the branch ends where [Update].Onto says, and the files hold both sides, not
// committed. So do they when a merge is to be committed yet: the caller does that, see [CommitOptions].Merge, and then
// calls [Updater.EndUpdate]. Errors that callers tell apart: *ConflictError (nothing was changed), ErrOldGit.
func (r Updater) Update(ctx context.Context, o UpdateOptions) (*Update, error) {
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
	sha, _, err := r.Refs().readRef(r.Common, ref)
	if errors.Is(err, errAskGit) {
		sha, err = r.Refs().RevParse(ctx, r.Main, ref)
	}
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	var out string
	if err == nil {
		out, _, err = r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "commit", sha}})
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
	if _, _, err := r.Refs().readRef(r.Common, ref); errors.Is(err, ErrNotFound) {
		return nil
	}
	if err := r.Refs().PruneRefs(ctx, ref, ""); err != nil {
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
	sha, err := (&Snapshot{r: r.Repo, dir: r.Main}).commit(ctx, u.tree, string(text), slices.Compact(parents)...)
	if err == nil {
		err = r.Refs().MoveRef(ctx, updateRefs+whose, sha, u.sha)
	}
	if err == nil {
		u.sha = sha
	}
	return err
}

// carryOn moves the files, then the branch. late: an earlier call may have come some way.
func (r Updater) carryOn(ctx context.Context, o UpdateOptions, u *Update, late bool) (*Update, error) {
	tip, err := r.Refs().Branch(ctx, o.Branch)
	if err != nil {
		return nil, err
	}
	if tip != u.Ours && tip != u.Onto {
		return nil, fmt.Errorf("%s was moved to %.12s meanwhile", o.Branch, tip)
	}
	if err := r.Committer().onBranch(ctx, o.Dir, o.Branch); err != nil {
		return nil, err
	}
	if late {
		err = r.refill(ctx, o, u)
	} else {
		err = r.fill(ctx, o, u)
	}
	if err == nil {
		err = r.Refs().MoveRef(ctx, BranchPrefix+o.Branch, u.Onto, tip)
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
func (r Updater) fill(ctx context.Context, o UpdateOptions, u *Update, also ...string) error {
	args := slices.Concat(shallow, []string{"read-tree", "-m", "-u"}, also, []string{u.Ours, u.tree})
	_, _, err := r.Run(ctx, Command{Dir: o.Dir, Args: args, Write: true, Once: true})
	return err
}

// fits is nil when files and index can become those of the update.
func (r Updater) fits(ctx context.Context, o UpdateOptions, u *Update) error {
	_, _, err := r.Run(ctx, Command{Dir: o.Dir, Args: []string{"update-index", "-q", "--refresh"}, Write: true, Accept: []int{1}})
	if err == nil {
		err = r.fill(ctx, o, u, "--dry-run")
	}
	return err
}

// refill makes files and index be those of the update, whatever is there. What is neither is saved first.
func (r Updater) refill(ctx context.Context, o UpdateOptions, u *Update) error {
	if err := r.Unlock(ctx, o.Dir); err != nil {
		return err
	}
	const differs = 1
	_, code, err := r.Run(ctx, Command{Dir: o.Dir, Args: []string{"diff", "--quiet", "--no-ext-diff", "--ignore-submodules=all", u.tree}, Accept: []int{differs}})
	if err == nil && code == differs {
		_, err = r.Backups().Backup(ctx, o.Dir, o.Backup+"-files", "trellis: files of "+o.Branch+" when its update was cut off, or after that")
	}
	if err == nil {
		_, _, err = r.Run(ctx, Command{Dir: o.Dir, Args: slices.Concat(shallow, []string{"read-tree", "--reset", "-u", u.tree}), Write: true})
	}
	return err
}
