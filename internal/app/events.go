package app

import (
	"context"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
)

// Events are what happens to the tasks of the project from now on, whoever works on them, until ctx is done; then the channel is
// closed. Whoever takes too long to receive is told later, and of everything.
func (p *Project) Events(ctx context.Context) (<-chan events.Event, error) {
	told := make(chan events.Event, 256)
	began := make(chan error, 1)
	feed := status.Feed{Store: p.Store, Decode: agents.Decoder, Now: p.Env.Now, Tell: func(e events.Event) {
		select {
		case told <- e:
		case <-ctx.Done():
		}
	}}
	go func() {
		defer close(told)
		err := feed.Run(ctx, func() { began <- nil })
		select {
		case began <- err:
		default: // it had begun: what can't be read any more ends it
		}
	}()
	if err := <-began; err != nil {
		return nil, err
	}
	return told, nil
}
