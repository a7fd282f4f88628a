package workflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
)

// Limits for what a grade agent is shown of a change, in bytes. It can read the files.
const (
	diffCap = 48 << 10
	statCap = 4 << 10
)

// tree returns the current tree of the checkout, "" outside of a repository.
func (a *Effects) tree(ctx context.Context, c flow.Call, dir string) (string, error) {
	if a.Repo == nil {
		return "", nil
	}
	snap, err := a.snapshot(ctx, c, dir)
	if err != nil {
		return "", err
	}
	return snap.Tree, snap.Close()
}

// snapshot takes a snapshot of the checkout that a step works in. All snapshots of a run keep their objects in one folder, so that
// a later process too can compute a step's change when the step is over.
func (a *Effects) snapshot(ctx context.Context, c flow.Call, dir string) (*snapshot.Snapshot, error) {
	root, err := Checkout(a.workDir(dir))
	if err != nil {
		return nil, fmt.Errorf("looking for the checkout of %s: %w", a.workDir(dir), err)
	}
	objects := filepath.Join(a.RunDir, agentcall.Folder(flow.Call{Run: c.Run, ID: "objects"}))
	return snapshot.New(a.Repo).SnapshotIn(ctx, objects, root, a.Except...)
}

// Checkout returns the root of the checkout that a folder of a repository is in.
func Checkout(dir string) (string, error) {
	start, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	for at := start; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at, nil
		}
	}
	return start, nil
}

// change returns a step's change as a patch, preceded by a list of files if the patch is too long to be shown in full. If git no
// longer has the tree from before the step, the patch is "", and a note says so.
func (a *Effects) change(ctx context.Context, c flow.Call, d PromptData) (diff string, notes []string, err error) {
	if d.Tree == "" || a.Repo == nil {
		return "", nil, nil
	}
	snap, err := a.snapshot(ctx, c, d.Dir)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if snap.Tree == d.Tree {
		return "Git sees no difference. It does not look at files that it ignores.", nil, nil
	}
	diff, err = snap.Diff(ctx, d.Tree, diffCap)
	if err == nil && len(diff) > diffCap {
		var stat string
		stat, err = snap.DiffStat(ctx, d.Tree)
		diff = head([]byte(stat), statCap) + "\n" + diff
		notes = append(notes, fmt.Sprintf("the change of %s is not shown in full: it has more than %d bytes", d.Path, diffCap))
	}
	if errors.As(err, new(*git.Error)) && ctx.Err() == nil {
		return "", []string{fmt.Sprintf("the change of %s is not shown: %v", d.Path, err)}, nil
	}
	return diff, notes, err
}
