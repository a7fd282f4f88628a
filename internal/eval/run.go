package eval

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Planned is what a planning says of itself. All else is read from its directory.
type Planned struct {
	Dir   string // of the task
	Calls int
	Usage trellis.Usage
	Cut   string // why it is not at its end, "" when it is
}

// Runner takes cases through a planner.
type Runner struct {
	// Plan plans one case in its repository. A planner that failed is no error; an error is a failure of
	// this case too, and cases after it are planned. Several calls may be under way at once.
	Plan     func(ctx context.Context, c Case, repo string) (Planned, error)
	Dir      string       // an existing folder, where each case gets a repository of its id
	Parallel int          // cases that are planned at once; at least one
	Env      []string     // where git is found
	Ended    func(Result) // told of each case as it ends, one at a time; nil: nobody is
	Now      func() time.Time
}

// Run plans the cases and returns the results of those that ended, in the order of the cases. When ctx
// ends, so do the cases under way, which then have no result, and the error is the cause. The error is
// of the harness also when it is another.
func (r Runner) Run(ctx context.Context, cases []Case) ([]Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	results := make([]*Result, len(cases))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, r.Parallel) {
		workers.Go(func() {
			for i := range next {
				res, err := r.one(ctx, cases[i])
				if err != nil {
					stop(err)
					continue
				}
				mu.Lock()
				results[i] = res
				if r.Ended != nil {
					r.Ended(*res)
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < len(cases) && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	ended := []Result{}
	for _, res := range results {
		if res != nil {
			ended = append(ended, *res)
		}
	}
	return ended, context.Cause(ctx)
}

// one plans a case in a repository of its own. What can't be read afterwards is a failure of this case
// alone: those before it may have cost money.
func (r Runner) one(ctx context.Context, c Case) (*Result, error) {
	repo := filepath.Join(r.Dir, c.ID)
	if err := c.Project.Lay(ctx, repo, r.Env); err != nil {
		return nil, err
	}
	res, began := begin(c), r.Now()
	p, err := r.Plan(ctx, c, repo)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	res.Seconds = r.Now().Sub(began).Seconds()
	res.Calls, res.Usage, res.Failure = p.Calls, p.Usage, p.Cut
	if err == nil {
		err = res.judge(c, repo, p.Dir)
	}
	if err != nil {
		res.Failure = err.Error()
	}
	return &res, nil
}
