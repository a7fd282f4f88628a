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
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// restorer puts the worktree back to what it was before a call.
type restorer struct {
	place
}

// begin returns the worktree as it was when a call was entered for the first time, so that what its commands leave behind can be
// undone. What an interrupted attempt left is undone now; since a person may have worked there since, it is backed up first, and
// notes say where. The caller calls end with the error with which the call ended.
func (r *restorer) begin(ctx context.Context, c flow.Call, j Job) (snap *snapshot.Snapshot, notes []string, end func(*error), err error) {
	m := r.task.checkpoint(c)
	known, err := m.read()
	if err != nil {
		return nil, nil, nil, err
	}
	if known == "" {
		err = m.clear() // left by a run of the same number whose journal is gone
	}
	if err == nil {
		snap, err = snapshot.New(r.repo).SnapshotIn(ctx, m.path("objects"), j.Worktree, NeverCommitted(j)...)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if known == "" {
		err = m.write(snap.Tree)
	} else {
		notes, err = r.restoreTree(ctx, c, j, snap, known)
	}
	end = func(ended *error) { *ended = errors.Join(*ended, snap.Close(), m.end(*ended)) }
	if err != nil {
		return nil, nil, nil, errors.Join(err, snap.Close())
	}
	return snap, notes, end, nil
}

// restoreTree restores the worktree to the tree was, after backing up its current files.
func (r *restorer) restoreTree(ctx context.Context, c flow.Call, j Job, snap *snapshot.Snapshot, was string) (notes []string, err error) {
	if snap.Tree == was {
		return nil, nil
	}
	if notes, err = r.backUp(ctx, c, j); err == nil {
		_, err = snap.RestoreTo(ctx, was)
	}
	return notes, err
}

// backUp backs up what an interrupted attempt of a call left in the worktree.
func (r *restorer) backUp(ctx context.Context, c flow.Call, j Job) ([]string, error) {
	ref := r.task.backupRef(c)
	if _, err := snapshot.NewBackups(r.repo).Backup(ctx, j.Worktree, ref, "trellis: what was in the worktree of "+filepath.Base(r.task.dir)+" when "+c.ID+" was cut off"); err != nil {
		return nil, err
	}
	return []string{"what was changed in the worktree when " + c.ID + " was cut off, or after it, was undone; it is kept as " + ref}, nil
}

// finishEarlier cleans up what interrupted calls of an earlier run left in the worktree. If that worktree no longer exists, since
// it was removed to begin again, or made again before any work was in it, only their checkpoints are removed.
func (r *restorer) finishEarlier(ctx context.Context, c flow.Call, in prepareIn, made bool) (notes []string, err error) {
	var left []checkpoint
	err = filepath.WalkDir(r.task.runDir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == checkpointFolder {
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
			more, err = r.restoreCheckpoint(ctx, c, in.Job, m)
		}
		notes = append(notes, more...)
	}
	return notes, err
}

func (r *restorer) restoreCheckpoint(ctx context.Context, c flow.Call, j Job, m checkpoint) (notes []string, err error) {
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
		snap, err := snapshot.New(r.repo).SnapshotIn(ctx, m.path("objects"), j.Worktree, NeverCommitted(j)...)
		if err != nil {
			return notes, err
		}
		more, err := r.restoreTree(ctx, c, j, snap, was)
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

// strayPaths returns the uncommitted paths. It first removes the files and commits that commands of an interrupted attempt left.
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

// uncommitted returns the uncommitted paths of the worktree, except those of Trellis.
func (r *restorer) uncommitted(ctx context.Context, j Job) (paths []string, err error) {
	if _, err := os.Stat(j.Worktree); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	entries, err := r.repo.Index().Status(ctx, j.Worktree, NeverCommitted(j)...)
	for _, e := range entries {
		if e.Path != ".trellis/" { // which git lists for the excluded paths in it
			paths = append(paths, e.Path)
		}
	}
	return paths, err
}

// allCommitted is what baseline records, in front of the commit, if the worktree holds nothing uncommitted.
const allCommitted = "committed"

// uncommit removes the commits that commands of the project made since the branch ended in head, and notes that. What they changed
// stays in the worktree, uncommitted.
func (r *restorer) uncommit(ctx context.Context, c flow.Call, j Job, head, who string, notes []string) ([]string, error) {
	ref := r.task.backupRef(c) + "-commits"
	moved, err := snapshot.NewBackups(r.repo).Rewind(ctx, j.Worktree, j.Branch, head, ref)
	if moved {
		notes = append(notes, who+" made commits or left the branch, which was undone: what they committed is kept as "+ref)
	}
	return notes, err
}

// refuseLeftovers returns a failure if worktree.setup made commits, or left files that git would commit. They are backed up and undone.
func (r *restorer) refuseLeftovers(ctx context.Context, c flow.Call, j Job, was beforeSetup) error {
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
		notes = append(notes, "worktree.setup left what would be committed as the work, which was undone: "+strings.Join(shortList(left), ", ")+
			": have git ignore it, or let worktree.setup not change it (npm ci, say, where npm install writes the lockfile)")
	}
	return flow.Fail(string(trellis.HookFailed), "%s", strings.Join(notes, "; "))
}

// checkpointFolder is where a call keeps its checkpoint, in the call's own folder.
const checkpointFolder = "before"

// checkpoint is what the first attempt of a call records for later ones, in case it is interrupted. A power cut may lose it.
type checkpoint struct {
	dir string
	c   flow.Call
}

func (d *taskDir) checkpoint(c flow.Call) checkpoint {
	return checkpoint{filepath.Join(d.runDir, agentcall.Folder(c), checkpointFolder), c}
}

// maxCheckpoint is the maximum size of a checkpoint's files, in bytes. They hold a few hashes.
const maxCheckpoint = 64 << 10

func (m checkpoint) path(name string) string { return filepath.Join(m.dir, name) }

// read returns what an earlier attempt of this call recorded, "" for nothing.
func (m checkpoint) read() (string, error) {
	if m.c.Attempt == 1 {
		return "", nil
	}
	data, err := durable.ReadBelow(m.dir, "tree", maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading what %s began with: %w", m.c.ID, err)
	}
	if bytes.IndexByte(data, 0) >= 0 { // left by a power cut
		return "", nil
	}
	return string(data), nil
}

// headFile records the tip of the branch before preconditions, in the folder of their call.
const headFile = "head.json"

// head returns the recorded tip of the branch, "" if there is none: commands of the call may have made commits.
func (m checkpoint) head() (commit string) {
	data, err := durable.ReadBelow(filepath.Dir(m.dir), headFile, maxCheckpoint)
	if err != nil || json.Unmarshal(data, &commit) != nil {
		return ""
	}
	return commit
}

func (m checkpoint) write(what string) error { return writeNote(m.dir, "tree", m.c, []byte(what)) }

func (m checkpoint) clear() error {
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("clearing what %s began with: %w", m.c.ID, err)
	}
	return nil
}

// end removes the checkpoint, unless err kept the call from cleaning up: then the next attempt does, or the next run.
func (m checkpoint) end(err error) error {
	if err != nil && !errors.As(err, new(*flow.Failure)) {
		return nil
	}
	return m.clear()
}
