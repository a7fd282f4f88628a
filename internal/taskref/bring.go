package taskref

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
		return "", fmt.Errorf("%q is no name of a task", s.Task)
	}
	sealed, err := r.filesOf(ctx, s.Commit)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(sealed, func(f git.TreeFile) bool { return f.Path == taskdir.TaskJSON }) {
		return "", errors.New("it has no task.json")
	}
	if err := r.Disk.MkdirAll(r.Store.Tasks(), 0o755); err != nil {
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
	if err := os.RemoveAll(besideOf(dir)); err != nil { // of who was killed here
		return "", err
	}
	there := exists(dir)
	if there {
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
	}
	return kept, r.replace(dir, there, files)
}

// whole reports whether a directory says what a state does, and has all its files.
func (r Remote) whole(now, files []git.TreeFile) bool {
	if len(r.differing(now, files)) > 0 {
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
	return len(r.differing(now, r.opened(sealed))) > 0, nil
}

// differing are the paths at which two directories say different things. Both are sealed for that, since what one machine only
// talks of can be a folder of another.
func (r Remote) differing(a, b []git.TreeFile) (paths []string) {
	x, y := r.said(a), r.said(b)
	for path, f := range x {
		if g, ok := y[path]; !ok || f.Mode != g.Mode || !bytes.Equal(f.Data, g.Data) {
			paths = append(paths, path)
		}
	}
	for path := range y {
		if _, ok := x[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
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
		if err != nil || len(r.differing(now, r.opened(sealed))) == 0 {
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
	_, err = r.Repo.Trees().CommitFiles(ctx, ref, "trellis: what was in "+task+" before the state of another machine took its place", r.now(), list, "")
	return ref, err
}

// backupRef is a free name for a backup that is made now.
func (r Remote) backupRef(ctx context.Context, task, what string) (string, error) {
	name := snapshot.BackupRefs + task + "/" + what + r.now().UTC().Format("20060102T150405")
	for ref, n := name, 2; ; ref, n = fmt.Sprintf("%s-%d", name, n), n+1 {
		if taken, err := r.at(ctx, ref); err != nil || taken == "" {
			return ref, err
		}
	}
}

// besideOf is where a task directory is made before it gets its name.
func besideOf(dir string) string {
	return filepath.Join(filepath.Dir(dir), durable.TempPrefix+filepath.Base(dir)+"-brought")
}

// replace gives a task directory other files. Who reads it sees the old ones or the new ones.
func (r Remote) replace(dir string, there bool, files []git.TreeFile) (err error) {
	beside := besideOf(dir)
	defer func() { err = errors.Join(err, os.RemoveAll(beside)) }()
	if err := r.lay(beside, files); err != nil {
		return err
	}
	if !there {
		return r.Disk.Rename(beside, dir)
	}
	if err := carryOver(dir, beside); err != nil {
		return err
	}
	return r.Disk.Exchange(beside, dir)
}

// lay writes a task directory.
func (r Remote) lay(dir string, files []git.TreeFile) error {
	if err := r.Disk.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if _, err := r.Store.RunDir(dir); err != nil {
		return err
	}
	folders := map[string]bool{}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		private := strings.HasPrefix(f.Path, taskdir.Run+"/")
		if err := os.MkdirAll(filepath.Dir(path), allowed(0o777, private)); err != nil {
			return err
		}
		for at := filepath.Dir(path); at != filepath.Dir(dir); at = filepath.Dir(at) {
			folders[at] = true
		}
		if err := r.write(path, f.Data, allowed(fs.FileMode(f.Mode)|0o222, private)); err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
	}
	for _, f := range files { // all are written by now: the first takes the disk most of the time that all take
		if err := r.sync(filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if err := r.Disk.SyncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

// allowed are permissions of a file or folder: what is below run/ is for its owner alone.
func allowed(mode fs.FileMode, private bool) fs.FileMode {
	if private {
		return mode & 0o700
	}
	return mode & 0o755
}

// write makes a file in a folder that nobody else knows yet.
func (r Remote) write(path string, data []byte, perm fs.FileMode) error {
	if err := r.Disk.Step("create", path); err != nil {
		return err
	}
	f, err := durable.OpenOwn(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	return errors.Join(r.Disk.Write(f, path, data), f.Close())
}

func (r Remote) sync(path string) error {
	f, err := durable.OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(r.Disk.Sync(f, path), f.Close())
}

// carryOver has a new directory have what no state brings: locks, which stay held as they are, and transcripts that were not shared.
func carryOver(from, to string) error {
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && file != from {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if k := kindOf(filepath.ToSlash(rel)); err != nil || k != own && k != transcript || strings.HasPrefix(d.Name(), durable.TempPrefix) {
			return err
		}
		at := filepath.Join(to, rel)
		if exists(at) {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.Link(file, at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}
