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

// Refs reads and changes branches, HEAD, and everything else that names a commit.
type Refs struct{ repo *Repo }

const (
	BranchPrefix = "refs/heads/"
	OwnPrefix    = "refs/trellis/" // refs that only Trellis uses
)

// readRef resolves a full ref name to a commit. target is the last name on the way; with ErrNotFound, the one that doesn't exist.
func (r Refs) readRef(ctx context.Context, gitDir, name string) (commit, target string, err error) {
	if commit, target, err = r.readRefFiles(gitDir, name); errors.Is(err, errAskGit) {
		commit, err = r.RevParse(ctx, r.repo.Main, name+"^{commit}", "GIT_DIR="+gitDir)
		target = name
	}
	return commit, target, err
}

// readRefFiles is readRef without running git. It returns ErrNotFound or errAskGit.
func (r Refs) readRefFiles(gitDir, name string) (hash, target string, err error) {
	if c, err := ReadConfig(r.repo.Common); err != nil || c.extended {
		return "", "", errAskGit
	}
	store := dotgit.New(dotgit.NewRepositoryFilesystem(refFolder{dir: gitDir}, refFolder{dir: r.repo.Common}))
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

// Head returns the commit that is checked out in dir. If there is none yet, it returns ErrNoCommit; for a linked worktree, which
// began at a commit, a *LostBranchError.
func (r Refs) Head(ctx context.Context, dir string) (string, error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return "", err
	}
	sha, _, err := r.readRef(ctx, gitDir, "HEAD")
	if !errors.Is(err, ErrNotFound) {
		return sha, err
	}
	if gitDir != r.repo.Common {
		if branch, err := r.branchOf(ctx, gitDir); err != nil {
			return "", err
		} else if branch != "" {
			return "", &LostBranchError{dir, branch, lastCommit(gitDir)}
		}
	}
	return "", fmt.Errorf("reading HEAD of %s: %w", dir, ErrNoCommit)
}

// LostBranchError means that somebody deleted the branch that is checked out in a worktree.
type LostBranchError struct {
	Dir, Branch string
	Last        string // the last commit of the worktree, "" if no reflog has it
}

func (e *LostBranchError) Error() string {
	lost := fmt.Sprintf("branch %s, which is checked out in %s, is gone", e.Branch, e.Dir)
	if e.Last == "" {
		return lost
	}
	return fmt.Sprintf("%s: `git update-ref %s %s` brings it back", lost, trellis.ShellWord(BranchPrefix+e.Branch), e.Last)
}

func (e *LostBranchError) Unwrap() error { return ErrNoCommit }

// lastCommit returns the last commit in the reflog of HEAD in a git directory, "" if there is none.
func lastCommit(gitDir string) (commit string) {
	data, _ := durable.ReadBelow(gitDir, "logs/HEAD", durable.MaxJournal) // without a reflog nothing is known
	for line := range strings.Lines(string(data)) {
		if move := strings.Fields(line); len(move) > 1 && isHash(move[1]) && strings.Trim(move[1], "0") != "" {
			commit = move[1]
		}
	}
	return commit
}

// CurrentBranch returns the branch that is checked out in dir, without refs/heads/, also if it is unborn; "" if HEAD is detached.
func (r Refs) CurrentBranch(ctx context.Context, dir string) (string, error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return "", err
	}
	return r.branchOf(ctx, gitDir)
}

// branchOf returns the branch that the HEAD of a git directory names, "" if it is detached.
func (r Refs) branchOf(ctx context.Context, gitDir string) (string, error) {
	_, name, err := r.readRefFiles(gitDir, "HEAD")
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

// Resolve returns the commit that a name stands for: a full hash, one of Trellis' refs, a branch, else a remote-tracking branch
// (origin/main), else whatever git understands. It returns ErrNotFound if there is none.
func (r Refs) Resolve(ctx context.Context, name string) (string, error) {
	var refs []string
	switch {
	case isHash(name):
		if _, _, err := r.repo.looseCommit(name); err == nil {
			return name, nil
		}
	case strings.HasPrefix(name, OwnPrefix):
		refs = []string{name}
	default:
		refs = []string{BranchPrefix + name, "refs/remotes/" + name}
	}
	for _, full := range refs {
		sha, _, err := r.readRef(ctx, r.repo.Common, full)
		if err != nil && strings.ContainsAny(name, "~^") { // an ancestor of the branch, not of a tag of that name
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

// Find is Resolve, except that it returns "" if there is no such commit. It also returns "" for an empty name.
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

// RevParse asks git which object a name stands for. It returns ErrNotFound if there is none.
func (r Refs) RevParse(ctx context.Context, dir, rev string, env ...string) (string, error) {
	out, code, err := r.repo.Run(ctx, Command{Dir: dir, Env: env, Args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", rev}, Accept: []int{1}})
	if err == nil && code == 1 {
		return "", ErrNotFound
	}
	return strings.TrimSuffix(out, "\n"), err
}

// TreeAt returns the tree of a commit, which is named by a hash or as for Resolve.
func (r Refs) TreeAt(ctx context.Context, commit string) (string, error) {
	if !isHash(commit) {
		sha, err := r.Resolve(ctx, commit)
		if err != nil {
			return "", fmt.Errorf("looking for the tree of %q: %w", commit, err)
		}
		commit = sha
	}
	if tree, _, err := r.repo.looseCommit(commit); err == nil {
		return tree, nil
	}
	tree, err := r.RevParse(ctx, r.repo.Main, commit+"^{tree}")
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("looking for the tree of %q: %w", commit, err)
	}
	return tree, err
}

// Branch returns the tip of a local branch, "" if there is no such branch.
func (r Refs) Branch(ctx context.Context, name string) (string, error) {
	if CheckBranchName(name) != nil {
		return "", nil
	}
	sha, _, err := r.readRef(ctx, r.repo.Common, BranchPrefix+name)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return sha, err
}

// BranchFree returns nil if a branch of that name can be created. Otherwise a *BranchError names the branch that exists already,
// or that would have to be a folder and a file at once.
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

// MoveRef sets a ref to sha if it still is at old, which is "" for a ref that doesn't exist. It does nothing if sha is old or "".
func (r Refs) MoveRef(ctx context.Context, ref, sha, old string) error {
	if sha == old || sha == "" {
		return nil
	}
	return r.withRetries(ctx, r.locks(ref), func() error {
		err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: []string{"update-ref", "--end-of-options", ref, sha, old}, Write: true, Once: true})
		if err == nil {
			return nil
		}
		if now, lookErr := r.RevParse(ctx, r.repo.Main, ref); lookErr == nil && now == sha {
			return nil // it was done nevertheless
		}
		return err
	})
}

// withRetries calls do, which changes refs and checks for its own effect first, with retries; locks are those that only Trellis takes.
func (r Refs) withRetries(ctx context.Context, locks []string, do func() error) error {
	return RetryLocked(ctx, locks, func() error { return Retry(ctx, do) })
}

// locks returns the lock files of refs, or of other files in the common directory.
func (r Refs) locks(names ...string) (list []string) {
	for _, name := range names {
		list = append(list, filepath.Join(r.repo.Common, filepath.FromSlash(name)+".lock"))
	}
	return list
}

// OnBranch returns an error unless the wanted branch is checked out in dir; "" stands for any branch.
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

// DeleteBranch deletes a local branch that is not checked out anywhere; it returns nil if there is none of that name. Commits that
// become unreachable are lost: back them up first with snapshot.Backups.Backup.
func (r Refs) DeleteBranch(ctx context.Context, name string) error {
	locks := append(r.locks(BranchPrefix+name, "packed-refs", "config"), filepath.Join(r.repo.Common, "packed-refs.new")) // git fails at leftover ones
	return r.withRetries(ctx, locks, func() error {
		tip, err := r.Branch(ctx, name)
		if err != nil || tip == "" {
			return err
		}
		return r.repo.Do(ctx, Command{Dir: r.repo.Main, Write: true, Once: true, Args: []string{"branch", "-q", "-D", "--", name}})
	})
}

// Heads records where the main checkout and the local branches are at one moment, and how long their reflogs are. It can be stored
// as JSON.
type Heads struct {
	Branch   string            `json:"branch"` // the one checked out, "" if HEAD is detached
	Commit   string            `json:"commit"`
	Branches map[string]string `json:"branches"` // commits by name
	Logs     map[string]int64  `json:"logs"`     // sizes in bytes, by "HEAD" or name of a branch
}

// Heads returns the current heads. It starts no process in a repository that stores its refs in files.
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

// heads returns the commits of the local branches by name, "" for a branch that is a symbolic ref.
func (r Refs) heads(ctx context.Context) (map[string]string, error) {
	heads := map[string]string{}
	if c, err := ReadConfig(r.repo.Common); err == nil && !c.extended {
		if refs, err := dotgit.New(refFolder{dir: r.repo.Common}).Refs(); err == nil {
			for _, ref := range refs {
				name, ok := strings.CutPrefix(ref.Name().String(), BranchPrefix)
				switch {
				case !ok || strings.HasSuffix(name, ".lock"): // git's lock of a branch; no branch has such a name
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

// logSize returns the size of a reflog, 0 if there is none.
func (r Refs) logSize(ref string) int64 {
	st, err := os.Lstat(filepath.Join(r.repo.Common, "logs", filepath.FromSlash(ref)))
	if err != nil || !st.Mode().IsRegular() {
		return 0
	}
	return st.Size()
}

// RefChange is a branch, or HEAD, that moved.
type RefChange struct {
	Ref      string   // HEAD, or the name of a branch
	Was, Now string   // commits; branches if HEAD is on another one
	Said     []string // reflog messages of the moves, oldest first
}

// Moved returns the moves since h, HEAD first, then branches by name. New branches are left out: whoever works creates some.
func (r Refs) Moved(ctx context.Context, h Heads) (list []RefChange, now Heads, err error) {
	if now, err = r.Heads(ctx); err != nil {
		return nil, now, err
	}
	switch {
	case now.Branch != h.Branch:
		list = append(list, RefChange{"HEAD", headPosition(h), headPosition(now), r.reflogSince("HEAD", h.Logs["HEAD"])})
	case now.Commit != h.Commit && now.Branch == "":
		list = append(list, RefChange{"HEAD", h.Commit, now.Commit, r.reflogSince("HEAD", h.Logs["HEAD"])})
	}
	for _, name := range slices.Sorted(maps.Keys(h.Branches)) {
		if was, at := h.Branches[name], now.Branches[name]; was != at {
			list = append(list, RefChange{name, was, at, r.reflogSince(BranchPrefix+name, h.Logs[name])})
		}
	}
	return list, now, nil
}

// headPosition returns where HEAD is: on a branch, or at a commit.
func headPosition(h Heads) string {
	return cmp.Or(h.Branch, h.Commit)
}

// reflogSince returns the messages that were added to a reflog since it had size bytes, none if it was truncated meanwhile.
func (r Refs) reflogSince(ref string, size int64) (messages []string) {
	const long = 1 << 20
	if r.logSize(ref) <= size {
		return nil
	}
	const all = 1 << 40 // no limit, since only the end is read
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
			messages = append(messages, message)
		}
	}
	return messages
}

// MovedError means that a ref is no longer where it was when somebody decided about it.
type MovedError struct{ Ref, Now string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s moved to %.12s meanwhile", strings.TrimPrefix(e.Ref, BranchPrefix), e.Now)
}

// RemoveBranch deletes a local branch that is not checked out anywhere, with its settings; it returns nil if there is none of that
// name, and a *MovedError if the branch doesn't end in tip.
func (r Refs) RemoveBranch(ctx context.Context, name, tip string) error {
	if r.isSymbolicRef(name) {
		return fmt.Errorf("branch %s is only another name of one", name)
	}
	err := r.DeleteRef(ctx, BranchPrefix+name, tip)
	if err == nil {
		err = r.removeBranchSettings(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("deleting branch %s: %w", name, err)
	}
	return nil
}

// DeleteRef deletes a ref. It returns a *MovedError if the ref is not at sha, and nil if the ref doesn't exist.
func (r Refs) DeleteRef(ctx context.Context, ref, sha string) error {
	return r.withRetries(ctx, r.locks(ref, "packed-refs"), func() error {
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

// removeBranchSettings removes the settings of a branch from the configuration.
func (r Refs) removeBranchSettings(ctx context.Context, branch string) error {
	pattern := "^branch\\." + regexp.QuoteMeta(branch) + "\\."
	return r.withRetries(ctx, r.locks("config"), func() error {
		_, none, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"config", "--local", "--name-only", "--get-regexp", pattern}, Accept: []int{1}})
		if err != nil || none == 1 {
			return err
		}
		return r.repo.Do(ctx, Command{Dir: r.repo.Main, Write: true, Once: true, Args: []string{"config", "--local", "--remove-section", "branch." + branch}})
	})
}

// PruneRefs removes the refs at and below ours, which record commits of a branch, except those at commit, which may be "".
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

// isSymbolicRef reports whether a branch is a symbolic ref.
func (r Refs) isSymbolicRef(branch string) bool {
	data, err := os.ReadFile(filepath.Join(r.repo.Common, "refs", "heads", filepath.FromSlash(branch)))
	return err == nil && strings.HasPrefix(string(data), "ref:")
}
