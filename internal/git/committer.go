package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Committer makes commits in a worktree.
type Committer struct{ repo *Repo }

// CommitTree creates a commit object with trellis as author and committer, whoever the user is.
func (r *Repo) CommitTree(ctx context.Context, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", "--no-gpg-sign", tree}
	for _, p := range parents {
		if p != "" {
			args = append(args, "-p", p)
		}
	}
	by := []string{"GIT_AUTHOR_NAME=trellis", "GIT_AUTHOR_EMAIL=trellis@localhost", "GIT_COMMITTER_NAME=trellis", "GIT_COMMITTER_EMAIL=trellis@localhost"}
	return r.Line(ctx, Command{Dir: r.Main, Args: args, Env: by, Stdin: strings.NewReader(message + "\n"), Write: true})
}

// EmptyCommit creates a commit without files, for its message only. No ref names it yet.
func (r *Repo) EmptyCommit(ctx context.Context, message string) (string, error) {
	tree, err := r.Line(ctx, Command{Dir: r.Main, Write: true, Args: []string{"hash-object", "-w", "-t", "tree", "--stdin"}, Stdin: strings.NewReader("")})
	if err != nil {
		return "", err
	}
	return r.CommitTree(ctx, tree, message)
}

// CommitOptions describe a commit.
type CommitOptions struct {
	Message  string
	Trailers []string // "Key: value", below the message
	Exclude  []string // paths that the commit has as HEAD does, with everything below them
	Branch   string   // must be checked out; "" for any
	Amend    bool     // replace HEAD, unless that is a merge
	Merge    string   // second parent, unless it is in the history already; if used, Amend is ignored
	Merged   string   // result of the merge, commit or tree: the excluded paths are taken from it
	// Inspect is called once everything is staged; if it fails, nothing is committed. Hooks run after it.
	Inspect func(ctx context.Context) error
}

// HookError means that a hook of the user refused.
type HookError struct {
	Hook   string // its name, or the names of those that may have refused
	Output string // its output, see Error.Stderr, or a text that there was none
}

func hookError(hook string, failed *Error) *HookError {
	if strings.TrimSpace(failed.Stderr) == "" {
		return &HookError{hook, "it said nothing"}
	}
	return &HookError{hook, failed.Stderr}
}

func (e *HookError) Error() string {
	return fmt.Sprintf("the %s hook failed: %s", e.Hook, strings.TrimSpace(e.Output))
}

// EmbeddedRepoError means that there are repositories within the work tree, whose content can't be committed to, or saved in, this
// one.
type EmbeddedRepoError struct{ Paths []string }

func (e *EmbeddedRepoError) Error() string {
	return "there is a repository within the work tree: " + strings.Join(e.Paths, ", ") +
		"; remove its .git if its files are part of the work (`rm -rf " + e.Paths[0] + "/.git`), remove or ignore it if not, and commit in it if it is a submodule"
}

// Commit commits all changes in the work tree of dir, including untracked files, and returns the commit. It uses the user's
// identity and runs the user's hooks. Errors that callers distinguish: ErrNothing, *HookError, *IdentityError, *EmbeddedRepoError.
func (r Committer) Commit(ctx context.Context, dir string, o CommitOptions) (string, error) {
	sha, err := r.commit(ctx, dir, o)
	if err != nil {
		return "", fmt.Errorf("committing in %s: %w", dir, err)
	}
	return sha, nil
}

func (r Committer) commit(ctx context.Context, dir string, o CommitOptions) (string, error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return "", err
	}
	if err := r.repo.Refs().OnBranch(ctx, dir, o.Branch); err != nil {
		return "", err
	}
	head, err := r.repo.Refs().Head(ctx, dir)
	if err != nil {
		return "", err
	}
	if o, err = r.chooseParents(ctx, dir, gitDir, head, o); err != nil {
		return "", err
	}
	err = RetryLocked(ctx, r.repo.ownLocks(gitDir, o.Branch), func() error {
		return Retry(ctx, func() error {
			return r.commitOnce(ctx, dir, gitDir, head, o)
		})
	})
	if err != nil {
		return "", err
	}
	return r.repo.Refs().Head(ctx, dir)
}

// chooseParents decides which commit a commit on head merges, and whether it replaces head.
func (r Committer) chooseParents(ctx context.Context, dir, gitDir, head string, o CommitOptions) (CommitOptions, error) {
	var err error
	if o.Merge, err = r.commitToMerge(ctx, gitDir, o.Merge, head); err != nil {
		return o, err
	}
	if o.Amend = o.Amend && o.Merge == ""; o.Amend {
		o.Amend, err = r.repo.History().isNonMerge(ctx, dir, head)
	}
	return o, err
}

// commitOnce stages the changes, has them inspected, and commits them on head.
func (r Committer) commitOnce(ctx context.Context, dir, gitDir, head string, o CommitOptions) error {
	staged, err := r.stage(ctx, dir, gitDir, o)
	if err != nil {
		return err
	}
	if len(staged) == 0 && o.Merge == "" {
		if r.isCommitted(ctx, dir, head, o) { // by a try before this one
			return nil
		}
		return ErrNothing
	}
	if err := checkEmbeddedRepos(staged); err != nil {
		return err
	}
	if o.Inspect != nil {
		if err := o.Inspect(ctx); err != nil {
			return err
		}
	}
	return withMergeHead(gitDir, o.Merge, func() error {
		if err := r.runCommit(ctx, dir, o); err != nil && !r.isCommitted(ctx, dir, head, o) {
			return err
		}
		return nil
	})
}

// isCommitted reports whether a checkout that was at head is now at the requested commit: git can fail after creating it. A commit that
// another process made meanwhile lacks the trailers.
func (r Committer) isCommitted(ctx context.Context, dir, head string, o CommitOptions) bool {
	now, err := r.repo.Refs().Head(ctx, dir)
	if err != nil || now == head {
		return false
	}
	messages, err := r.repo.History().Messages(ctx, []string{now})
	lines := strings.Split(messages[now], "\n")
	return err == nil && !slices.ContainsFunc(o.Trailers, func(t string) bool { return !slices.Contains(lines, t) })
}

// stage updates the index, makes sure that it holds exactly the changes that may be committed, and returns those that are not in
// the excluded paths.
func (r Committer) stage(ctx context.Context, dir, gitDir string, o CommitOptions) ([]Change, error) {
	if err := r.checkNoConflicts(ctx, dir, gitDir); err != nil {
		return nil, err
	}
	err := r.repo.Do(ctx, Command{Dir: dir, Args: append([]string{"add", "--all", "--sparse", "--"}, Pathspec(o.Exclude)...), Write: true})
	if err != nil {
		return nil, r.asEmbeddedRepoError(ctx, dir, o.Exclude, err)
	}
	staged, err := r.stagedChanges(ctx, dir, gitDir)
	isExcluded := func(c Change) bool { return Covers(o.Exclude, c.Path) }
	source := "HEAD"
	if o.Merge != "" && o.Merged != "" {
		source = o.Merged
	} else if !slices.ContainsFunc(staged, isExcluded) {
		return staged, err
	}
	if err != nil {
		return nil, err
	}
	args := []string{"reset", "--quiet", source, "--"}
	for _, p := range o.Exclude {
		args = append(args, Literal(p))
	}
	if err := r.repo.Do(ctx, Command{Dir: dir, Args: args, Write: true}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(staged, isExcluded), nil
}

func (r Committer) checkNoConflicts(ctx context.Context, dir, gitDir string) error {
	list, err := r.repo.Index().entries(ctx, dir, gitDir)
	if i := slices.IndexFunc(list, entry.conflict); err == nil && i >= 0 {
		err = fmt.Errorf("%s has conflicts of a merge that is not finished", list[i].path)
	}
	return err
}

// Covers reports whether path is one of the paths, which are files or folders, or below one.
func Covers(paths []string, path string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		p = strings.TrimRight(p, "/")
		return path == p || strings.HasPrefix(path, p+"/")
	})
}

// stagedChanges returns the differences between HEAD and the index.
func (r Committer) stagedChanges(ctx context.Context, dir, gitDir string) ([]Change, error) {
	if head, err := r.repo.Refs().Head(ctx, dir); err == nil {
		if list, ok := r.repo.diffs.recall(head + ":" + r.repo.Index().Tree(filepath.Join(gitDir, "index"))); ok {
			return slices.Clone(list), nil
		}
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Args: []string{"diff-index", "--cached", "--raw", "-z", "--no-renames", "HEAD"}})
	if err != nil {
		return nil, err
	}
	return ParseChanges(out)
}

// asEmbeddedRepoError returns an *EmbeddedRepoError if git failed because of repositories without a commit, and err otherwise.
func (r Committer) asEmbeddedRepoError(ctx context.Context, dir string, exclude []string, err error) error {
	if list, lookErr := r.repo.Index().EmbeddedRepos(ctx, dir, nil, exclude); lookErr == nil && len(list) > 0 && !lockContended(err) {
		return &EmbeddedRepoError{list}
	}
	return err
}

// checkEmbeddedRepos returns an *EmbeddedRepoError for repositories that git staged as if they were submodules, unless .gitmodules changed.
func checkEmbeddedRepos(staged []Change) error {
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
	return &EmbeddedRepoError{list}
}

func (r Committer) runCommit(ctx context.Context, dir string, o CommitOptions) error {
	args := slices.Concat(identityOptions, []string{"commit", "--quiet", "--cleanup=whitespace", "--file=-"})
	if o.Amend {
		args = append(args, "--amend")
	}
	message := strings.TrimSpace(o.Message) + "\n"
	if len(o.Trailers) > 0 {
		message += "\n" + strings.Join(o.Trailers, "\n") + "\n"
	}
	err := r.repo.Do(ctx, Command{Dir: dir, Args: args, Stdin: strings.NewReader(message), Write: true, Hooks: true, Once: true})
	var failed *Error
	if !errors.As(err, &failed) || lockContended(err) {
		return err
	}
	return r.refusalReason(ctx, dir, o, failed)
}

// refusalReason returns the reason for which git refused a commit. Git itself exits with 1 for hooks and empty commits.
func (r Committer) refusalReason(ctx context.Context, dir string, o CommitOptions, failed *Error) error {
	if _, err := r.repo.Author().Identity(ctx); err != nil {
		return err
	}
	if failed.Code != 1 {
		return failed
	}
	if o.Amend {
		_, code, err := r.repo.Run(ctx, Command{Dir: dir, Args: []string{"diff-index", "--cached", "--quiet", "HEAD^"}, Accept: []int{1}})
		if err == nil && code == 0 {
			return fmt.Errorf("%w: all of the commit was taken back", ErrNothing)
		}
	}
	if hooks := r.repo.Hooks().installed(ctx, dir, "pre-commit", "prepare-commit-msg", "commit-msg"); len(hooks) > 0 {
		return hookError(strings.Join(hooks, " or "), failed)
	}
	return failed
}

// mergeHead is the file in which git records the commit that is being merged into a checkout.
const mergeHead = "MERGE_HEAD"

// commitToMerge returns the commit to be merged into head, "" if head has it. It removes git's record of a merge that is done, left by a
// kill at that moment: it would keep the commit from being amended.
func (r Committer) commitToMerge(ctx context.Context, gitDir, commit, head string) (string, error) {
	file := filepath.Join(gitDir, mergeHead)
	if left, err := os.ReadFile(file); err == nil && isHash(strings.TrimSpace(string(left))) {
		if done, err := r.repo.History().IsAncestor(ctx, strings.TrimSpace(string(left)), head); err == nil && done {
			if err := os.Remove(file); err != nil {
				return "", err
			}
		}
	}
	if commit == "" {
		return "", nil
	}
	if within, err := r.repo.History().IsAncestor(ctx, commit, head); err != nil || within {
		return "", err
	}
	return commit, nil
}

// withMergeHead calls do while git is told that a commit is being merged; "" means that there is none.
func withMergeHead(gitDir, commit string, do func() error) error {
	if commit == "" {
		return do()
	}
	file := filepath.Join(gitDir, mergeHead)
	if err := os.WriteFile(file, []byte(commit+"\n"), 0o644); err != nil {
		return err
	}
	err := do()
	if gone := os.Remove(file); !errors.Is(gone, fs.ErrNotExist) { // git removes it itself if all went well
		err = errors.Join(err, gone)
	}
	return err
}
