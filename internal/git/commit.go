package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CommitOptions say what a commit holds.
type CommitOptions struct {
	Message  string
	Trailers []string // "Key: value", below the message
	Exclude  []string // paths that are never committed, folders with all in them
	Branch   string   // must be checked out, unless ""
	Amend    bool     // in the place of HEAD, unless that is a merge
	Merge    string   // commit that becomes its second parent, unless it is in the history already; Amend does not count then
	// Adopt is a trailer, one of Trailers: a commit above Base that carries it is the one that is asked
	// for, made by a call that was cut off before it could tell.
	Adopt, Base string
	// Inspect is asked once all is staged, and nothing is committed when it fails. Hooks come after it.
	Inspect func(ctx context.Context) error
}

// HookError says that a hook of the user refused.
type HookError struct {
	Hook   string // its name, or the names of those that it can have been
	Output string // what it said, whole
}

func (e *HookError) Error() string {
	return fmt.Sprintf("the %s hook failed: %s", e.Hook, strings.TrimSpace(e.Output))
}

// NestedError says that there are repositories within the work tree, whose content can't be committed to,
// or saved in, this one.
type NestedError struct{ Paths []string }

func (e *NestedError) Error() string {
	return "there is a repository within the work tree: " + strings.Join(e.Paths, ", ") +
		"; remove its .git if its files are part of the work (`rm -rf " + e.Paths[0] + "/.git`), remove or ignore it if not, and commit in it if it is a submodule"
}

// Commit commits all changes in the work tree of dir, untracked files too, and returns the commit. The user's
// identity is used, and the user's hooks run. Errors that callers tell apart: ErrNothing, *HookError,
// *IdentityError, *NestedError.
func (r Committer) Commit(ctx context.Context, dir string, o CommitOptions) (string, error) {
	sha, err := r.commit(ctx, dir, o)
	if err != nil {
		return "", fmt.Errorf("committing in %s: %w", dir, err)
	}
	return sha, nil
}

func (r Committer) commit(ctx context.Context, dir string, o CommitOptions) (string, error) {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return "", err
	}
	if err := r.onBranch(ctx, dir, o.Branch); err != nil {
		return "", err
	}
	head, err := r.Refs().Head(ctx, dir)
	if err != nil {
		return "", err
	}
	if o.Adopt != "" {
		if found, err := r.History().FindTrailer(ctx, o.Base, head, o.Adopt); err != nil || found != "" {
			return found, err
		}
	}
	if o, err = r.parents(ctx, dir, gitDir, head, o); err != nil {
		return "", err
	}
	err = RetryLocked(ctx, r.ownLocks(gitDir, o.Branch), func() error {
		return Retry(ctx, func() error {
			if err := r.commitOnce(ctx, dir, gitDir, o); err != nil && !r.moved(ctx, dir, head) {
				return err
			}
			return nil
		})
	})
	if err != nil {
		return "", err
	}
	return r.Refs().Head(ctx, dir)
}

// parents settles what a commit on head merges, and whether it takes the place of that.
func (r Committer) parents(ctx context.Context, dir, gitDir, head string, o CommitOptions) (CommitOptions, error) {
	var err error
	if o.Merge, err = r.toMerge(ctx, gitDir, o.Merge, head); err != nil {
		return o, err
	}
	if o.Amend = o.Amend && o.Merge == ""; o.Amend {
		o.Amend, err = r.History().single(ctx, dir, head)
	}
	return o, err
}

// commitOnce stages, has it inspected, and commits.
func (r Committer) commitOnce(ctx context.Context, dir, gitDir string, o CommitOptions) error {
	staged, err := r.stage(ctx, dir, gitDir, o.Exclude)
	if err != nil {
		return err
	}
	if len(staged) == 0 && o.Merge == "" {
		return ErrNothing
	}
	if err := nestedIn(staged); err != nil {
		return err
	}
	if o.Inspect != nil {
		if err := o.Inspect(ctx); err != nil {
			return err
		}
	}
	return mergingWith(gitDir, o.Merge, func() error { return r.record(ctx, dir, o) })
}

// moved reports whether a checkout has another commit than before: git made one, whatever kept it from saying so.
func (r Committer) moved(ctx context.Context, dir, head string) bool {
	now, err := r.Refs().Head(ctx, dir)
	return err == nil && now != head
}

func (r Committer) onBranch(ctx context.Context, dir, want string) error {
	if want == "" {
		return nil
	}
	got, err := r.Refs().CurrentBranch(ctx, dir)
	if err == nil && got != want {
		err = fmt.Errorf("%q is checked out, not %s", got, want)
	}
	return err
}

// ownLocks are the locks in a linked worktree that nobody but its owner takes.
func (r *Repo) ownLocks(gitDir, branch string) []string {
	if gitDir == r.Common {
		return nil
	}
	own := []string{filepath.Join(gitDir, "index.lock"), filepath.Join(gitDir, "HEAD.lock")}
	if branch != "" {
		own = append(own, r.branchLock(branch))
	}
	return own
}

func (r *Repo) branchLock(branch string) string {
	return filepath.Join(r.Common, "refs", "heads", filepath.FromSlash(branch)+".lock")
}

// stage brings the index up to date, sees to it that it has what may be committed and nothing else, and
// returns what a commit would change.
func (r Committer) stage(ctx context.Context, dir, gitDir string, exclude []string) ([]Change, error) {
	if err := r.merged(ctx, dir, gitDir); err != nil {
		return nil, err
	}
	_, _, err := r.Run(ctx, Command{Dir: dir, Args: append([]string{"add", "--all", "--"}, pathspec(exclude)...), Write: true})
	if err != nil {
		return nil, r.orNested(ctx, dir, exclude, err)
	}
	staged, err := r.staged(ctx, dir, gitDir)
	if err != nil || !slices.ContainsFunc(staged, within(exclude)) {
		return staged, err
	}
	args := []string{"reset", "--quiet", "--"}
	for _, p := range exclude {
		args = append(args, literal("", p))
	}
	if _, _, err := r.Run(ctx, Command{Dir: dir, Args: args, Write: true}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(staged, within(exclude)), nil
}

func (r Committer) merged(ctx context.Context, dir, gitDir string) error {
	f, err := r.Index().readIndex(filepath.Join(gitDir, "index"))
	if errors.Is(err, errAskGit) {
		var out string
		out, _, err = r.Run(ctx, Command{Dir: dir, Args: []string{"ls-files", "--unmerged", "-z"}})
		first, _, _ := strings.Cut(out, "\x00")
		_, f.unmerged, _ = strings.Cut(first, "\t")
	}
	if err != nil || f.unmerged == "" {
		return err
	}
	return fmt.Errorf("%s has conflicts of a merge that is not finished", f.unmerged)
}

// within tells changes in the given paths, files or folders.
func within(paths []string) func(Change) bool {
	return func(c Change) bool {
		return slices.ContainsFunc(paths, func(p string) bool {
			p = strings.TrimRight(p, "/")
			return c.Path == p || strings.HasPrefix(c.Path, p+"/")
		})
	}
}

// staged is what the index has and HEAD has not.
func (r Committer) staged(ctx context.Context, dir, gitDir string) ([]Change, error) {
	f, err := r.Index().readIndex(filepath.Join(gitDir, "index"))
	if head, headErr := r.Refs().Head(ctx, dir); err == nil && headErr == nil {
		if list, ok := r.diffs.recall(head, f.tree); ok {
			return list, nil
		}
	}
	out, _, err := r.Run(ctx, Command{Dir: dir, Args: []string{"diff-index", "--cached", "--raw", "-z", "--no-renames", "HEAD"}})
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}

// orNested names the repository without a commit that git could not add, if that is why it failed.
func (r Committer) orNested(ctx context.Context, dir string, exclude []string, err error) error {
	if list, lookErr := r.Snapshots().nested(ctx, dir, nil, exclude); lookErr == nil && len(list) > 0 && !lockContended(err) {
		return &NestedError{list}
	}
	return err
}

// nestedIn are the repositories that git added as if they were submodules, nil when it was told of them.
func nestedIn(staged []Change) error {
	var list []string
	for _, c := range staged {
		if c.Path == ".gitmodules" {
			return nil
		}
		if c.Mode == gitlink && c.Kind != 'M' {
			list = append(list, c.Path)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &NestedError{list}
}

// record commits what is staged.
func (r Committer) record(ctx context.Context, dir string, o CommitOptions) error {
	args := slices.Concat(named, []string{"commit", "--quiet", "--cleanup=whitespace", "--file=-"})
	if o.Amend {
		args = append(args, "--amend")
	}
	message := strings.TrimSpace(o.Message) + "\n"
	if len(o.Trailers) > 0 {
		message += "\n" + strings.Join(o.Trailers, "\n") + "\n"
	}
	_, _, err := r.Run(ctx, Command{Dir: dir, Args: args, Stdin: strings.NewReader(message), Write: true, Hooks: true, Once: true})
	var failed *Error
	if !errors.As(err, &failed) || lockContended(err) {
		return err
	}
	return r.why(ctx, dir, o, failed)
}

// why tells apart what makes git refuse a commit. Git itself ends with 1 for hooks and empty commits.
func (r Committer) why(ctx context.Context, dir string, o CommitOptions, failed *Error) error {
	if _, err := r.Author().Identity(ctx); err != nil {
		return err
	}
	if failed.Code != 1 {
		return failed
	}
	if o.Amend {
		_, code, err := r.Run(ctx, Command{Dir: dir, Args: []string{"diff-index", "--cached", "--quiet", "HEAD^"}, Accept: []int{1}})
		if err == nil && code == 0 {
			return fmt.Errorf("%w: all of the commit was taken back", ErrNothing)
		}
	}
	if hooks := r.Hooks().hooks(ctx, dir, "pre-commit", "prepare-commit-msg", "commit-msg"); len(hooks) > 0 {
		return &HookError{strings.Join(hooks, " or "), failed.Stderr}
	}
	return failed
}

// Hooks are the hooks of the main checkout that git runs when Trellis commits and pushes.
func (r Hooks) Hooks(ctx context.Context) []string {
	return r.hooks(ctx, r.Main, "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push")
}

// hooks are those of the names that the user has.
func (r Hooks) hooks(ctx context.Context, dir string, names ...string) (list []string) {
	folder, err := r.Line(ctx, Command{Dir: dir, Args: []string{"rev-parse", "--git-path", "hooks"}})
	if err != nil {
		return nil
	}
	for _, name := range names {
		st, err := os.Stat(filepath.Join(AbsFrom(dir, folder), name))
		if err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			list = append(list, name)
		}
	}
	return list
}
