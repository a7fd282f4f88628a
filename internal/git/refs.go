package git

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Refs are branches, HEAD, and all else that names a commit.
type Refs struct{ repo *Repo }

const (
	BranchPrefix = "refs/heads/"
	OwnPrefix    = "refs/trellis/" // what is kept for the program alone
)

// read follows a full name to a commit. target is the last name on the way, with ErrNotFound the one that is not there.
func (r Refs) read(ctx context.Context, gitDir, name string) (commit, target string, err error) {
	if commit, target, err = r.readFiles(gitDir, name); errors.Is(err, errAskGit) {
		commit, err = r.RevParse(ctx, r.repo.Main, name+"^{commit}", "GIT_DIR="+gitDir)
		target = name
	}
	return commit, target, err
}

// readFiles is read without running anything. It fails with ErrNotFound or errAskGit.
func (r Refs) readFiles(gitDir, name string) (hash, target string, err error) {
	if c, err := ReadConfig(r.repo.Common); err != nil || c.extended {
		return "", "", errAskGit
	}
	store := dotgit.New(dotgit.NewRepositoryFilesystem(folder{dir: gitDir}, folder{dir: r.repo.Common}))
	for range 5 {
		ref, err := store.Ref(plumbing.ReferenceName(name))
		switch {
		case errors.Is(err, plumbing.ErrReferenceNotFound):
			return "", name, ErrNotFound
		case err != nil:
			return "", "", errAskGit
		case ref.Type() == plumbing.SymbolicReference:
			name = ref.Target().String()
		case ref.Hash().IsZero():
			return "", "", errAskGit
		default:
			return ref.Hash().String(), name, nil
		}
	}
	return "", "", errAskGit
}

// Head is the commit that is checked out in dir. ErrNoCommit when there is none yet; of a linked worktree, which began at one, that is a
// *LostBranchError.
func (r Refs) Head(ctx context.Context, dir string) (string, error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return "", err
	}
	sha, _, err := r.read(ctx, gitDir, "HEAD")
	if !errors.Is(err, ErrNotFound) {
		return sha, err
	}
	if gitDir != r.repo.Common {
		if branch, err := r.branchOf(ctx, gitDir); err != nil || branch != "" {
			return "", errors.Join(err, &LostBranchError{dir, branch, lastCommit(gitDir)})
		}
	}
	return "", fmt.Errorf("reading HEAD of %s: %w", dir, ErrNoCommit)
}

// LostBranchError says that somebody deleted the branch on which a worktree is.
type LostBranchError struct {
	Dir, Branch string
	Last        string // the commit that the worktree was at last, "" when no log says so
}

func (e *LostBranchError) Error() string {
	lost := fmt.Sprintf("branch %s, which is checked out in %s, is gone", e.Branch, e.Dir)
	if e.Last == "" {
		return lost
	}
	return fmt.Sprintf("%s: `git update-ref %s %s` brings it back", lost, trellis.ShellWord(BranchPrefix+e.Branch), e.Last)
}

func (e *LostBranchError) Unwrap() error { return ErrNoCommit }

// lastCommit is where HEAD of a git directory was last, by its log, "" when that does not say.
func lastCommit(gitDir string) (commit string) {
	data, _ := durable.ReadBelow(gitDir, "logs/HEAD", durable.MaxJournal) // without one nothing is known
	for line := range strings.Lines(string(data)) {
		if move := strings.Fields(line); len(move) > 1 && isHash(move[1]) && strings.Trim(move[1], "0") != "" {
			commit = move[1]
		}
	}
	return commit
}

// CurrentBranch is the branch that is checked out in dir, without refs/heads/, born or not; "" when
// HEAD is detached.
func (r Refs) CurrentBranch(ctx context.Context, dir string) (string, error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return "", err
	}
	return r.branchOf(ctx, gitDir)
}

// branchOf is the branch that the HEAD of a git directory names.
func (r Refs) branchOf(ctx context.Context, gitDir string) (string, error) {
	_, name, err := r.readFiles(gitDir, "HEAD")
	if errors.Is(err, errAskGit) {
		const none, detached = 128, 1
		name, err = r.repo.Line(ctx, Command{Dir: gitDir, Env: []string{"GIT_DIR=" + gitDir}, Args: []string{"symbolic-ref", "-q", "HEAD"}, Accept: []int{detached, none}})
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	branch, ok := strings.CutPrefix(name, BranchPrefix)
	if !ok {
		return "", nil
	}
	return branch, nil
}

// Resolve is the commit that a name stands for: a commit's own, one of Trellis' refs, a branch, else a remote branch
// (origin/main), else whatever git understands. ErrNotFound when there is none.
func (r Refs) Resolve(ctx context.Context, name string) (string, error) {
	var refs []string
	switch {
	case isHash(name):
		if _, _, err := r.repo.loose(name); err == nil {
			return name, nil
		}
	case strings.HasPrefix(name, OwnPrefix):
		refs = []string{name}
	default:
		refs = []string{BranchPrefix + name, "refs/remotes/" + name}
	}
	for _, full := range refs {
		sha, _, err := r.read(ctx, r.repo.Common, full)
		if err != nil && strings.ContainsAny(name, "~^") { // a commit before the branch's, not a tag's of that name
			sha, err = r.RevParse(ctx, r.repo.Main, full+"^{commit}")
		}
		if !errors.Is(err, ErrNotFound) {
			return sha, err
		}
	}
	sha, err := "", ErrNotFound
	if !strings.HasPrefix(name, OwnPrefix) {
		sha, err = r.RevParse(ctx, r.repo.Main, name+"^{commit}")
	}
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("branch or commit %q: %w", name, ErrNotFound)
	}
	return sha, err
}

// Find is the commit that Resolve finds, "" when there is none. The empty name stands for none.
func (r Refs) Find(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	sha, err := r.Resolve(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return sha, err
}

// RevParse asks git what a name stands for. ErrNotFound when that is nothing.
func (r Refs) RevParse(ctx context.Context, dir, rev string, env ...string) (string, error) {
	out, code, err := r.repo.Run(ctx, Command{Dir: dir, Env: env, Args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", rev}, Accept: []int{1}})
	if err == nil && code == 1 {
		return "", ErrNotFound
	}
	return strings.TrimSuffix(out, "\n"), err
}

// TreeAt is the tree of a commit.
func (r Refs) TreeAt(ctx context.Context, commit string) (string, error) {
	sha := commit
	if !isHash(sha) {
		sha, _, _ = r.readFiles(r.repo.Common, BranchPrefix+commit) // what it is else, git tells
	}
	if tree, _, err := r.repo.loose(sha); err == nil {
		return tree, nil
	}
	tree, err := r.RevParse(ctx, r.repo.Main, commit+"^{tree}")
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("looking for the tree of %q: %w", commit, err)
	}
	return tree, err
}

// Branch is the tip of a local branch, "" when there is no such branch.
func (r Refs) Branch(ctx context.Context, name string) (string, error) {
	if CheckBranchName(name) != nil {
		return "", nil
	}
	sha, _, err := r.read(ctx, r.repo.Common, BranchPrefix+name)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return sha, err
}

// BranchFree is nil when a branch of that name can be made. A *BranchError names the branch that is
// there already, or that would have to be a folder and a file at once.
func (r Refs) BranchFree(ctx context.Context, name string) error {
	if err := CheckBranchName(name); err != nil {
		return err
	}
	heads, err := r.heads(ctx)
	if err != nil {
		return err
	}
	for _, b := range slices.Sorted(maps.Keys(heads)) {
		if b == name || strings.HasPrefix(b, name+"/") || strings.HasPrefix(name, b+"/") {
			return &BranchError{Branch: name, Taken: b}
		}
	}
	return nil
}

// MoveRef sets a ref, unless it no longer is what it was. old is "" for a ref that is not there.
func (r Refs) MoveRef(ctx context.Context, ref, sha, old string) error {
	if sha == old || sha == "" {
		return nil
	}
	return r.change(ctx, r.locks(ref), func() error {
		err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: []string{"update-ref", "--end-of-options", ref, sha, old}, Write: true, Once: true})
		if err == nil {
			return nil
		}
		if now, lookErr := r.RevParse(ctx, r.repo.Main, ref); lookErr == nil && now == sha {
			return nil // it was done all the same
		}
		return err
	})
}

// change changes refs. do looks for its own effect first; locks are those that only we take.
func (r Refs) change(ctx context.Context, locks []string, do func() error) error {
	return RetryLocked(ctx, locks, func() error { return Retry(ctx, do) })
}

// locks are those of files in the common directory, refs or others.
func (r Refs) locks(names ...string) (list []string) {
	for _, name := range names {
		list = append(list, filepath.Join(r.repo.Common, filepath.FromSlash(name)+".lock"))
	}
	return list
}

// OnBranch is an error when another branch than the one that is wanted is checked out in dir. "" is any.
func (r Refs) OnBranch(ctx context.Context, dir, want string) error {
	if want == "" {
		return nil
	}
	got, err := r.CurrentBranch(ctx, dir)
	if err == nil && got != want {
		err = fmt.Errorf("%q is checked out, not %s", got, want)
	}
	return err
}

// DeleteBranch deletes a local branch that is checked out nowhere; none of that name is no error. What it
// held is lost unless something else names it: save it first, with [Backups.Backup].
func (r Refs) DeleteBranch(ctx context.Context, name string) error {
	locks := append(r.locks(BranchPrefix+name, "packed-refs", "config"), filepath.Join(r.repo.Common, "packed-refs.new")) // git trips over each that a dead one left
	return r.change(ctx, locks, func() error {
		tip, err := r.Branch(ctx, name)
		if err != nil || tip == "" {
			return err
		}
		return r.repo.Do(ctx, Command{Dir: r.repo.Main, Write: true, Once: true, Args: []string{"branch", "-q", "-D", "--", name}})
	})
}

// Heads is where the main checkout and the local branches stand at one moment, and how far their logs went. It can be
// kept as JSON.
type Heads struct {
	Branch   string            `json:"branch"` // that is checked out, "" when none is
	Commit   string            `json:"commit"`
	Branches map[string]string `json:"branches"` // commits by name
	Logs     map[string]int64  `json:"logs"`     // bytes, by HEAD or name of a branch
}

// Heads looks. It takes no process in a repository that keeps its refs in files.
func (r Refs) Heads(ctx context.Context) (h Heads, err error) {
	h.Logs = map[string]int64{}
	if h.Branch, err = r.branchOf(ctx, r.repo.Common); err != nil {
		return h, err
	}
	if h.Commit, err = r.Head(ctx, r.repo.Main); err != nil && !errors.Is(err, ErrNoCommit) {
		return h, err
	}
	if h.Branches, err = r.heads(ctx); err != nil {
		return h, err
	}
	maps.DeleteFunc(h.Branches, func(_, commit string) bool { return commit == "" })
	h.Logs["HEAD"] = r.logSize("HEAD")
	for name := range h.Branches {
		h.Logs[name] = r.logSize(BranchPrefix + name)
	}
	return h, nil
}

// heads are the commits of the local branches by name, "" of one that is only another name of one.
func (r Refs) heads(ctx context.Context) (map[string]string, error) {
	heads := map[string]string{}
	if c, err := ReadConfig(r.repo.Common); err == nil && !c.extended {
		if refs, err := dotgit.New(folder{dir: r.repo.Common}).Refs(); err == nil {
			for _, ref := range refs {
				name, ok := strings.CutPrefix(ref.Name().String(), BranchPrefix)
				switch {
				case !ok || strings.HasSuffix(name, ".lock"): // what git has beside a branch while it moves it; none is called so
				case ref.Type() == plumbing.HashReference:
					heads[name] = ref.Hash().String()
				default:
					heads[name] = ""
				}
			}
			return heads, nil
		}
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"for-each-ref", "--format=%(if)%(symref)%(then)%(else)%(objectname)%(end) %(refname)", BranchPrefix}})
	for line := range strings.Lines(out) {
		commit, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "+BranchPrefix)
		heads[name] = commit
	}
	return heads, err
}

// logSize is 0 where there is none.
func (r Refs) logSize(ref string) int64 {
	st, err := os.Lstat(filepath.Join(r.repo.Common, "logs", filepath.FromSlash(ref)))
	if err != nil || !st.Mode().IsRegular() {
		return 0
	}
	return st.Size()
}

// RefChange is a branch, or HEAD, that was moved.
type RefChange struct {
	Ref      string   // HEAD, or the name of a branch
	Was, Now string   // commits; of HEAD the branch, if it is on another
	Said     []string // by its log, oldest first: what moved it
}

// Moved are the moves since h, by name. New branches are none: whoever works makes some.
func (r Refs) Moved(ctx context.Context, h Heads) (list []RefChange, now Heads, err error) {
	if now, err = r.Heads(ctx); err != nil {
		return nil, now, err
	}
	switch {
	case now.Branch != h.Branch:
		list = append(list, RefChange{"HEAD", whereIs(h), whereIs(now), r.saidSince("HEAD", h.Logs["HEAD"])})
	case now.Commit != h.Commit && now.Branch == "":
		list = append(list, RefChange{"HEAD", h.Commit, now.Commit, r.saidSince("HEAD", h.Logs["HEAD"])})
	}
	for _, name := range slices.Sorted(maps.Keys(h.Branches)) {
		if was, at := h.Branches[name], now.Branches[name]; was != at {
			list = append(list, RefChange{name, was, at, r.saidSince(BranchPrefix+name, h.Logs[name])})
		}
	}
	return list, now, nil
}

// whereIs is where HEAD is: on a branch, or at a commit.
func whereIs(h Heads) string {
	return cmp.Or(h.Branch, h.Commit)
}

// saidSince are the messages that were added to a log since it had that many bytes. One that was cut meanwhile says nothing.
func (r Refs) saidSince(ref string, size int64) (said []string) {
	const long = 1 << 20
	if r.logSize(ref) <= size {
		return nil
	}
	const all = 1 << 40 // whatever it has; only the end is read
	f, err := durable.OpenBelow(filepath.Join(r.repo.Common, "logs"), filepath.FromSlash(ref), all)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return nil
	}
	lines := bufio.NewScanner(io.LimitReader(f, long))
	for lines.Scan() {
		if _, message, ok := strings.Cut(lines.Text(), "\t"); ok {
			said = append(said, message)
		}
	}
	return said
}

// MovedError says that a ref is not what it was when somebody decided about it.
type MovedError struct{ Ref, Now string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s moved to %.12s meanwhile", strings.TrimPrefix(e.Ref, BranchPrefix), e.Now)
}

// RemoveBranch deletes a local branch that is checked out nowhere and still ends in tip, with its settings; none of that
// name is no error. A *MovedError when it ends elsewhere.
func (r Refs) RemoveBranch(ctx context.Context, name, tip string) error {
	if r.isLink(name) {
		return fmt.Errorf("branch %s is only another name of one", name)
	}
	err := r.DeleteRef(ctx, BranchPrefix+name, tip)
	if err == nil {
		err = r.unconfigure(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("deleting branch %s: %w", name, err)
	}
	return nil
}

// DeleteRef deletes a ref that names sha.
func (r Refs) DeleteRef(ctx context.Context, ref, sha string) error {
	return r.change(ctx, r.locks(ref, "packed-refs"), func() error {
		now, err := r.RevParse(ctx, r.repo.Main, ref)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil
		case err != nil:
			return err
		case now != sha:
			return &MovedError{ref, now}
		}
		return r.repo.Do(ctx, Command{Dir: r.repo.Main, Write: true, Once: true, Args: []string{"update-ref", "--no-deref", "-d", ref, sha}})
	})
}

// unconfigure removes what the configuration says of a branch.
func (r Refs) unconfigure(ctx context.Context, branch string) error {
	pattern := "^branch\\." + regexp.QuoteMeta(branch) + "\\."
	return r.change(ctx, r.locks("config"), func() error {
		_, none, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"config", "--local", "--name-only", "--get-regexp", pattern}, Accept: []int{1}})
		if err != nil || none == 1 {
			return err
		}
		return r.repo.Do(ctx, Command{Dir: r.repo.Main, Write: true, Once: true, Args: []string{"config", "--local", "--remove-section", "branch." + branch}})
	})
}

// PruneRefs removes what is remembered of a branch besides the commit that it is at now, if any.
func (r Refs) PruneRefs(ctx context.Context, ours, commit string) error {
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"for-each-ref", "--format=%(refname) %(objectname)", ours}})
	if err != nil || out == "" {
		return err
	}
	for line := range strings.SplitSeq(out, "\n") {
		ref, sha, _ := strings.Cut(line, " ")
		if sha == commit {
			continue
		}
		err := RetryLocked(ctx, r.locks(ref), func() error {
			return r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: []string{"update-ref", "-d", "--end-of-options", ref, sha}, Write: true, Once: true})
		})
		if err == nil {
			continue
		}
		if _, gone := r.RevParse(ctx, r.repo.Main, ref); !errors.Is(gone, ErrNotFound) {
			return err
		}
	}
	return nil
}

// isLink reports whether a branch is only another name of one.
func (r Refs) isLink(branch string) bool {
	data, err := os.ReadFile(filepath.Join(r.repo.Common, "refs", "heads", filepath.FromSlash(branch)))
	return err == nil && strings.HasPrefix(string(data), "ref:")
}
