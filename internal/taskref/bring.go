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

// Bring makes the task directory here that of a state which was fetched. It appears whole; locks and what else is of this machine
// alone stay as they are. What stood there and is in no state that this clone pushed or brought is kept first, as the ref kept.
// A state that holds anything but plain files of a task is an error, and nothing changes then.
func (r Remote) Bring(ctx context.Context, s State) (kept string, err error) {
	if kept, err = r.bring(git.Hookless(ctx), s); err != nil {
		return kept, fmt.Errorf("bringing %s from %s: %w", s.Task, r.Name, err)
	}
	return kept, nil
}

func (r Remote) bring(ctx context.Context, s State) (kept string, err error) {
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
	kept, err = r.put(ctx, s.Task, r.opened(sealed))
	if err == nil {
		err = r.set(ctx, knownRefs+s.Task, s.Commit)
	}
	return kept, errors.Join(err, lock.Unlock())
}

// put has a task directory hold just these files, unless it does, and keeps what it held.
func (r Remote) put(ctx context.Context, task string, files []git.TreeFile) (kept string, err error) {
	dir := filepath.Join(r.Store.Tasks(), task)
	beside := besideOf(dir)
	if err := os.RemoveAll(beside); err != nil { // of who was killed here
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(beside)) }()
	d := directories{r.Store, r.Disk}
	if !durable.Exists(dir) {
		return "", d.place(dir, false, files)
	}
	if err := durable.RealFolder(dir); err != nil {
		return "", err
	}
	now, err := read(dir)
	if err != nil || r.whole(now, files) {
		return "", err
	}
	if kept, err = r.keep(ctx, task, now); err != nil {
		return "", err
	}
	if err = d.place(dir, true, files); err != nil {
		return kept, err
	}
	late, err := read(beside) // what people wrote since
	if err == nil && r.differ(now, late) {
		kept, err = r.keep(ctx, task, late)
	}
	if err != nil {
		err = errors.Join(err, r.Disk.Exchange(beside, dir))
	}
	return kept, err
}

// whole reports whether a directory says what a state does, and has all its files.
func (r Remote) whole(now, files []git.TreeFile) bool {
	if r.differ(now, files) {
		return false
	}
	return !slices.ContainsFunc(files, func(f git.TreeFile) bool {
		return !slices.ContainsFunc(now, func(n git.TreeFile) bool { return n.Path == f.Path })
	})
}

// Differs reports whether the task in dir says something else than a state that was fetched, transcripts aside.
func (r Remote) Differs(ctx context.Context, dir string, s State) (bool, error) {
	var now []git.TreeFile
	sealed, err := r.filesOf(ctx, s.Commit)
	if err == nil {
		now, err = read(dir)
	}
	if err != nil {
		return false, fmt.Errorf("comparing %s with what %s has: %w", filepath.Base(dir), r.Name, err)
	}
	return r.differ(now, r.opened(sealed)), nil
}

// differ reports whether two directories say different things. Both are sealed for that, since what one machine only talks of can be a
// folder of another.
func (r Remote) differ(a, b []git.TreeFile) bool {
	same := func(f, g git.TreeFile) bool { return f.Mode == g.Mode && bytes.Equal(f.Data, g.Data) }
	return !maps.EqualFunc(r.said(a), r.said(b), same)
}

func (r Remote) said(files []git.TreeFile) map[string]git.TreeFile {
	said := map[string]git.TreeFile{}
	for _, f := range r.sealed(files) {
		if kindOf(f.Path) != transcript {
			said[f.Path] = f
		}
	}
	return said
}

// keep keeps what stands in a task directory, to the byte, unless the state has it that this clone pushed or brought last. It is a backup
// like those of cleanup, by the paths that the files have in the main checkout.
func (r Remote) keep(ctx context.Context, task string, now []git.TreeFile) (ref string, err error) {
	known, err := r.Known(ctx, task)
	if err != nil {
		return "", err
	}
	if known != "" {
		sealed, err := r.filesOf(ctx, known)
		if err != nil || !r.differ(now, r.opened(sealed)) {
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

// backupRef is a free name for a backup that is made now.
func (r Remote) backupRef(ctx context.Context, task, what string) (string, error) {
	name := snapshot.BackupRefs + task + "/" + what + r.Store.Clock().UTC().Format("20060102T150405")
	for ref, n := name, 2; ; ref, n = fmt.Sprintf("%s-%d", name, n), n+1 {
		if taken, err := r.Repo.Refs().Find(ctx, ref); err != nil || taken == "" {
			return ref, err
		}
	}
}
