package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// inputSnapshot is what was read of a task's directory at one time. All that is derived from it comes from these bytes, which are
// also the ones that are judged: another branch may be checked out at any moment.
type inputSnapshot struct {
	hash        string            // of the files that count
	texts       map[string][]byte // of the files that count, by name
	unread      map[string]error  // why files can't be read, by name
	taskJSON    []byte            // task.json
	calledFiles map[string][]byte // files of the checkout that the plan calls, by path
	plan        *plan.Bundle      // with these files; nil if there is none, or it can't be read
	planErr     error             // why it can't be read
}

// frozenFiles are the files whose content counts, besides context files.
var frozenFiles = []string{taskdir.Requirement, taskdir.PRD, taskdir.Info, taskdir.Design, taskdir.Research, taskdir.TaskSpec, taskdir.Plan}

// intake reads the files of the task's directory that count.
type intake struct {
	place
	inputs *inputs
	trust  *trustJudge
}

func (ik *intake) read(t *taskdir.Task) (*inputSnapshot, error) {
	names, err := taskdir.ContextFiles(ik.task.dir)
	if err != nil {
		return nil, err
	}
	k, sum := &inputSnapshot{texts: map[string][]byte{}, unread: map[string]error{}, calledFiles: map[string][]byte{}, taskJSON: t.Raw}, sha256.New()
	for _, name := range append(slices.Clone(frozenFiles), names...) {
		data, err := taskdir.ReadFile(ik.task.dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			k.unread[name] = err
			fmt.Fprintf(sum, "%s unread\n", name)
			continue
		}
		k.texts[name] = data
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(data), data)
	}
	k.hash = hex.EncodeToString(sum.Sum(nil))
	k.plan, k.planErr = ik.loadPlan(k)
	return k, nil
}

// loadPlan returns the plan of a snapshot with the files that it calls, nil if there is none. If a file is missing that the run
// took in with this plan, another branch is checked out: the run is suspended until the file is back.
func (ik *intake) loadPlan(k *inputSnapshot) (*plan.Bundle, error) {
	if err := k.unread[taskdir.Plan]; err != nil {
		return nil, fmt.Errorf("reading plan.json: %w", err)
	}
	text, there := k.texts[taskdir.Plan]
	if !there {
		return nil, nil
	}
	var gone error
	b, err := bundleOf(text, ik.store.Rel(filepath.Join(ik.task.dir, taskdir.Plan)), func(path string) ([]byte, error) {
		data, err := durable.ReadBelow(ik.store.Root, path, plan.MaxBytes)
		if err == nil {
			k.calledFiles[path] = data
		}
		if old := ik.inputs.frozenBundle(text); errors.Is(err, fs.ErrNotExist) && old != nil && old.Plan(path) != nil {
			gone = fmt.Errorf("%w: %s, which plan.json calls, was taken in and is gone: check out the branch that has it", flow.ErrSuspended, path)
		}
		return data, err
	})
	return b, cmp.Or(gone, err)
}

// filesByPath returns all files that were read, by their paths from the root of the checkout.
func (ik *intake) filesByPath(k *inputSnapshot) map[string][]byte {
	at := func(name string) string { return filepath.ToSlash(ik.store.Rel(filepath.Join(ik.task.dir, name))) }
	all := map[string][]byte{at(taskdir.TaskJSON): k.taskJSON}
	for name, data := range k.texts {
		all[at(name)] = data
	}
	for path, data := range k.calledFiles {
		all[filepath.ToSlash(filepath.Clean(path))] = data
	}
	return all
}

// readTrusted reads the files of a task's directory that count.
func (ik *intake) readTrusted(ctx context.Context) (t *taskdir.Task, k *inputSnapshot, err error) {
	err = ik.trust.readTrusted(ctx, func() (map[string][]byte, error) {
		if t, err = retryWhileSaving(ctx, func() (*taskdir.Task, error) { return ik.store.Load(ik.task.dir) }); err != nil {
			return nil, err
		}
		if k, err = ik.read(t); err != nil {
			return nil, err
		}
		return ik.filesByPath(k), nil
	})
	return t, k, err
}

// judgeStable calls judge with a snapshot, and then compares the snapshot with the directory, which judge reads too. If it has
// changed, both are repeated: an approval of the current files does not count for those that were read. The run is suspended if
// the files keep changing. Files that are not valid may be half saved, and are judged again too.
func (ik *intake) judgeStable(ctx context.Context, judge func(*taskdir.Task, *inputSnapshot) error) (*taskdir.Task, error) {
	for end := time.Now().Add(Saving); ; {
		t, k, err := ik.readTrusted(ctx)
		if err != nil {
			return nil, err
		}
		verdict := judge(t, k)
		same, err := ik.unchanged(ctx, k)
		timeUp := time.Now().After(end)
		if err != nil || same && (timeUp || !isInvalidTask(verdict)) {
			return t, cmp.Or(err, verdict)
		}
		if timeUp {
			return nil, fmt.Errorf("%w: the files of %s are being changed", flow.ErrSuspended, filepath.Base(ik.task.dir))
		}
		if err := patience.Sleep(ctx, retryDelay); err != nil {
			return nil, err
		}
	}
}

// isInvalidTask reports whether err is about a file of the task that is not valid.
func isInvalidTask(err error) bool {
	f, ok := errors.AsType[*flow.Failure](err)
	return ok && f.Code == string(trellis.InvalidTask)
}

// unchanged reports whether the directory still is as it was read.
func (ik *intake) unchanged(ctx context.Context, k *inputSnapshot) (bool, error) {
	t, err := retryWhileSaving(ctx, func() (*taskdir.Task, error) { return ik.store.Load(ik.task.dir) })
	if err != nil {
		return false, err
	}
	now, err := ik.read(t)
	return err == nil && now.hash == k.hash && maps.EqualFunc(ik.filesByPath(now), ik.filesByPath(k), bytes.Equal), err
}
