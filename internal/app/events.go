package app

import (
	"context"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
)

// Events returns a channel of what happens to the project's tasks from now on, whoever works on them. It is closed when ctx is
// done. A slow receiver gets events later, but all of them.
func (p *Project) Events(ctx context.Context) (<-chan events.Event, error) {
	ch := make(chan events.Event, 256)
	began := make(chan error, 1)
	feed := status.Feed{Store: p.Store, Decode: agents.Decoder, Now: p.Env.Now, Emit: func(e events.Event) {
		select {
		case ch <- e:
		case <-ctx.Done():
		}
	}}
	go func() {
		defer close(ch)
		err := feed.Run(ctx, func() { began <- nil })
		select {
		case began <- err:
		default: // the feed had begun: a read error only ends it
		}
	}()
	if err := <-began; err != nil {
		return nil, err
	}
	return ch, nil
}
