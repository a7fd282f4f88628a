package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Index is what a checkout is compared with: its index, and how its files differ.
type Index struct {
	repo   *Repo
	refs   Refs
	stores ObjectStores
}

// Tree is the name of the tree that an index file makes, "" when that takes more than a look: it has conflicts, or git alone
// can read it.
func (r Index) Tree(file string) string {
	newHash, size := r.repo.hashes()
	list, err := entriesOf(file, size)
	if err != nil || slices.ContainsFunc(list, func(e entry) bool { return e.meant() || e.conflict() }) {
		return ""
	}
	return hex.EncodeToString(treeOf(list, 0, newHash))
}

// Staged is the tree that the index of a checkout makes, "" when that takes more than a look.
func (r Index) Staged(dir string) string {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return ""
	}
	return r.Tree(filepath.Join(gitDir, "index"))
}

// Unhide makes git look again at tracked files that it was told not to look at (assume-unchanged, skip-worktree),
// and returns them. Files that a sparse checkout leaves out stay out.
func (r Index) Unhide(ctx context.Context, dir string) ([]string, error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return nil, err
	}
	shown := r.repo.seen.takeUnhid(gitDir)
	list, err := r.entries(ctx, dir, gitDir)
	var hidden []string
	for _, e := range list {
		if _, statErr := os.Lstat(filepath.Join(dir, e.path)); e.hidden() && statErr == nil {
			hidden = append(hidden, e.path)
		}
	}
	if err != nil || len(hidden) == 0 {
		return shown, err
	}
	err = RetryLocked(ctx, r.repo.ownLocks(gitDir, ""), func() error {
		for _, option := range []string{"--no-assume-unchanged", "--no-skip-worktree"} { // git takes one at a time
			if err := r.updateIndex(ctx, dir, option, hidden); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("making git look at all files of %s: %w", dir, err)
	}
	return append(shown, hidden...), nil
}

func (r Index) updateIndex(ctx context.Context, dir, option string, paths []string) error {
	return r.repo.Do(ctx, Command{Dir: dir, Write: true, Args: []string{"update-index", option, "-z", "--stdin"}, Stdin: strings.NewReader(strings.Join(paths, "\x00") + "\x00")})
}

// Ignored are the paths of a checkout that git ignores, folders ending in /, the excluded paths left out.
func (r Index) Ignored(ctx context.Context, dir string, exclude ...string) ([]string, error) {
	args := append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--"}, Pathspec(exclude)...)
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Args: args})
	return nulls(out), err
}

// IsBuildArtifact reports whether a path has a name that builds, installers or test runs give to what they make.
func IsBuildArtifact(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if slices.Contains([]string{"node_modules", "bower_components", "target", "dist", "build", "out", "bin", "obj", "venv", ".venv", ".tox", ".nox", "__pycache__",
			".gradle", ".next", ".nuxt", ".svelte-kit", ".turbo", ".cache", ".parcel-cache", ".eggs", ".build", "coverage", ".coverage", "htmlcov", ".terraform", ".direnv",
			".pytest_cache", ".mypy_cache", ".ruff_cache", ".DS_Store", "vendor", "Pods", "DerivedData", "_build", "deps"}, part) {
			return true
		}
	}
	return slices.Contains([]string{".pyc", ".o", ".a", ".so", ".class", ".log", ".tmp", ".swp", ".egg-info", ".tsbuildinfo", ".test", ".out"}, filepath.Ext(name))
}

// Ignores reports whether git ignores what lies in a folder of a checkout, which need not be there. folder is given from the checkout's
// top.
func (r Index) Ignores(ctx context.Context, dir, folder string) (bool, error) {
	_, code, err := r.repo.Run(ctx, Command{Dir: dir, Args: []string{"check-ignore", "-q", "--", folder + "/any/"}, Accept: []int{1}})
	return code == 0, err
}

// freshIndex is the index of a checkout with nothing in it that its writer could lie about: what it says of how files look,
// and of the trees that they make up, is left out, and git looks at all files that Trellis does not know better. Paths that
// are there and that git was told not to look at are returned. What was added in the sandbox is as if it were meant to be.
func (r Index) freshIndex(ctx context.Context, dir, gitDir string) (data []byte, hidden []string, err error) {
	list, err := r.entries(ctx, dir, gitDir)
	if err != nil || list == nil {
		return nil, nil, err
	}
	r.repo.seen.known(dir, list)
	if err := r.meantOnly(ctx, gitDir, list); err != nil {
		return nil, nil, err
	}
	for i := range list {
		e := &list[i]
		if !e.hidden() {
			continue
		}
		e.flags &^= unchanged
		if _, err := os.Lstat(filepath.Join(dir, e.path)); err == nil {
			e.more &^= skipped
			hidden = append(hidden, e.path)
		}
	}
	newHash, _ := r.repo.hashes()
	return indexOf(list, newHash), hidden, nil
}

// meantOnly turns entries whose content was added in the sandbox, and is not in the repository, into such as git add -N makes.
func (r Index) meantOnly(ctx context.Context, gitDir string, list []entry) error {
	own, err := r.onlyOwn(ctx, gitDir, list)
	if err != nil || len(own) == 0 {
		return err
	}
	empty, err := r.emptyBlob()
	for i, e := range list {
		if !e.conflict() && own[hex.EncodeToString(e.hash)] {
			list[i].hash, list[i].stat, list[i].more = empty, nil, e.more|meant
		}
	}
	return err
}

// onlyOwn are the objects of entries that were added in the sandbox of a worktree and that the repository does not have. Git
// adds there again what the repository has already where it can't touch the file that it is in.
func (r Index) onlyOwn(ctx context.Context, gitDir string, list []entry) (map[string]bool, error) {
	own, asked := r.stores.ownLoose(gitDir), map[string]bool{}
	for _, e := range list {
		if name := hex.EncodeToString(e.hash); own[name] && !r.repo.isLoose(e.hash) {
			asked[name] = true
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	missing, err := r.repo.missing(ctx, slices.Sorted(maps.Keys(asked)))
	for name := range asked {
		asked[name] = slices.Contains(missing, name)
	}
	return asked, err
}

// emptyBlob is the name of the blob that git gives to files of which it knows no content. It is made where it is missing.
func (r Index) emptyBlob() ([]byte, error) {
	newHash, _ := r.repo.hashes()
	hash := nameOf("blob", nil, newHash)
	if r.repo.isLoose(hash) {
		return hash, nil
	}
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, err := z.Write([]byte("blob 0\x00"))
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	name := hex.EncodeToString(hash)
	path := filepath.Join(r.repo.Common, "objects", name[:2], name[2:])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	var disk *durable.Disk
	return hash, disk.WriteFile(path, b.Bytes(), 0o444)
}

func (r Index) entries(ctx context.Context, dir, gitDir string) ([]entry, error) {
	_, size := r.repo.hashes()
	list, err := entriesOf(filepath.Join(gitDir, "index"), size)
	if errors.Is(err, errAskGit) {
		return r.askEntries(ctx, dir)
	}
	return list, err
}

// askEntries are the entries of an index that git alone can read.
func (r Index) askEntries(ctx context.Context, dir string, env ...string) ([]entry, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Env: env, Args: []string{"ls-files", "-v", "--stage", "-z"}, RawIndex: true})
	if err != nil {
		return nil, err
	}
	return parseStaged(out)
}

// gitlinks are the paths of the index of a call at which git looks for a repository.
func (r Index) gitlinks(ctx context.Context, c Command, gitDir string) (paths []string, err error) {
	file := filepath.Join(gitDir, "index")
	if own, ok := proc.Getenv(c.Env, "GIT_INDEX_FILE"); ok {
		file = own
	}
	_, size := r.repo.hashes()
	list, err := entriesOf(file, size)
	if errors.Is(err, errAskGit) {
		list, err = r.askEntries(ctx, c.Dir, c.Env...)
	}
	for _, e := range list {
		if e.mode == gitlinkMode {
			paths = append(paths, e.path)
		}
	}
	return slices.Compact(paths), err // one in conflict stands there once for each side
}

// PopulatedSubmodules returns the folders of a checkout that its index has as submodules and that hold files but no repository: git
// lists, adds and saves nothing of what is in them.
func (r Index) PopulatedSubmodules(ctx context.Context, dir string) (folders []string, err error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return nil, err
	}
	links, err := r.gitlinks(ctx, Command{Dir: dir}, gitDir)
	if err != nil {
		return nil, err
	}
	for _, path := range links {
		folder := filepath.Join(dir, filepath.FromSlash(path))
		if st, err := os.Lstat(folder); err != nil || !st.IsDir() {
			continue // git sees that itself
		}
		list, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("looking into the folder of a submodule: %w", err)
		}
		if len(list) > 0 && !slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == ".git" }) {
			folders = append(folders, path)
		}
	}
	return folders, nil
}

// renewIndex makes the index of the worktree of a run anew, before git does something there, unless it is the one that git wrote
// last for Trellis. Hands that worked there in between may have written it.
func (r Index) renewIndex(ctx context.Context, c Command) error {
	gitDir, ok := r.runIndex(ctx, c)
	if !ok || r.repo.seen.same(gitDir) {
		return nil
	}
	data, hidden, err := r.freshIndex(ctx, c.Dir, gitDir)
	if err == nil && data != nil {
		err = RetryLocked(ctx, r.repo.ownLocks(gitDir, ""), func() error { return r.replaceIndex(gitDir, data) })
	}
	if err != nil {
		return fmt.Errorf("making the index of %s anew: %w", c.Dir, err)
	}
	r.repo.seen.unhid(gitDir, hidden)
	r.repo.seen.wrote(gitDir)
	return nil
}

// EndRun takes back what programs kept beside the files of a worktree while a run was at work there: what they only staged
// becomes what is in the files, and their objects are removed. The context is that of the run.
func (r Index) EndRun(ctx context.Context, m WorktreeID) error {
	if m.Path == "" {
		return nil
	}
	c := Command{Dir: m.Path, Args: []string{"add", "--update"}, Write: true}
	if gitDir, ok := r.runIndex(ctx, c); ok {
		if err := RetryLocked(ctx, nil, func() error { return r.renewIndex(ctx, c) }); err != nil {
			return err
		}
		_, size := r.repo.hashes()
		list, err := entriesOf(filepath.Join(gitDir, "index"), size)
		if err == nil && slices.ContainsFunc(list, entry.meant) {
			if err := r.repo.Do(ctx, c); err != nil {
				return err
			}
		}
	}
	r.repo.seen.forget(m.Path, m.Admin)
	return r.stores.dropOwn(m.Admin)
}

// runIndex is the git directory of the worktree of a run, in a call that goes by the index there.
func (r Index) runIndex(ctx context.Context, c Command) (gitDir string, ok bool) {
	m, run := ctx.Value(worktreeKey{}).(WorktreeID)
	own := slices.ContainsFunc(c.Env, func(e string) bool { return strings.HasPrefix(e, "GIT_INDEX_FILE=") })
	if c.RawIndex || own || !run || c.Dir != m.Path || r.repo.Common != m.Common {
		return "", false
	}
	gitDir, err := r.repo.gitDir(c.Dir)
	return gitDir, err == nil && gitDir != r.repo.Common
}

// noteIndex remembers the index that a call wrote.
func (r Index) noteIndex(ctx context.Context, c Command) {
	if gitDir, ok := r.runIndex(ctx, c); ok && c.Write {
		r.repo.seen.wrote(gitDir)
	}
}

// replaceIndex puts an index in the place of that of a worktree, and removes what was added in the sandbox. Both are done under git's
// lock: no program adds in between what the index then names and nobody has.
func (r Index) replaceIndex(gitDir string, data []byte) (err error) {
	lock := filepath.Join(gitDir, "index.lock")
	f, err := os.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return errLocked
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(lock)) }()
	next := filepath.Join(gitDir, "index.trellis")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a call that was cut off
		return err
	}
	if err := writeNew(next, data); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(gitDir, "index")); err != nil {
		return err
	}
	return r.stores.emptyOwn(gitDir)
}

// writeNew writes a file that is not there yet.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// EmbeddedRepos returns the repositories within a checkout that are no submodules.
func (r Index) EmbeddedRepos(ctx context.Context, dir string, env, exclude []string) (list []string, err error) {
	args := append([]string{"ls-files", "-z", "--others", "--exclude-standard", "--directory", "--"}, Pathspec(exclude)...)
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Env: env, Args: args})
	if err != nil {
		return nil, err
	}
	for _, p := range nulls(out) {
		if !strings.HasSuffix(p, "/") {
			continue
		}
		err := filepath.WalkDir(filepath.Join(dir, p), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Name() != ".git" {
				return err
			}
			rel, err := filepath.Rel(dir, filepath.Dir(path))
			if err != nil {
				return err
			}
			list = append(list, rel)
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// StateOf is how the checkout at dir looks, the excluded paths aside. A change of the content of a file that was changed
// before shows too.
func (r Index) StateOf(ctx context.Context, dir string, exclude ...string) (l WorktreeState, err error) {
	if l.head, err = r.refs.Head(ctx, dir); err != nil {
		return l, err
	}
	branch, err := r.refs.CurrentBranch(ctx, dir)
	if err != nil {
		return l, err
	}
	l.head += " " + branch
	list, err := r.Status(ctx, dir, exclude...)
	l.files = make(map[string]string, len(list))
	for _, e := range list {
		l.files[e.Path] = e.state(dir)
	}
	return l, err
}

// Digest tells whether a checkout holds the same files as at another moment, ignored ones and the excluded paths aside: what is as in
// the index by its content, all else by size and time. It is "" where other repositories are in it whose files git does not tell.
func (r Index) Digest(ctx context.Context, dir string, exclude ...string) (string, error) {
	list, err := r.status(ctx, dir, "all", Pathspec(exclude))
	if err != nil {
		return "", err
	}
	staged, _, err := r.repo.Run(ctx, Command{Dir: dir, Args: append([]string{"ls-files", "-z", "--stage", "-v", "--"}, Pathspec(exclude)...)})
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, line := range nulls(staged) {
		fmt.Fprintf(sum, "%q\n", line)
		if _, path, _ := strings.Cut(line, "\t"); line[0] != 'H' { // git was told not to look at it, or has a conflict there
			fmt.Fprintf(sum, "%q\n", Entry{Path: path}.state(dir))
		}
	}
	for _, e := range list {
		if e.Submodule || strings.HasSuffix(e.Path, "/") {
			return "", nil
		}
		fmt.Fprintf(sum, "%q %q\n", e.Path, e.state(dir))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Status is what is not committed in a checkout, ignored files and the excluded paths left out. The tree is
// clean when it is empty.
func (r Index) Status(ctx context.Context, dir string, exclude ...string) ([]Entry, error) {
	return r.StatusOf(ctx, dir, Pathspec(exclude))
}

// StatusOf is Status of what a pathspec names.
func (r Index) StatusOf(ctx context.Context, dir string, pathspec []string) ([]Entry, error) {
	return r.status(ctx, dir, "normal", pathspec)
}

func (r Index) status(ctx context.Context, dir, untracked string, pathspec []string) ([]Entry, error) {
	args := append([]string{"status", "--porcelain=v2", "-z", "--untracked-files=" + untracked, "--ignore-submodules=none", "--no-renames", "--"}, pathspec...)
	if _, err := r.repo.gitDir(dir); err != nil {
		return nil, err
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Args: args})
	if err != nil {
		return nil, err
	}
	return parseStatus(out)
}

// WriteFresh writes a fresh index of a checkout to a file.
func (r Index) WriteFresh(ctx context.Context, dir, file string) error {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return err
	}
	data, _, err := r.freshIndex(ctx, dir, gitDir)
	if err != nil || data == nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// Learn notes what a private index says of the files of a checkout. What can't be read is not remembered.
func (r Index) Learn(dir, index string, started time.Time) {
	_, size := r.repo.hashes()
	if list, err := entriesOf(index, size); err == nil {
		r.repo.seen.learn(dir, list, started)
	}
}
