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

// Index reads and writes the indexes of checkouts, and compares checkouts with them.
type Index struct{ repo *Repo }

// Tree returns the name of the tree that an index file makes, "" if only git can tell: it has conflicts or intent-to-add entries,
// or only git can read it.
func (r Index) Tree(file string) string {
	newHash, size := r.repo.hashFormat()
	list, err := readIndex(file, size)
	if err != nil || slices.ContainsFunc(list, func(e entry) bool { return e.intentToAdd() || e.conflict() }) {
		return ""
	}
	return hex.EncodeToString(hashTree(list, 0, newHash))
}

// Staged returns the tree that the index of a checkout makes, "" if only git can tell.
func (r Index) Staged(dir string) string {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return ""
	}
	return r.Tree(filepath.Join(gitDir, "index"))
}

// ClearHiddenFlags makes git check tracked files again that it was told not to check (assume-unchanged, skip-worktree), and returns them.
// Files that a sparse checkout leaves out stay out.
func (r Index) ClearHiddenFlags(ctx context.Context, dir string) ([]string, error) {
	gitDir, err := r.repo.gitDir(dir)
	if err != nil {
		return nil, err
	}
	shown := r.repo.seen.takeUnhidden(gitDir)
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
		return nil, fmt.Errorf("making git check all files of %s: %w", dir, err)
	}
	return append(shown, hidden...), nil
}

func (r Index) updateIndex(ctx context.Context, dir, option string, paths []string) error {
	return r.repo.Do(ctx, Command{Dir: dir, Write: true, Args: []string{"update-index", option, "-z", "--stdin"}, Stdin: strings.NewReader(strings.Join(paths, "\x00") + "\x00")})
}

// Ignored returns the paths of a checkout that git ignores, without the excluded ones; folders end in /.
func (r Index) Ignored(ctx context.Context, dir string, exclude ...string) ([]string, error) {
	args := append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--"}, Pathspec(exclude)...)
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Args: args})
	return splitNull(out), err
}

// IsBuildArtifact reports whether a path has a name that builds, installers or test runs give to the files they create.
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

// Ignores reports whether git ignores the content of a folder of a checkout. The folder is relative to the checkout's root and
// need not exist.
func (r Index) Ignores(ctx context.Context, dir, folder string) (bool, error) {
	_, code, err := r.repo.Run(ctx, Command{Dir: dir, Args: []string{"check-ignore", "-q", "--", folder + "/any/"}, Accept: []int{1}})
	return code == 0, err
}

// freshIndex returns the index of a checkout without anything that its writer could have forged: stat data and cached trees are
// left out, so that git checks all files that Trellis has not seen itself. It also returns the existing paths that the index told
// git not to check. Entries whose content was added in the sandbox become intent-to-add entries.
func (r Index) freshIndex(ctx context.Context, dir, gitDir string) (data []byte, hidden []string, err error) {
	list, err := r.entries(ctx, dir, gitDir)
	if err != nil || list == nil {
		return nil, nil, err
	}
	r.repo.seen.setStats(dir, list)
	if err := r.markIntentToAdd(ctx, gitDir, list); err != nil {
		return nil, nil, err
	}
	for i := range list {
		e := &list[i]
		if !e.hidden() {
			continue
		}
		e.flags &^= assumeUnchanged
		if _, err := os.Lstat(filepath.Join(dir, e.path)); err == nil {
			e.extFlags &^= skipWorktree
			hidden = append(hidden, e.path)
		}
	}
	newHash, _ := r.repo.hashFormat()
	return encodeIndex(list, newHash), hidden, nil
}

// markIntentToAdd turns entries whose content was added in the sandbox, and is missing in the repository, into intent-to-add entries.
func (r Index) markIntentToAdd(ctx context.Context, gitDir string, list []entry) error {
	own, err := r.sandboxOnlyObjects(ctx, gitDir, list)
	if err != nil || len(own) == 0 {
		return err
	}
	empty, err := r.ensureEmptyBlob()
	for i, e := range list {
		if !e.conflict() && own[hex.EncodeToString(e.hash)] {
			list[i].hash, list[i].stat, list[i].extFlags = empty, nil, e.extFlags|intentToAddFlag
		}
	}
	return err
}

// sandboxOnlyObjects returns the objects of entries that were added in the sandbox of a worktree and that the repository doesn't have. Git
// also adds objects there that the repository has, where it can't touch the file that holds them.
func (r Index) sandboxOnlyObjects(ctx context.Context, gitDir string, list []entry) (map[string]bool, error) {
	own, asked := r.repo.ObjectStores().ownLoose(gitDir), map[string]bool{}
	for _, e := range list {
		if name := hex.EncodeToString(e.hash); own[name] && !r.repo.isLoose(e.hash) {
			asked[name] = true
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	missing, err := r.repo.missingObjects(ctx, slices.Sorted(maps.Keys(asked)))
	for name := range asked {
		asked[name] = slices.Contains(missing, name)
	}
	return asked, err
}

// ensureEmptyBlob returns the name of the empty blob, which git gives to intent-to-add entries. The blob is written if it is missing.
func (r Index) ensureEmptyBlob() ([]byte, error) {
	newHash, _ := r.repo.hashFormat()
	hash := hashObject("blob", nil, newHash)
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
	_, size := r.repo.hashFormat()
	list, err := readIndex(filepath.Join(gitDir, "index"), size)
	if errors.Is(err, errAskGit) {
		return r.askEntries(ctx, dir)
	}
	return list, err
}

// askEntries returns the entries of an index that only git can read.
func (r Index) askEntries(ctx context.Context, dir string, env ...string) ([]entry, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Env: env, Args: []string{"ls-files", "-v", "--stage", "-z"}, RawIndex: true})
	if err != nil {
		return nil, err
	}
	return parseStaged(out)
}

// gitlinks returns the submodule paths in the index that a call uses: git looks for repositories there.
func (r Index) gitlinks(ctx context.Context, c Command, gitDir string) (paths []string, err error) {
	file := filepath.Join(gitDir, "index")
	if own, ok := proc.Getenv(c.Env, "GIT_INDEX_FILE"); ok {
		file = own
	}
	_, size := r.repo.hashFormat()
	list, err := readIndex(file, size)
	if errors.Is(err, errAskGit) {
		list, err = r.askEntries(ctx, c.Dir, c.Env...)
	}
	for _, e := range list {
		if e.mode == gitlinkMode {
			paths = append(paths, e.path)
		}
	}
	return slices.Compact(paths), err // a path in conflict is listed once for each side
}

// PopulatedSubmodules returns the folders of a checkout that are submodules in its index and hold files but no repository: git
// does not list, add or save anything in them.
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
			continue // git reports that itself
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

// renewIndex rewrites the index of a run's worktree before git uses it, unless it is the one that git last wrote for Trellis:
// programs that ran there in between may have written it.
func (r Index) renewIndex(ctx context.Context, c Command) error {
	gitDir, ok := r.indexGitDir(ctx, c)
	if !ok || r.repo.seen.isLastWritten(gitDir) {
		return nil
	}
	data, hidden, err := r.freshIndex(ctx, c.Dir, gitDir)
	if err == nil && data != nil {
		err = RetryLocked(ctx, r.repo.ownLocks(gitDir, ""), func() error { return r.replaceIndex(gitDir, data) })
	}
	if err != nil {
		return fmt.Errorf("rebuilding the index of %s: %w", c.Dir, err)
	}
	r.repo.seen.recordUnhidden(gitDir, hidden)
	r.repo.seen.recordWritten(gitDir)
	return nil
}

// EndRun removes the data that programs kept beside the files of a worktree during a run: entries that they only staged get the
// content of the files, and their objects are removed. The context is that of the run.
func (r Index) EndRun(ctx context.Context, m WorktreeID) error {
	if m.Path == "" {
		return nil
	}
	c := Command{Dir: m.Path, Args: []string{"add", "--update"}, Write: true}
	if gitDir, ok := r.indexGitDir(ctx, c); ok {
		if err := RetryLocked(ctx, nil, func() error { return r.renewIndex(ctx, c) }); err != nil {
			return err
		}
		_, size := r.repo.hashFormat()
		list, err := readIndex(filepath.Join(gitDir, "index"), size)
		if err == nil && slices.ContainsFunc(list, entry.intentToAdd) {
			if err := r.repo.Do(ctx, c); err != nil {
				return err
			}
		}
	}
	r.repo.seen.forget(m.Path, m.Admin)
	return r.repo.ObjectStores().removeOwnStores(m.Admin)
}

// indexGitDir returns the git directory of a run's worktree, and whether the call uses the index there.
func (r Index) indexGitDir(ctx context.Context, c Command) (gitDir string, ok bool) {
	m, run := ctx.Value(worktreeKey{}).(WorktreeID)
	own := slices.ContainsFunc(c.Env, func(e string) bool { return strings.HasPrefix(e, "GIT_INDEX_FILE=") })
	if c.RawIndex || own || !run || c.Dir != m.Path || r.repo.Common != m.Common {
		return "", false
	}
	gitDir, err := r.repo.gitDir(c.Dir)
	return gitDir, err == nil && gitDir != r.repo.Common
}

// noteIndex records the index that a call wrote.
func (r Index) noteIndex(ctx context.Context, c Command) {
	if gitDir, ok := r.indexGitDir(ctx, c); ok && c.Write {
		r.repo.seen.recordWritten(gitDir)
	}
}

// replaceIndex replaces the index of a worktree and removes the objects that were added in the sandbox. Both are done under git's
// lock, so that no program adds an object in between that the index then names but nobody has.
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
	return r.repo.ObjectStores().removeOwnObjects(gitDir)
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// EmbeddedRepos returns the repositories within a checkout that are not submodules.
func (r Index) EmbeddedRepos(ctx context.Context, dir string, env, exclude []string) (list []string, err error) {
	args := append([]string{"ls-files", "-z", "--others", "--exclude-standard", "--directory", "--"}, Pathspec(exclude)...)
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Env: env, Args: args})
	if err != nil {
		return nil, err
	}
	for _, p := range splitNull(out) {
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

// StateOf returns the state of the checkout at dir, without the excluded paths. It also differs if a file that had been changed
// before is changed again.
func (r Index) StateOf(ctx context.Context, dir string, exclude ...string) (l WorktreeState, err error) {
	if l.head, err = r.repo.Refs().Head(ctx, dir); err != nil {
		return l, err
	}
	branch, err := r.repo.Refs().CurrentBranch(ctx, dir)
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

// Digest returns a hash that is the same as long as a checkout holds the same files, ignored ones and the excluded paths aside:
// files as in the index count by content, all others by size and time. It is "" if the checkout contains other repositories, whose
// files git does not list.
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
	for _, line := range splitNull(staged) {
		fmt.Fprintf(sum, "%q\n", line)
		if _, path, _ := strings.Cut(line, "\t"); line[0] != 'H' { // not checked by git, or in conflict
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

// Status returns the uncommitted paths of a checkout, without ignored files and the excluded paths. It is empty if the checkout is
// clean.
func (r Index) Status(ctx context.Context, dir string, exclude ...string) ([]Entry, error) {
	return r.StatusOf(ctx, dir, Pathspec(exclude))
}

// StatusOf is Status for the paths that a pathspec selects.
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

// WriteFresh writes the fresh index of a checkout to a file, see freshIndex.
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

// RecordStats caches the state of the files of a checkout as a private index has it. An index that can't be read is ignored.
func (r Index) RecordStats(dir, index string, started time.Time) {
	_, size := r.repo.hashFormat()
	if list, err := readIndex(index, size); err == nil {
		r.repo.seen.recordStats(dir, list, started)
	}
}
