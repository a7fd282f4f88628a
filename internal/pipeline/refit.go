package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

// RefitFile is the file below run/ that describes a transferred worktree on this machine. It is not sent to other machines.
const RefitFile = "refit.json"

// refitting names the folder of the commands that Refit runs. It is not an activity of a journal: each machine refits for itself.
const refitting = "refit"

// refitted replaces, for a worktree that was transferred from another machine, what [Prepared] says of the one there.
type refitted struct {
	Run         string            `json:"run"` // <task>/<run number>
	At          time.Time         `json:"at"`
	Made        git.WorktreeID    `json:"made"`
	Fingerprint map[string]string `json:"fingerprint"`
	Hooks       map[string]string `json:"hooks"`
	Borrowed    []string          `json:"borrowed"`
}

// Refit makes a worktree that was transferred from another machine ready to work in: files that git does not have are copied and
// setup is run again, and its identity is recorded for whoever continues the run here. It does nothing for a run that has no
// worktree yet.
func (e *Effects) Refit(ctx context.Context, run string, at time.Time, p Progress) error {
	if p.Made == nil {
		return nil
	}
	job, pp := p.Claimed, e.preparer
	r := refitted{Run: run, At: at}
	var err error
	if r.Made, err = pp.repo.Worktrees().Identify(job.Worktree); err != nil {
		return e.guard.explain(err)
	}
	if _, err := pp.setup.copyFiles(ctx, job); err != nil {
		return err
	}
	if err := pp.setup.writePointer(job); err != nil {
		return err
	}
	if err := pp.refill(ctx, flow.Call{Run: run, ID: refitting, Attempt: 1}, job); err != nil {
		return err
	}
	if r.Hooks, err = pp.repo.Hooks().HookState(job.Worktree); err != nil {
		return err
	}
	if r.Borrowed, err = e.guard.recordObjects(nil); err != nil {
		return err
	}
	if r.Fingerprint, err = pp.environment.fingerprint(ctx, job); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding how %s was refitted: %w", run, err)
	}
	return pp.task.disk.WriteFile(filepath.Join(pp.task.runDir, RefitFile), data, 0o600)
}

// refill sets up a worktree in which agents have worked. Nothing of it is kept for other worktrees.
func (pp *preparer) refill(ctx context.Context, c flow.Call, j Job) error {
	if len(j.Setup.Warm) > 0 {
		if _, whole, err := pp.warm.copyInto(ctx, j); err != nil || whole {
			return err
		}
	}
	return pp.setup.runCommands(ctx, c, j)
}

// LoadRefit takes in what Refit recorded about a run's worktree on this machine. It is called after [Effects.LoadProgress].
func (e *Effects) LoadRefit(run string, p Progress) error {
	data, err := durable.ReadBelow(e.preparer.task.runDir, RefitFile, durable.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r refitted
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Join(taskdir.Run, RefitFile), err)
	}
	if r.Run != run || p.Made == nil {
		return nil
	}
	e.guard.SetMade(&r.Made)
	e.guard.SetHooks(r.Hooks)
	e.guard.SetObjects(r.At, r.Borrowed)
	e.preparer.environment.refitted = r.Fingerprint
	return nil
}
