package runner

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Hooks runs the project's own commands at what happens to a task.
type Hooks struct{ *Site }

func (s *Site) Hooks() Hooks { return Hooks{s} }

// hook has the project's own commands run for what has happened to the task in dir. It waits for them, and nothing that
// they do fails anything.
func (s Hooks) hook(ctx context.Context, e hooks.Event, dir, occasion string) {
	r := hooks.Runner{Config: s.Config.Hooks, Store: s.Store, Env: s.Environ, Redact: s.Redact, Marker: runlock.Marker(dir),
		Say: func(text string) { s.Tell(Event{Task: filepath.Base(dir), Level: slog.LevelWarn, Message: text}) }}
	if !r.Any(e) {
		return
	}
	// A checkout may have brought others since the run began, and what they call.
	if err := cmp.Or(s.guard().trustedPrograms(ctx), s.guard().trustedHere(ctx, s.Store.Root)); err != nil {
		r.Say("hooks." + string(e) + " of " + filepath.Base(dir) + " are not run: " + err.Error())
		return
	}
	r.Run(ctx, e, dir, occasion)
}

// afterStart is stand, and has the hooks run once task.json says that a run began, which goes on when they have ended.
func (s Hooks) afterStart(ctx context.Context, dir string, run *string, stand func(pipeline.Standing)) func(pipeline.Standing) {
	return func(st pipeline.Standing) {
		stand(st)
		if st.Job != nil {
			s.hook(ctx, hooks.AfterStart, dir, *run)
		}
	}
}

// CalledOff has the hooks run for a task that was cancelled with a run that nobody is at. Who is at one does it when that
// ends.
func (s Hooks) CalledOff(ctx context.Context, dir string) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if _, held := Held(dir); err == nil && !held && h.Flow == pipeline.Flow && !h.Ended {
		s.afterFinish(ctx, dir, h.Run, trellis.Cancelled)
	}
}

// afterFinish has the hooks run when a run is over for good.
func (s Hooks) afterFinish(ctx context.Context, dir, run string, now trellis.Status) {
	switch now {
	case trellis.Review, trellis.Completed, trellis.Failed, trellis.Cancelled:
		s.hook(ctx, hooks.AfterFinish, dir, run)
	}
}
