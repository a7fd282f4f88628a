package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
)

// warmFolders keeps folders that worktree.setup filled at base before any agent was there, and copies them into other checkouts that
// have the same lock files. A copy shares nothing with what is kept but blocks of a file system that copies on write.
type warmFolders struct {
	repo        *git.Repo
	environment *fingerprinter
	restorer    *restorer
	disk        *durable.Disk
	folder      string
}

// mostWarm is how many sets of folders are kept: those that were used last.
const mostWarm = 3

// madeFile is the file of a set that says what it is. A set without one is none.
const madeFile = "made.json"

// madeOf is what a set of folders was made of.
type madeOf struct {
	Commit string   `json:"commit"`
	Setup  []string `json:"setup"`
	// Whole: setup made nothing else, so that it need not run where the folders are.
	Whole bool `json:"whole"`
}

// lockFiles are the names of files that say what an installation holds, or how it is done.
var lockFiles = []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", "yarn.lock", "bun.lock", "bun.lockb", ".npmrc", ".yarnrc.yml",
	"Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "go.mod", "go.sum", "go.work", "pyproject.toml", "uv.lock", "poetry.lock", "requirements.txt", "Gemfile", "Gemfile.lock", "composer.json", "composer.lock",
	".tool-versions", ".nvmrc", ".node-version", ".python-version", "mise.toml"}

// key names the set that fits a checkout in which setup has not run.
func (w *warmFolders) key(ctx context.Context, j Job) (string, error) {
	f, err := w.environment.fingerprint(ctx, j)
	if err != nil {
		return "", err
	}
	said := []string{"setup " + strings.Join(j.Setup.Run, "\x00"), "warm " + strings.Join(j.Setup.Warm, "\x00")}
	for _, line := range j.Setup.Run {
		for _, word := range strings.Fields(line) {
			if path, sum := w.environment.program(word); path != "" {
				said = append(said, word+" "+sum)
			}
		}
	}
	for name, hash := range f {
		if strings.HasPrefix(name, ofNetwork) {
			said = append(said, name+" "+hash)
		}
	}
	err = filepath.WalkDir(j.Worktree, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == ".trellis"):
			return fs.SkipDir
		case !e.Type().IsRegular() || !slices.Contains(lockFiles, e.Name()):
			return nil
		}
		rel, err := filepath.Rel(j.Worktree, path)
		if err != nil {
			return err
		}
		data, err := durable.ReadBelow(j.Worktree, rel, durable.AnySize)
		said = append(said, filepath.ToSlash(rel)+" "+brief(data))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading lock files: %w", err)
	}
	slices.Sort(said)
	sum := sha256.Sum256([]byte(strings.Join(said, "\n")))
	return hex.EncodeToString(sum[:8]), nil
}

// give copies the folders into a checkout in which setup has not run, and reports whether it need not: they are all that it makes.
// used is the set, "" when none fits.
func (w *warmFolders) give(ctx context.Context, j Job) (used string, whole bool, err error) {
	if len(j.Setup.Warm) == 0 {
		return "", false, nil
	}
	key, err := w.key(ctx, j)
	if err != nil {
		return "", false, err
	}
	set := filepath.Join(w.folder, key)
	data, err := durable.ReadBelow(set, madeFile, durable.MaxJournal)
	var made madeOf
	if err != nil || json.Unmarshal(data, &made) != nil {
		return "", false, nil // setup makes them
	}
	for _, name := range j.Setup.Warm {
		switch _, _, err := copyOne(set, j, name); {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			return "", false, nil
		case err != nil:
			return "", false, err
		}
	}
	return key, made.Whole, nil
}

// keep keeps the folders of a worktree that was just made at base, in which setup has run.
func (w *warmFolders) keep(ctx context.Context, j Job, key string) (err error) {
	if len(j.Setup.Warm) == 0 || len(j.Setup.Run) == 0 {
		return nil
	}
	head, err := w.repo.Refs().Head(ctx, j.Worktree)
	if err != nil || head != j.BaseCommit {
		return err
	}
	whole, err := w.whole(ctx, j)
	if err != nil {
		return err
	}
	if err := w.disk.MkdirAll(w.folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of warm folders: %w", err)
	}
	temp, err := os.MkdirTemp(w.folder, durable.TempPrefix)
	if err != nil {
		return fmt.Errorf("keeping warm folders: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	for _, name := range j.Setup.Warm {
		from, to := filepath.Join(j.Worktree, filepath.FromSlash(name)), filepath.Join(temp, filepath.FromSlash(name))
		if err := copyTree(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keeping %s: %w", name, err)
		}
	}
	said, err := json.Marshal(madeOf{head, j.Setup.Run, whole})
	if err != nil {
		return fmt.Errorf("saying what warm folders are of: %w", err)
	}
	if err := w.disk.WriteFile(filepath.Join(temp, madeFile), append(said, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(w.folder, key)); err != nil && !errors.Is(err, fs.ErrExist) { // another task was first
		return fmt.Errorf("keeping warm folders: %w", err)
	}
	return w.forget()
}

// whole reports whether the folders are all that setup made.
func (w *warmFolders) whole(ctx context.Context, j Job) (bool, error) {
	made, err := w.restorer.uncommitted(ctx, j)
	if err != nil {
		return false, err
	}
	ignored, err := w.repo.Index().Ignored(ctx, j.Worktree, Outside(j)...)
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

// forget removes the sets that were made longest ago.
func (w *warmFolders) forget() error {
	list, err := os.ReadDir(w.folder)
	if err != nil {
		return fmt.Errorf("reading the folder of warm folders: %w", err)
	}
	type set struct {
		path string
		made int64
	}
	var sets []set
	for _, e := range list {
		if st, err := os.Stat(filepath.Join(w.folder, e.Name(), madeFile)); err == nil {
			sets = append(sets, set{filepath.Join(w.folder, e.Name()), st.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(sets, func(a, b set) int { return int(min(1, max(-1, b.made-a.made))) })
	for _, s := range sets[min(len(sets), mostWarm):] {
		if err := os.RemoveAll(s.path); err != nil {
			return fmt.Errorf("removing old warm folders: %w", err)
		}
	}
	return nil
}
