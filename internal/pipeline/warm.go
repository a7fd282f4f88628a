package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline/passes"
)

// warmFolders keeps folders that worktree.setup filled at base before any agent was there, and copies them into other checkouts
// with the same lock files. A copy shares nothing with the kept folder, except blocks on file systems that copy on write.
type warmFolders struct {
	repo        *git.Repo
	environment *fingerprinter
	restorer    *restorer
	disk        *durable.Disk
	now         func() time.Time
	folder      string
}

// lockFiles are the names of files that determine what an installation holds, or how it is done.
var lockFiles = []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", ".pnpmfile.cjs", "yarn.lock", ".yarnrc", ".yarnrc.yml", "bun.lock", "bun.lockb", "bunfig.toml", ".npmrc",
	"deno.json", "deno.lock", "Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml", "go.mod", "go.sum", "go.work", "go.work.sum", "pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock",
	"setup.py", "setup.cfg", "Gemfile", "Gemfile.lock", "composer.json", "composer.lock", "mix.exs", "mix.lock", ".tool-versions", ".nvmrc", ".node-version", ".python-version", ".ruby-version", "mise.toml", ".envrc",
	"Makefile", "makefile", "GNUmakefile", "justfile", "Taskfile.yml"}

// lockPatterns are patterns of more such names.
var lockPatterns = []string{"requirements*.txt", "constraints*.txt", "*.patch"}

// definesInstall reports whether a file determines what an installation holds, or how it is done: by its name, or because a
// command of setup names it.
func (j Job) definesInstall(rel string) bool {
	name := filepath.Base(rel)
	return slices.Contains(lockFiles, name) ||
		slices.ContainsFunc(lockPatterns, func(pattern string) bool { ok, _ := filepath.Match(pattern, name); return ok }) || // the patterns are well formed
		slices.ContainsFunc(j.Setup.Run, func(line string) bool { return strings.Contains(line, filepath.ToSlash(rel)) })
}

// interpreters are programs that installed files depend on, whatever installs them.
var interpreters = []string{"node", "python", "python3", "ruby", "php", "rustc", "cc"}

// key returns the name of the set that fits a checkout in which setup has not run.
func (w *warmFolders) key(ctx context.Context, j Job) (string, error) {
	f, err := w.environment.fingerprint(ctx, j)
	if err != nil {
		return "", err
	}
	parts := []string{"setup " + strings.Join(j.Setup.Run, "\x00"), "warm " + strings.Join(j.Setup.Warm, "\x00")}
	for _, word := range append(strings.Fields(strings.Join(j.Setup.Run, " ")), interpreters...) {
		if path, sum := w.environment.program(word); path != "" {
			parts = append(parts, word+" "+sum)
		}
	}
	for name, hash := range f {
		if strings.HasPrefix(name, kindNetwork) || strings.HasPrefix(name, kindProgram) {
			parts = append(parts, name+" "+hash)
		}
	}
	files, err := w.sources(j)
	parts = append(parts, files...)
	if err != nil {
		return "", fmt.Errorf("reading lock files: %w", err)
	}
	slices.Sort(parts)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:8]), nil
}

// sources lists the files that determine an installation, each with its hash, and for a link also where it leads.
func (w *warmFolders) sources(j Job) (lines []string, err error) {
	err = filepath.WalkDir(j.Worktree, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == ".git" || e.Name() == ".trellis") {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(j.Worktree, path)
		if err != nil || e.IsDir() || !j.definesInstall(rel) {
			return err
		}
		lines = append(lines, fmt.Sprintf("%s is %v", filepath.ToSlash(rel), e.Type()))
		if e.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			lines = append(lines, "which leads to "+to)
			real, err := filepath.EvalSymlinks(path)
			if err != nil || !inside(j.Worktree, real) {
				return nil // if it can't be read, only where it leads counts
			}
			if st, err := os.Stat(real); err != nil || !st.Mode().IsRegular() {
				return err // the files of a folder are found on their own
			}
			if rel, err = filepath.Rel(j.Worktree, real); err != nil {
				return err
			}
		} else if !e.Type().IsRegular() {
			return nil
		}
		data, err := durable.ReadBelow(j.Worktree, rel, durable.AnySize)
		lines = append(lines, filepath.ToSlash(rel)+" "+shortHash(data))
		return err
	})
	return lines, err
}

// copyInto copies the folders into a checkout in which setup has not run. used is the set, "" if none fits, or if the checkout
// already has something in place of a folder. whole reports whether setup need not run, since the folders are all that it makes.
func (w *warmFolders) copyInto(ctx context.Context, j Job) (used string, whole bool, err error) {
	if len(j.Setup.Warm) == 0 {
		return "", false, nil
	}
	key, err := w.key(ctx, j)
	if err != nil {
		return "", false, err
	}
	set := warmSet{filepath.Join(w.folder, key)}
	made := set.info()
	if !w.isRecent(made) {
		return "", false, nil // setup makes them
	}
	for name := range made.Folders {
		if !slices.Contains(j.Setup.Warm, name) { // somebody else wrote it, and it may lead anywhere
			return "", false, set.discard(w.folder)
		}
		if !vacant(j.Worktree, name) {
			return "", false, nil
		}
	}
	copied, err := set.copyTo(j.Worktree, made)
	if err != nil {
		return "", false, err
	}
	if !copied { // the set has lost something: setup makes another one
		return "", false, set.discard(w.folder)
	}
	return key, made.Whole, nil
}

// vacant reports whether nothing exists at name below root, and no folder on the way is a link.
func vacant(root, name string) bool {
	at := root
	parts := strings.Split(name, "/")
	for i, part := range parts {
		at = filepath.Join(at, part)
		st, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return true
		}
		if err != nil || !st.IsDir() || i == len(parts)-1 {
			return false
		}
	}
	return false
}

// keep keeps the folders of a worktree that was just made at base, in which setup has run. note says why it could not.
func (w *warmFolders) keep(ctx context.Context, j Job, key string) (note string, err error) {
	if len(j.Setup.Warm) == 0 || len(j.Setup.Run) == 0 {
		return "", nil
	}
	head, err := w.repo.Refs().Head(ctx, j.Worktree)
	if err != nil || head != j.BaseCommit {
		return "", err
	}
	whole, err := w.coversSetup(ctx, j)
	if err != nil {
		return "", err
	}
	if err := w.disk.MkdirAll(w.folder, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of warm folders: %w", err)
	}
	set := warmSet{filepath.Join(w.folder, key)}
	if w.isRecent(set.info()) {
		return "", nil // another task was first
	}
	note, err = w.make(set, j, setInfo{Commit: head, Setup: j.Setup.Run, Whole: whole, At: w.now().UTC()})
	if err != nil {
		return "", err
	}
	return note, w.removeOld()
}

// make makes a set under a temporary name first, and then renames it.
func (w *warmFolders) make(set warmSet, j Job, info setInfo) (note string, err error) {
	temp, err := os.MkdirTemp(w.folder, durable.TempPrefix)
	if err != nil {
		return "", fmt.Errorf("keeping warm folders: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	kept, note, err := warmSet{temp}.fill(w.disk, j, info)
	if err != nil || !kept {
		return note, err
	}
	if err := set.discard(w.folder); err != nil {
		return "", err
	}
	if err := os.Rename(temp, set.path); err != nil && !errors.Is(err, fs.ErrExist) { // another task was first
		return "", fmt.Errorf("keeping warm folders: %w", err)
	}
	return "", nil
}

// isRecent reports whether a set is recent enough: what it was made from outside of the repository may have changed without a trace.
func (w *warmFolders) isRecent(made *setInfo) bool {
	return made != nil && w.now().Sub(made.At).Abs() <= passes.Age
}

// coversSetup reports whether the folders are all that setup made.
func (w *warmFolders) coversSetup(ctx context.Context, j Job) (bool, error) {
	made, err := w.restorer.uncommitted(ctx, j)
	if err != nil {
		return false, err
	}
	ignored, err := w.repo.Index().Ignored(ctx, j.Worktree, NeverCommitted(j)...)
	if err != nil {
		return false, err
	}
	for _, path := range append(made, ignored...) {
		path = strings.TrimSuffix(path, "/")
		warm := func(name string) bool { return path == name || strings.HasPrefix(path, name+"/") }
		if path != runtimeDir && path != ".trellis" && !slices.ContainsFunc(j.Setup.Warm, warm) {
			return false, nil
		}
	}
	return true, nil
}

// removeOld removes the oldest sets, and old folders that are not sets: left by a process that was killed while it made one.
func (w *warmFolders) removeOld() error {
	list, err := os.ReadDir(w.folder)
	if err != nil {
		return fmt.Errorf("reading the folder of warm folders: %w", err)
	}
	made := map[warmSet]time.Time{}
	var sets, old []warmSet
	for _, e := range list {
		set := warmSet{filepath.Join(w.folder, e.Name())}
		st, err := e.Info()
		if err != nil {
			continue // another task removed it
		}
		switch is := set.info(); {
		case is != nil && !strings.HasPrefix(e.Name(), durable.TempPrefix):
			sets, made[set] = append(sets, set), is.At
		case w.now().Sub(st.ModTime()) > passes.Age:
			old = append(old, set)
		}
	}
	slices.SortFunc(sets, func(a, b warmSet) int { return made[b].Compare(made[a]) })
	for _, set := range append(old, sets[min(len(sets), maxWarmSets):]...) {
		if err := set.discard(w.folder); err != nil {
			return err
		}
	}
	return nil
}
