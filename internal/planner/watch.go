package planner

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// watchCheckout looks whether the main checkout was changed while a planning agent, which may only read, was at work. People
// may be editing there, so a change is reported and stays.
func watchCheckout(main *agentcall.Checkout) func(context.Context, flow.Call, agentcall.Request) (agentcall.Watcher, error) {
	return func(ctx context.Context, _ flow.Call, _ agentcall.Request) (agentcall.Watcher, error) {
		before, err := main.Before(ctx, false)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
			after, err := main.Now(ctx)
			if err != nil {
				return nil, nil, err
			}
			for _, path := range after.Since(before) {
				notes = append(notes, path+" was changed while an agent that may only read was at work")
			}
			return notes, nil, nil
		}, nil
	}
}
