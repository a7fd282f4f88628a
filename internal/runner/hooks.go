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

// Hooks runs the project's own commands at what happens to a task.
type Hooks struct {
	config  config.Hooks
	store   taskdir.Store
	environ []string
	redact  func(string) string
	guard   trustGuard
	tell    func(Event)
}

// hook has the project's own commands run for what has happened to the task in dir. It waits for them, and nothing that
// they do fails anything.
func (hk Hooks) hook(ctx context.Context, e hooks.Event, dir, occasion string) {
	r := hooks.Runner{Config: hk.config, Store: hk.store, Env: hk.environ, Redact: hk.redact, Marker: runlock.Marker(dir),
		Say: func(text string) { hk.tell(Event{Task: filepath.Base(dir), Level: slog.LevelWarn, Message: text}) }}
	if !r.Any(e) {
		return
	}
	// A checkout may have brought others since the run began, and what they call.
	err := hk.guard.trustedPrograms(ctx)
	if err == nil {
		err = hk.guard.trustedHere(ctx, hk.store.Root)
	}
	if err != nil {
		r.Say("hooks." + string(e) + " of " + filepath.Base(dir) + " are not run: " + err.Error())
		return
	}
	r.Run(ctx, e, dir, occasion)
}

// CalledOff has the hooks run for a task that was cancelled with a run that nobody is at. Who is at one does it when that
// ends.
func (hk Hooks) CalledOff(ctx context.Context, dir string) {
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
