package eval

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Planned is what a planning reports about itself. Everything else is read from its directory.
type Planned struct {
	Dir   string // of the task
	Calls int
	Usage trellis.Usage
	Cut   string // why it is incomplete, "" if it isn't
}

// Runner runs a planner on cases.
type Runner struct {
	// Plan plans one case in its repository. A failure of the planner is not an error; an error counts as a failure of this
	// case, and the run continues. Plan may be called concurrently.
	Plan     func(ctx context.Context, c Case, repo string) (Planned, error)
	Dir      string       // an existing folder; each case gets a repository in it, named by its id
	Parallel int          // number of cases planned at the same time; at least one
	Env      []string     // environment to find git
	Ended    func(Result) // called with the result of each case, never concurrently; may be nil
	Now      func() time.Time
}

// Run plans the cases and returns the results of those that ended, in the order of the cases. If ctx ends, the running cases are
// ended without a result, and the error is the cause. Any other error is one of the harness, which ends the run in the same way.
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
				res, err := r.planCase(ctx, cases[i])
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

// planCase plans a case in a separate repository. An error in reading the results is a failure of this case only: earlier cases may
// have cost money.
func (r Runner) planCase(ctx context.Context, c Case) (*Result, error) {
	repo := filepath.Join(r.Dir, c.ID)
	if err := c.Project.CreateRepository(ctx, repo, r.Env); err != nil {
		return nil, err
	}
	res, began := newResult(c), r.Now()
	p, err := r.Plan(ctx, c, repo)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	res.Seconds = r.Now().Sub(began).Seconds()
	res.Calls, res.Usage, res.Failure = p.Calls, p.Usage, p.Cut
	if err == nil {
		err = res.complete(c, repo, p.Dir)
	}
	if err != nil {
		res.Failure = err.Error()
	}
	return &res, nil
}
