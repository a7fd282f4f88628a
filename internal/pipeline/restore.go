package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// restorer puts the worktree back to what it was before a call.
type restorer struct {
	repo *git.Repo
	task *taskDir
}

// begin is the worktree as it was when a call was entered for the first time, so that what its commands leave behind can
// be undone. What those of an entry that was cut off left is undone now; since a person may have worked there since, it
// is saved first, and notes say where. The caller calls end when it is done, with how it ended.
func (r *restorer) begin(ctx context.Context, c flow.Call, j Job) (snap *snapshot.Snapshot, notes []string, end func(*error), err error) {
	m := r.task.checkpoint(c)
	known, err := m.read()
	if err != nil {
		return nil, nil, nil, err
	}
	if known == "" {
		err = m.clear() // of a run of the same number whose journal is gone
	}
	if err == nil {
		snap, err = snapshot.New(r.repo).SnapshotIn(ctx, m.path("objects"), j.Worktree, Outside(j)...)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if known == "" {
		err = m.write(snap.Tree)
	} else {
		notes, err = r.takeBack(ctx, c, j, snap, known)
	}
	end = func(ended *error) { *ended = errors.Join(*ended, snap.Close(), m.end(*ended)) }
	if err != nil {
		return nil, nil, nil, errors.Join(err, snap.Close())
	}
	return snap, notes, end, nil
}

// takeBack makes the worktree again what it was, once what it is now is saved.
func (r *restorer) takeBack(ctx context.Context, c flow.Call, j Job, snap *snapshot.Snapshot, was string) (notes []string, err error) {
	if snap.Tree == was {
		return nil, nil
	}
	if notes, err = r.backUp(ctx, c, j); err == nil {
		_, err = snap.Back(ctx, was)
	}
	return notes, err
}

// backUp saves what an entry of a call that was cut off left in the worktree.
func (r *restorer) backUp(ctx context.Context, c flow.Call, j Job) ([]string, error) {
	ref := r.task.backupRef(c)
	if _, err := snapshot.NewBackups(r.repo).Backup(ctx, j.Worktree, ref, "trellis: what was in the worktree of "+filepath.Base(r.task.dir)+" when "+c.ID+" was cut off"); err != nil {
		return nil, err
	}
	return []string{"what was changed in the worktree when " + c.ID + " was cut off, or after it, was undone; it is kept as " + ref}, nil
}

// finishEarlier puts right what a call of an earlier run left in the worktree, which did not come so far itself. Of one that is no more
// nothing is left: it was taken away to begin afresh, or made again before any work was in it.
func (r *restorer) finishEarlier(ctx context.Context, c flow.Call, in prepareIn, made bool) (notes []string, err error) {
	var left []checkpoint
	err = filepath.WalkDir(r.task.runDir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == memoFolder {
			left = append(left, checkpoint{path, flow.Call{Run: c.Run, ID: c.ID, Attempt: c.Attempt + 1}})
			return fs.SkipDir
		}
		return err
	})
	for _, m := range left {
		var more []string
		switch {
		case err != nil:
		case in.Fresh, made && !in.Begun:
			err = m.clear()
		default:
			more, err = r.putBack(ctx, c, in.Job, m)
		}
		notes = append(notes, more...)
	}
	return notes, err
}

func (r *restorer) putBack(ctx context.Context, c flow.Call, j Job, m checkpoint) (notes []string, err error) {
	was, err := m.read()
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(was, allCommitted):
		var out Checks
		_, err = r.strayPaths(ctx, c, j, m, &out)
		notes = out.Notes
	case was != "":
		if head := m.head(); head != "" {
			if notes, err = r.uncommit(ctx, c, j, head, "a precondition", nil); err != nil {
				return notes, err
			}
		}
		snap, err := snapshot.New(r.repo).SnapshotIn(ctx, m.path("objects"), j.Worktree, Outside(j)...)
		if err != nil {
			return notes, err
		}
		more, err := r.takeBack(ctx, c, j, snap, was)
		notes = append(notes, more...)
		if err = errors.Join(err, snap.Close()); err != nil {
			return notes, err
		}
	}
	if err != nil {
		return notes, err
	}
	return notes, m.clear()
}

// strayPaths are the paths that are not committed. What the commands of an entry left that was cut off is taken away, with their commits.
func (r *restorer) strayPaths(ctx context.Context, c flow.Call, j Job, m checkpoint, out *Checks) (left []string, err error) {
	was, err := m.read()
	if err != nil {
		return nil, err
	}
	head, cutOff := strings.CutPrefix(was, allCommitted)
	if head = strings.TrimSpace(head); head != "" {
		out.Notes, err = r.uncommit(ctx, c, j, head, "the checks", out.Notes)
	}
	if err == nil {
		left, err = r.uncommitted(ctx, j)
	}
	if err != nil || len(left) == 0 || !cutOff {
		return left, err
	}
	notes, err := r.backUp(ctx, c, j)
	if err == nil {
		_, err = snapshot.NewBackups(r.repo).Discard(ctx, j.Worktree, "", left...)
	}
	out.Notes = append(out.Notes, notes...)
	return nil, err
}

// uncommitted are the paths of the worktree that are not committed, our own left out.
func (r *restorer) uncommitted(ctx context.Context, j Job) (paths []string, err error) {
	if _, err := os.Stat(j.Worktree); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	entries, err := r.repo.Index().Status(ctx, j.Worktree, Outside(j)...)
	for _, e := range entries {
		if e.Path != ".trellis/" { // which git names for what is left out in it
			paths = append(paths, e.Path)
		}
	}
	return paths, err
}

// allCommitted is what baseline notes, before the commit, when nothing stands in the worktree that is not committed.
const allCommitted = "committed"

// uncommit takes commits away that commands of the project made since the branch ended in head, and notes it. What they hold stands in
// the worktree then, uncommitted.
func (r *restorer) uncommit(ctx context.Context, c flow.Call, j Job, head, who string, notes []string) ([]string, error) {
	ref := r.task.backupRef(c) + "-commits"
	moved, err := snapshot.NewBackups(r.repo).Rewind(ctx, j.Worktree, j.Branch, head, ref)
	if moved {
		notes = append(notes, who+" made commits or left the branch, which was undone: what they committed is kept as "+ref)
	}
	return notes, err
}

// refuseLeft fails where worktree.setup left what git would commit, or made a commit itself. It is undone, and saved.
func (r *restorer) refuseLeft(ctx context.Context, c flow.Call, j Job, was beforeSetup) error {
	notes, err := r.uncommit(ctx, c, j, was.Head, "worktree.setup", nil)
	if err != nil {
		return err
	}
	left, err := r.uncommitted(ctx, j)
	left = slices.DeleteFunc(left, func(path string) bool { return slices.Contains(was.Uncommitted, path) })
	if err != nil || len(left)+len(notes) == 0 {
		return err
	}
	if _, err := snapshot.NewBackups(r.repo).Discard(ctx, j.Worktree, r.task.backupRef(c), left...); err != nil {
		return err
	}
	if len(left) > 0 {
		notes = append(notes, "worktree.setup left what would be committed as the work, which was undone: "+strings.Join(few(left), ", ")+
			": have git ignore it, or let worktree.setup not change it (npm ci, say, where npm install writes the lockfile)")
	}
	return flow.Fail(string(trellis.HookFailed), "%s", strings.Join(notes, "; "))
}

// memoFolder is where a call keeps its memo, in its own folder.
const memoFolder = "before"

// checkpoint is what the first entry of a call notes for those after it, in case that it is cut off. A power cut may take it.
type checkpoint struct {
	dir string
	c   flow.Call
}

func (d *taskDir) checkpoint(c flow.Call) checkpoint {
	return checkpoint{filepath.Join(d.runDir, agentcall.Folder(c), memoFolder), c}
}

// maxMemo is the most that a memo says: a few hashes.
const maxMemo = 64 << 10

func (m checkpoint) path(name string) string { return filepath.Join(m.dir, name) }

// read is what an earlier entry of this call noted, "" for nothing.
func (m checkpoint) read() (string, error) {
	if m.c.Attempt == 1 {
		return "", nil
	}
	data, err := durable.ReadBelow(m.dir, "tree", maxMemo)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading what %s began with: %w", m.c.ID, err)
	}
	if bytes.IndexByte(data, 0) >= 0 { // what a power cut left
		return "", nil
	}
	return string(data), nil
}

// headFile is where the branch ended before preconditions, in the folder of their call.
const headFile = "head.json"

// head is where the branch ended, "" where that was not noted: commands of the call may commit.
func (m checkpoint) head() (commit string) {
	data, err := durable.ReadBelow(filepath.Dir(m.dir), headFile, maxMemo)
	if err != nil || json.Unmarshal(data, &commit) != nil {
		return ""
	}
	return commit
}

func (m checkpoint) write(what string) error { return noteIn(m.dir, "tree", m.c, []byte(what)) }

func (m checkpoint) clear() error {
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("clearing what %s began with: %w", m.c.ID, err)
	}
	return nil
}

// end forgets it, unless the call did not come so far as to put things right: then the next entry does, or the next run.
func (m checkpoint) end(err error) error {
	if err != nil && !errors.As(err, new(*flow.Failure)) {
		return nil
	}
	return m.clear()
}
