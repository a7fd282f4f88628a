package runner

import (
	"cmp"
	"context"

	"github.com/trellis-tasks/trellis/internal/pipeline"
)

// caughtUp reports whether work in review stands on its base as that is now, and has nothing that people did and nobody
// verified; or is to be delivered as it is all the same. Else a run is begun that brings it there, has it checked and then
// delivers it; so it is when that was cut off before.
func (s *Site) caughtUp(ctx context.Context, dir string, in pipeline.DeliverIn) (bool, error) {
	j, err := s.open(dir, nil, nil)
	if err != nil {
		return false, err
	}
	defer j.Close()
	h := j.History()
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return false, err
	}
	if !h.Ended {
		return false, s.resume(dir, p)
	}
	t, err := s.Store.Load(dir)
	if err == nil {
		err = s.over(ctx, t) // else a branch that was deleted with it would be pushed again
	}
	if err != nil {
		return false, err
	}
	with, err := s.strangers(ctx, in)
	if err != nil {
		return false, err
	}
	behind, err := s.TaskRunner().effects(dir).Upstream.Behind(ctx, in, cmp.Or(with.to, in.Report.Commit), true)
	if err != nil || behind == "" && !with.moved() {
		return true, err
	}
	said, err := with.takeIn(ctx) // before anything is made that could not be pushed
	if err != nil {
		return false, err
	}
	for _, text := range []string{said, behind} {
		if text != "" {
			s.Tell(Event{Task: t.ID, Message: t.ID + ": " + text})
		}
	}
	next, err := s.TaskRunner().input(ctx, dir, h, p, RunOptions{Deliver: true})
	if err != nil {
		return false, err
	}
	held := *p.Report
	held.Delivery.Pushed = held.Delivery.Pushed || t.PRURL != "" // others have seen it: it is merged, not made anew
	with.hold(&held)
	next.Undelivered, next.Revision = &held, max(p.Revision, t.Pipeline.Revision)
	next.Retries++
	if err := s.TaskRunner().beginRun(j, h, dir, next); err != nil {
		return false, err
	}
	return false, s.resume(dir, p)
}
