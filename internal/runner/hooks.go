package runner

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Hooks runs the project's own commands for events of a task.
type Hooks struct {
	config  config.Hooks
	store   taskdir.Store
	environ []string
	redact  func(string) string
	guard   trustGuard
	tell    func(Event)
}

// hook runs the project's own commands for what has happened to the task in dir. It waits for them; their failure makes
// nothing else fail.
func (hk Hooks) hook(ctx context.Context, e hooks.Event, dir, occasion string) {
	r := hooks.Runner{Config: hk.config, Store: hk.store, Env: hk.environ, Redact: hk.redact, Marker: runlock.Marker(dir),
		Say: func(text string) { hk.tell(Event{Task: filepath.Base(dir), Level: slog.LevelWarn, Message: text}) }}
	if !r.Any(e) {
		return
	}
	// Since the run began, a checkout may have brought other commands, or changed what they call.
	err := hk.guard.checkPrograms(ctx)
	if err == nil {
		err = hk.guard.checkCheckout(ctx, hk.store.Root)
	}
	if err != nil {
		r.Say("hooks." + string(e) + " of " + filepath.Base(dir) + " are not run: " + err.Error())
		return
	}
	r.Run(ctx, e, dir, occasion)
}

// RunAfterCancel runs the hooks for a task that was cancelled while no process executed its run. A process that executes it runs
// the hooks when the run ends.
func (hk Hooks) RunAfterCancel(ctx context.Context, dir string) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if _, held := Held(dir); err == nil && !held && h.Flow == pipeline.Flow && !h.Ended {
		hk.afterFinish(ctx, dir, h.Run, trellis.Cancelled)
	}
}

func (hk Hooks) afterFinish(ctx context.Context, dir, run string, now trellis.Status) {
	switch now {
	case trellis.Review, trellis.Completed, trellis.Failed, trellis.Cancelled:
		hk.hook(ctx, hooks.AfterFinish, dir, run)
	}
}
