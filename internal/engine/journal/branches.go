package journal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// group is one call of All.
type group struct {
	*handle
	limit    int // branches running at a time, 0: no limit
	branches []flow.Branch
	errs     []error
	started  []bool
	ended    map[string]bool
	running  int
	changed  bool // a branch ended since this was last reset
}

func (h *handle) All(n int, branches ...flow.Branch) error {
	err := h.enter("All")
	defer h.leave(err)
	if err != nil {
		return err
	}
	if err := checkBranches(branches); err != nil {
		return h.haltDiverged("All: %v", err)
	}
	g := &group{handle: h, limit: n, branches: branches, ended: map[string]bool{},
		errs: make([]error, len(branches)), started: make([]bool, len(branches))}
	return g.run()
}

// checkBranches returns an error for branches whose ids would clash or that would wait forever.
func checkBranches(branches []flow.Branch) error {
	ended := map[string]bool{}
	for _, b := range branches {
		if _, double := ended[b.Name]; double || !isLegalName(b.Name) {
			return fmt.Errorf("%q is not a name for a branch, or two have it", b.Name)
		}
		ended[b.Name] = false
	}
	for left := len(branches); left > 0; {
		before := left
		for _, b := range branches {
			if !ended[b.Name] && containsAll(ended, b.After) {
				ended[b.Name] = true
				left--
			}
		}
		if left == before {
			return errors.New("branches come after each other in a circle, or after one that is not there")
		}
	}
	return nil
}

func containsAll(set map[string]bool, names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return !set[n] })
}

// run starts branches as soon as they may start, in the order of the list, and returns when all have ended, even if the engine
// stops: a branch learns of that from its first call.
func (g *group) run() error {
	e := g.engine
	for {
		for i, b := range g.branches {
			if !g.started[i] && containsAll(g.ended, b.After) && (g.limit <= 0 || g.running < g.limit) {
				g.start(i)
			}
		}
		if g.running == 0 {
			return errors.Join(g.errs...)
		}
		g.changed = false
		e.wait(&waiter{ready: func() bool { return g.changed }})
	}
}

func (g *group) start(i int) {
	g.started[i] = true
	g.running++
	g.engine.running++
	g.engine.branches.Go(func() { g.runBranch(i) })
}

// runBranch runs one branch in its goroutine, with a separate flow.
func (g *group) runBranch(i int) {
	e, b := g.engine, g.branches[i]
	path := g.scope.path + b.Name + "/"
	e.mu.Lock()
	own := &handle{e, e.scope(path), &thread{path: path}, g.shielded}
	e.mu.Unlock()
	err := error(flow.ErrSuspended) // stays if the goroutine ends without a return
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		own.thread.returned = true
		g.errs[i] = err
		g.ended[b.Name], g.changed = true, true
		g.running--
		e.wakeWaiters()
		e.goroutineIdle()
	}()
	_, err = safely(func() (struct{}, error) { return struct{}{}, b.Run(own) })
}
