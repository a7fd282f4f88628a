package taskref

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Import replaces the task directory here by that of a fetched state. The new directory appears complete; locks and other files
// of this machine only are preserved. Old contents that are in no state that this clone pushed or brought are first backed up
// in the ref kept. If a state holds anything except plain files of a task, Import returns an error, and changes nothing.
func (r Remote) Import(ctx context.Context, s State) (kept string, err error) {
	if kept, err = r.importState(git.Hookless(ctx), s); err != nil {
		return kept, fmt.Errorf("bringing %s from %s: %w", s.Task, r.Name, err)
	}
	return kept, nil
}

func (r Remote) importState(ctx context.Context, s State) (kept string, err error) {
	if !taskdir.ValidID(s.Task) {
		return "", fmt.Errorf("%q is not the name of a task", s.Task)
	}
	sealed, err := r.filesOf(ctx, s.Commit)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(sealed, func(f git.TreeFile) bool { return f.Path == taskdir.TaskJSON }) {
		return "", errors.New("it has no task.json")
	}
	if err := r.Store.MakeFolder(); err != nil {
		return "", err
	}
	lock, err := durable.WaitLock(ctx, filepath.Join(r.Repo.Common, "trellis-shared.lock"), durable.Holder{PID: os.Getpid()})
	if err != nil {
		return "", err
	}
	kept, err = r.replaceDir(ctx, s.Task, r.openFiles(sealed))
	if err == nil {
		err = r.setRef(ctx, knownRefs+s.Task, s.Commit)
	}
	return kept, errors.Join(err, lock.Unlock())
}

// replaceDir makes a task directory contain exactly these files, unless it already does, and backs up the old ones.
func (r Remote) replaceDir(ctx context.Context, task string, files []git.TreeFile) (kept string, err error) {
	dir := filepath.Join(r.Store.Tasks(), task)
	beside := besideOf(dir)
	if err := os.RemoveAll(beside); err != nil { // from a killed process
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(beside)) }()
	d := directories{r.Store, r.Disk}
	if !durable.Exists(dir) {
		return "", d.replaceFiles(dir, false, files)
	}
	if err := durable.RealFolder(dir); err != nil {
		return "", err
	}
	now, err := readTaskFiles(dir)
	if err != nil || r.isComplete(now, files) {
		return "", err
	}
	if kept, err = r.backUp(ctx, task, now); err != nil {
		return "", err
	}
	if err = d.replaceFiles(dir, true, files); err != nil {
		return kept, err
	}
	late, err := readTaskFiles(beside) // what people wrote meanwhile
	if err == nil && r.filesDiffer(now, late) {
		kept, err = r.backUp(ctx, task, late)
	}
	if err != nil {
		err = errors.Join(err, r.Disk.Exchange(beside, dir))
	}
	return kept, err
}

// isComplete reports whether a directory matches a state, and has all its files.
func (r Remote) isComplete(now, files []git.TreeFile) bool {
	if r.filesDiffer(now, files) {
		return false
	}
	return !slices.ContainsFunc(files, func(f git.TreeFile) bool {
		return !slices.ContainsFunc(now, func(n git.TreeFile) bool { return n.Path == f.Path })
	})
}

// Differs reports whether the task in dir differs from a fetched state, transcripts aside.
func (r Remote) Differs(ctx context.Context, dir string, s State) (bool, error) {
	var now []git.TreeFile
	sealed, err := r.filesOf(ctx, s.Commit)
	if err == nil {
		now, err = readTaskFiles(dir)
	}
	if err != nil {
		return false, fmt.Errorf("comparing %s with what %s has: %w", filepath.Base(dir), r.Name, err)
	}
	return r.filesDiffer(now, r.openFiles(sealed)), nil
}

// filesDiffer reports whether two directories differ. They are sealed for the comparison, since a path that one machine only
// mentions may be a folder of the other.
func (r Remote) filesDiffer(a, b []git.TreeFile) bool {
	same := func(f, g git.TreeFile) bool { return f.Mode == g.Mode && bytes.Equal(f.Data, g.Data) }
	return !maps.EqualFunc(r.filesToCompare(a), r.filesToCompare(b), same)
}

func (r Remote) filesToCompare(files []git.TreeFile) map[string]git.TreeFile {
	byPath := map[string]git.TreeFile{}
	for _, f := range r.sealFiles(files) {
		if kindOf(f.Path) != transcript {
			byPath[f.Path] = f
		}
	}
	return byPath
}

// backUp backs up the exact contents of a task directory, unless they are in the state that this clone pushed or brought last.
// The backup is like those of cleanup, with paths relative to the main checkout.
func (r Remote) backUp(ctx context.Context, task string, now []git.TreeFile) (ref string, err error) {
	known, err := r.Known(ctx, task)
	if err != nil {
		return "", err
	}
	if known != "" {
		sealed, err := r.filesOf(ctx, known)
		if err != nil || !r.filesDiffer(now, r.openFiles(sealed)) {
			return "", err
		}
	}
	list, folder := slices.Clone(now), filepath.ToSlash(r.Store.Rel(filepath.Join(r.Store.Tasks(), task)))
	for i := range list {
		list[i].Path = folder + "/" + list[i].Path
	}
	if ref, err = r.backupRef(ctx, task, snapshot.DirectoryBackup); err != nil {
		return "", err
	}
	_, err = r.Repo.Trees().CommitFiles(ctx, ref, "trellis: what was in "+task+" before the state of another machine took its place", r.Store.Clock(), list)
	return ref, err
}

// backupRef returns an unused name for a backup made now.
func (r Remote) backupRef(ctx context.Context, task, what string) (string, error) {
	name := snapshot.BackupRefs + task + "/" + what + r.Store.Clock().UTC().Format("20060102T150405")
	for ref, n := name, 2; ; ref, n = fmt.Sprintf("%s-%d", name, n), n+1 {
		if taken, err := r.Repo.Refs().Find(ctx, ref); err != nil || taken == "" {
			return ref, err
		}
	}
}
