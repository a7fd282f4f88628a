package app

import (
	"context"
	"errors"
	"strings"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Issue reads the issue that a person names. Tracker settings apply only if they are trusted, since a token is sent where they
// say. Without trust, an issue on GitHub is still read, as far as that needs no settings.
func (p *Project) Issue(ctx context.Context, named string) (*tracker.Issue, error) {
	cfg, _ := p.Config() // its problems are reported before anything is planned
	ref, err := tracker.Parse(named, (&tracker.Access{Settings: cfg.Trackers}).Sites())
	if none, ok := errors.AsType[*tracker.RefError](err); ok {
		return nil, WithHints(Usagef("--from-issue %w", err), none.Next...)
	}
	settings, err := TrackerSettings(ctx, p)
	if ref.Kind == tracker.GitHub && errors.Is(err, trust.ErrUntrusted) {
		settings, err = config.Trackers{}, nil
	}
	if err != nil {
		return nil, err
	}
	i, err := (&tracker.Access{Settings: settings, Env: p.Env.CommandEnv(), Dir: p.Root}).Read(ctx, ref)
	if told, ok := errors.AsType[*tracker.Error](err); ok && len(told.Next) > 0 {
		err = WithHints(err, told.Next...)
	}
	if err != nil && ctx.Err() == nil {
		err = AsKind(ErrUsage, err)
	}
	return i, err
}

// TrackerSettings returns the tracker settings of a project that are trusted.
func TrackerSettings(ctx context.Context, p *Project) (config.Trackers, error) {
	q, err := p.InForce(ctx)
	if err != nil {
		return config.Trackers{}, err
	}
	cfg, err := q.ValidConfig()
	if err != nil {
		return config.Trackers{}, err
	}
	return cfg.Trackers, nil
}

// Blockers divides the issues that block i and are not done into those that a task here was made from, as task ids, and others.
func Blockers(s taskdir.Store, i *tracker.Issue) (tasks, others []string, err error) {
	from := map[string]string{}
	list, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, e := range list {
		if e.Task != nil && e.Task.Source.Issue != "" {
			from[strings.ToLower(e.Task.Source.Issue)] = e.Task.ID
		}
	}
	for _, b := range i.Blockers {
		switch id := from[strings.ToLower(b.Ref.String())]; {
		case b.Done:
		case id != "":
			tasks = append(tasks, id)
		default:
			others = append(others, trellis.VisibleLine(b.Ref.String()))
		}
	}
	return tasks, others, nil
}
