// Package taskref keeps the state of tasks on refs of a git remote, so that one machine can go on where another stopped.
//
// refs/trellis/run/<task> is the task directory, refs/trellis/wip/<task> what its worktree held beside that. Both move in one
// push, and only from the state that whoever pushes had seen: of two that think that they have a task, one is told that it lost it. Records
// stay as people can use them on the machine where they are; on the way to others what is of one machine is replaced by marks, see Places.
// docs/internals/shared-state.md is the format.
package taskref

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Refs of the remote, below which the name of the task follows.
const (
	runRefs   = git.OwnPrefix + "run/"
	wipRefs   = git.OwnPrefix + "wip/"
	orderRefs = git.OwnPrefix + "order/"
	gateRefs  = git.OwnPrefix + "gate/"
)

// gateRef is a ref of the remote that each claim moves which has to fit beside others.
const gateRef = gateRefs + "claims"

// Refs of this repository alone. The last is what was made to be pushed, of which nobody may have heard whether it was.
const (
	remoteRefs  = git.OwnPrefix + "remote/"
	knownRefs   = git.OwnPrefix + "known/"
	pendingRefs = git.OwnPrefix + "pending/"
)

// Claim is who has a task. The zero value is nobody.
type Claim struct {
	Machine string // the id of a clone
	Host    string // its name, for people
	Since   time.Time
}

// State is a task as a remote has it.
type State struct {
	Task   string // name of the directory
	Commit string // that the ref names: it has the directory
	Claim  Claim
	Status trellis.Status // by the word of who saved it, as all that follows
	Until  time.Time      // when a task that waits goes on by itself; zero: it does not
	Branch string         // of the work, "" before there is any
	Head   string         // commit that the branch ends in
	Work   string         // commit that has what the worktree held beyond that, or Head
	Worker string         // the id of the clone whose worktree that was
	At     time.Time
	By     string    // the id of the clone that saved it
	From   string    // the name of its machine, for people
	Build  string    // version of the saver
	Turn   time.Time // when the task was given to a machine last, by the clock of who gives it; zero: nobody gives tasks

	Spending Spending // what agents of all machines used, as far as the saver had heard
}

// ErrLost matches a *LostError.
var ErrLost = errors.New("another machine has the task")

// LostError says that a remote has another state of a task than the one that was to be replaced. Nothing was pushed.
type LostError struct {
	Task string
	Now  string // commit that is there, "": the task is gone
}

func (e *LostError) Error() string {
	if e.Now == "" {
		return fmt.Sprintf("%s is no longer shared: somebody took it off the remote", e.Task)
	}
	return fmt.Sprintf("%v: the remote has another state of %s (%.12s)", ErrLost, e.Task, e.Now)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// LocalError says that a task can't be saved as it is here, whatever the remote says.
type LocalError struct{ err error }

func (e *LocalError) Error() string { return e.err.Error() }
func (e *LocalError) Unwrap() error { return e.err }

// Remote is a git remote that tasks of a repository are shared by. What changes one task, Save, Beat, Bring, BringWork and Drop, is called
// once at a time for it, by one process: who has its run lock.
type Remote struct {
	Repo        *git.Repo
	Name        string // of the remote, or its address
	Store       taskdir.Store
	Places      Places
	Host        string // name of this machine, for people
	Disk        *durable.Disk
	Build       string          // version of this program
	Exclude     []string        // paths in worktrees that stay on this machine, settings that were copied there, say
	Transcripts bool            // what agents were told and wrote is shared, too
	Limit       time.Duration   // of a fetch or push; 0 is two minutes
	Spending    func() Spending // is told with each state; nil: nothing is
}

func (r Remote) limit() time.Duration {
	const usual = 2 * time.Minute
	if r.Limit > 0 {
		return r.Limit
	}
	return usual
}

func (r Remote) spending() Spending {
	if r.Spending == nil {
		return nil
	}
	return r.Spending()
}

// Fetch asks the remote for the states of all tasks, and for orders, both sorted by name. Refs that are none, by their names or by what
// they hold, are not among them. Of this repository nothing changes but refs of Trellis.
func (r Remote) Fetch(ctx context.Context) ([]State, []Order, error) {
	ctx = git.Hookless(ctx)
	var specs []string
	for _, refs := range []string{runRefs, orderRefs, gateRefs} {
		specs = append(specs, "+"+refs+"*:"+remoteRefs+strings.TrimPrefix(refs, git.OwnPrefix)+"*")
	}
	if err := r.Repo.Remotes().FetchRefs(ctx, r.Name, r.limit(), specs...); err != nil {
		return nil, nil, err
	}
	return r.Seen(ctx)
}

// Seen are the states and orders that were fetched last.
func (r Remote) Seen(ctx context.Context) (states []State, orders []Order, err error) {
	list, err := r.list(ctx, remoteRefs+"run/", remoteRefs+"order/", pendingRefs, knownRefs)
	if err != nil {
		return nil, nil, err
	}
	own := map[string]string{} // by ref
	for _, n := range list {
		own[n.ref] = n.commit
	}
	for _, n := range list {
		if id, ok := strings.CutPrefix(n.ref, remoteRefs+"order/"); ok {
			if o, ok := parseOrder(id, n.message); ok {
				orders = append(orders, o)
			}
			continue
		}
		task, ok := strings.CutPrefix(n.ref, remoteRefs+"run/")
		s, fits := parseState(task, n.commit, n.message)
		if !ok || !fits {
			continue
		}
		states = append(states, s)
		if own[pendingRefs+task] == s.Commit && own[knownRefs+task] != s.Commit { // it got there, and nobody told us
			if err := r.set(ctx, knownRefs+task, s.Commit); err != nil {
				return nil, nil, err
			}
		}
	}
	return states, orders, nil
}

// Known is the state of a task that this clone pushed or brought last, "" when there is none.
func (r Remote) Known(ctx context.Context, task string) (string, error) {
	return r.Repo.Refs().Find(ctx, knownRefs+task)
}

// KnownAll are those states of all tasks, by task.
func (r Remote) KnownAll(ctx context.Context) (map[string]string, error) {
	list, err := r.list(ctx, knownRefs)
	known := map[string]string{}
	for _, n := range list {
		known[strings.TrimPrefix(n.ref, knownRefs)] = n.commit
	}
	return known, err
}

// set has a ref of this repository name a commit, wherever it was.
func (r Remote) set(ctx context.Context, ref, commit string) error {
	old, err := r.Repo.Refs().Find(ctx, ref)
	if err != nil {
		return err
	}
	return r.Repo.Refs().MoveRef(ctx, ref, commit, old)
}

// drop takes a ref of this repository away.
func (r Remote) drop(ctx context.Context, ref string) error {
	old, err := r.Repo.Refs().Find(ctx, ref)
	if err != nil || old == "" {
		return err
	}
	return r.Repo.Refs().DeleteRef(ctx, ref, old)
}

// named is a ref with the message of the commit that it names.
type named struct{ ref, commit, message string }

// list are the refs below some names, sorted, as far as they name commits.
func (r Remote) list(ctx context.Context, under ...string) (list []named, err error) {
	const fields = 4 // no message has a NUL
	args := append([]string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(objecttype)%00%(contents)%00"}, under...)
	out, _, err := r.Repo.Run(ctx, git.Command{Dir: r.Repo.Main, Args: args})
	if err != nil {
		return nil, fmt.Errorf("listing what was fetched: %w", err)
	}
	parts := strings.Split(out, "\x00")
	for ; len(parts) > fields; parts = parts[fields:] {
		if parts[2] == "commit" {
			list = append(list, named{strings.TrimPrefix(parts[0], "\n"), parts[1], parts[3]})
		}
	}
	return list, nil
}
