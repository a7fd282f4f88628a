package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/config"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

const (
	BranchPrefix = "refs/heads/"
	OwnPrefix    = "refs/trellis/" // what is kept for the program alone
)

// Config are what we need to know of a repository's configuration.
type Config struct {
	extended bool // uses extensions, which go-git does not know
	apart    bool // worktrees have settings of their own
	sha256   bool // names of objects are that long
	bare     bool
	worktree string
	hooks    string
	includes []string // as they are written, whatever they depend on
	tabled   bool     // refs and their logs are not kept in files
	remotes  []string
}

func ReadConfig(common string) (s Config, err error) {
	return ReadConfigFile(filepath.Join(common, "config"))
}

// ReadConfigFile reads one file of settings.
func ReadConfigFile(file string) (s Config, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	c := config.New()
	if err := config.NewDecoder(bytes.NewReader(data)).Decode(c); err != nil {
		return s, err
	}
	core := c.Section("core")
	s.bare = strings.EqualFold(core.Option("bare"), "true")
	s.worktree, s.hooks = core.Option("worktree"), core.Option("hookspath")
	s.includes = c.Section("include").OptionAll("path")
	for _, on := range c.Section("includeIf").Subsections {
		s.includes = append(s.includes, on.OptionAll("path")...)
	}
	s.extended = c.HasSection("extensions")
	s.tabled = s.extended && strings.EqualFold(c.Section("extensions").Option("refstorage"), "reftable")
	for _, remote := range c.Section("remote").Subsections {
		s.remotes = append(s.remotes, remote.Name)
	}
	s.sha256 = strings.EqualFold(c.Section("extensions").Option("objectformat"), "sha256")
	s.apart = s.extended && strings.EqualFold(c.Section("extensions").Option("worktreeconfig"), "true")
	return s, nil
}

// errAskGit says that go-git can't tell and the git command has to.
var errAskGit = errors.New("ask git")

// folder is what go-git reads refs in, as the system shows it: links are followed as git follows them. osfs.New would take each
// path apart at each look, in case that something leads out of the folder.
type folder struct {
	billy.Filesystem // none: there is only reading
	dir              string
}

func (f folder) Join(parts ...string) string { return filepath.Join(parts...) }
func (f folder) Open(name string) (billy.File, error) {
	return osfs.Default.Open(filepath.Join(f.dir, name))
}
func (f folder) Stat(name string) (fs.FileInfo, error) {
	return osfs.Default.Stat(filepath.Join(f.dir, name))
}
func (f folder) ReadDir(name string) ([]fs.FileInfo, error) {
	return osfs.Default.ReadDir(filepath.Join(f.dir, name))
}

// readRef follows a ref to a commit without running anything. target is the last name on the way. It fails
// with ErrNotFound or errAskGit.
func (r Refs) readRef(gitDir, name string) (hash, target string, err error) {
	if c, err := ReadConfig(r.Common); err != nil || c.extended {
		return "", "", errAskGit
	}
	store := dotgit.New(dotgit.NewRepositoryFilesystem(folder{dir: gitDir}, folder{dir: r.Common}))
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

// Head is the commit that is checked out in dir. ErrNoCommit when there is none yet.
func (r Refs) Head(ctx context.Context, dir string) (string, error) {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return "", err
	}
	sha, _, err := r.readRef(gitDir, "HEAD")
	if errors.Is(err, errAskGit) {
		sha, err = r.askCommit(ctx, dir, "HEAD")
	}
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("reading HEAD of %s: %w", dir, ErrNoCommit)
	}
	return sha, err
}

// CurrentBranch is the branch that is checked out in dir, without refs/heads/, born or not; "" when
// HEAD is detached.
func (r Refs) CurrentBranch(ctx context.Context, dir string) (string, error) {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return "", err
	}
	return r.branchOf(ctx, gitDir)
}

// branchOf is the branch that the HEAD of a git directory names.
func (r Refs) branchOf(ctx context.Context, gitDir string) (string, error) {
	_, name, err := r.readRef(gitDir, "HEAD")
	if errors.Is(err, errAskGit) {
		const none, detached = 128, 1
		name, err = r.Line(ctx, Command{Dir: gitDir, Env: []string{"GIT_DIR=" + gitDir}, Args: []string{"symbolic-ref", "-q", "HEAD"}, Accept: []int{detached, none}})
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
		if _, _, err := r.History().loose(name); err == nil {
			return name, nil
		}
	case strings.HasPrefix(name, OwnPrefix):
		refs = []string{name}
	default:
		refs = []string{BranchPrefix + name, "refs/remotes/" + name}
	}
	for _, full := range refs {
		sha, _, err := r.readRef(r.Common, full)
		if errors.Is(err, errAskGit) || err != nil && strings.ContainsAny(name, "~^") { // a commit before the branch's, not a tag's of that name
			sha, err = r.askCommit(ctx, r.Main, full)
		}
		if !errors.Is(err, ErrNotFound) {
			return sha, err
		}
	}
	sha, err := "", ErrNotFound
	if !strings.HasPrefix(name, OwnPrefix) {
		sha, err = r.askCommit(ctx, r.Main, name)
	}
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("looking for commit %q: %w", name, ErrNotFound)
	}
	return sha, err
}

// askCommit asks git for the commit behind a name.
func (r Refs) askCommit(ctx context.Context, dir, name string) (string, error) {
	return r.RevParse(ctx, dir, name+"^{commit}")
}

func (r Refs) RevParse(ctx context.Context, dir, rev string) (string, error) {
	out, code, err := r.Run(ctx, Command{Dir: dir, Args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", rev}, Accept: []int{1}})
	if err == nil && code == 1 {
		return "", ErrNotFound
	}
	return strings.TrimSuffix(out, "\n"), err
}

// TreeAt is the tree of a commit.
func (r Refs) TreeAt(ctx context.Context, commit string) (string, error) {
	sha := commit
	if !isHash(sha) {
		sha, _, _ = r.readRef(r.Common, BranchPrefix+commit) // what it is else, git tells
	}
	if tree, _, err := r.History().loose(sha); err == nil {
		return tree, nil
	}
	tree, err := r.RevParse(ctx, r.Main, commit+"^{tree}")
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
	sha, _, err := r.readRef(r.Common, BranchPrefix+name)
	if errors.Is(err, errAskGit) {
		sha, err = r.askCommit(ctx, r.Main, BranchPrefix+name)
	}
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return sha, err
}

// branches are the names of all local branches.
func (r Refs) branches(ctx context.Context) (list []string, err error) {
	if r.readHeads(func(name string, _ *plumbing.Reference) { list = append(list, name) }) {
		return list, nil
	}
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--format=%(refname)", BranchPrefix}})
	if err != nil || out == "" {
		return nil, err
	}
	for line := range strings.SplitSeq(out, "\n") {
		list = append(list, strings.TrimPrefix(line, BranchPrefix))
	}
	return list, nil
}

// BranchFree is nil when a branch of that name can be made. A *BranchError names the branch that is
// there already, or that would have to be a folder and a file at once.
func (r Refs) BranchFree(ctx context.Context, name string) error {
	if err := CheckBranchName(name); err != nil {
		return err
	}
	all, err := r.branches(ctx)
	if err != nil {
		return err
	}
	for _, b := range all {
		if b == name || strings.HasPrefix(b, name+"/") || strings.HasPrefix(name, b+"/") {
			return &BranchError{Branch: name, Taken: b}
		}
	}
	return nil
}

// BranchError says why a branch can't be made or used.
type BranchError struct {
	Branch   string
	Taken    string // the branch that is in the way: itself, or one that it would be a folder of
	Tip      string // of Taken, when it holds commits that are not in the base
	Worktree string // where Taken is checked out
	Owner    string // the task that the worktree was made for, "" when that is not known

	gone bool // Worktree's folder is not there
}

func (e *BranchError) Error() string {
	switch {
	case e.Taken != e.Branch:
		return fmt.Sprintf("branch %s can't be made: there is a branch %s", e.Branch, e.Taken)
	case e.gone:
		return fmt.Sprintf("branch %s was checked out in %s, which is gone; git worktree prune forgets it", e.Branch, e.Worktree)
	case e.Owner != "":
		return fmt.Sprintf("branch %s is checked out in %s, which is the worktree of task %s", e.Branch, e.Worktree, e.Owner)
	case e.Worktree != "":
		return fmt.Sprintf("branch %s is checked out in %s", e.Branch, e.Worktree)
	case e.Tip != "":
		return fmt.Sprintf("branch %s is there already and has commits that the base has not (tip %.12s)", e.Branch, e.Tip)
	}
	return fmt.Sprintf("branch %s is there already", e.Branch)
}

// maxBranchPart is how long a part of a branch's name may be, in bytes: each is the name of a file, which git locks by
// another one that ends in .lock.
const maxBranchPart = 255 - len(".lock")

// CheckBranchName says what is wrong with the name of a branch, by the rules of git check-ref-format and of what git can
// lock.
func CheckBranchName(name string) error {
	if why := branchFault(name); why != "" {
		return fmt.Errorf("branch name %q %s", name, why)
	}
	return nil
}

func branchFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name[0] == '-':
		return "begins with -"
	case strings.HasPrefix(name, "refs/"): // git takes it for refs/heads/refs/…
		return "is that of a ref: write what stands behind refs/heads/"
	case name == "HEAD" || name == "@":
		return "is reserved"
	case strings.Contains(name, ".."):
		return "contains .."
	case strings.Contains(name, "@{"):
		return "contains @{"
	case strings.HasSuffix(name, "."):
		return "ends with a dot"
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || strings.IndexByte(" ~^:?*[\\", c) >= 0 {
			return fmt.Sprintf("contains %q", c)
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "begins or ends with a slash, or has two in a row"
		case part[0] == '.':
			return "has a part that begins with a dot"
		case len(part) > maxBranchPart:
			return fmt.Sprintf("has a part of %d bytes, of which %d are the most that git can keep", len(part), maxBranchPart)
		case strings.HasSuffix(part, ".lock"):
			return "has a part that ends with .lock"
		}
	}
	return ""
}
