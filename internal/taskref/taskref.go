// Package taskref keeps the state of tasks on refs of a git remote, so that one machine can continue where another stopped.
//
// refs/trellis/run/<task> is the task directory, refs/trellis/wip/<task> what its worktree held beyond that. Both are moved by
// one push, and only from the state that the pusher had seen: if two machines both believe that they have a task, one of them
// gets a *LostError. On each machine, records are in the form that people can use there; for other machines, whatever is
// specific to one machine is replaced by marks, see Places. docs/internals/shared-state.md is the format.
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

// Refs of the remote, followed by the name of the task.
const (
	runRefs   = git.OwnPrefix + "run/"
	wipRefs   = git.OwnPrefix + "wip/"
	orderRefs = git.OwnPrefix + "order/"
	gateRefs  = git.OwnPrefix + "gate/"
)

// gateRef is a ref of the remote that is moved by each claim that must be compatible with concurrent ones.
const gateRef = gateRefs + "claims"

// Local refs. Below pendingRefs are commits that were made to be pushed; whether the push succeeded may be unknown.
const (
	remoteRefs  = git.OwnPrefix + "remote/"
	knownRefs   = git.OwnPrefix + "known/"
	pendingRefs = git.OwnPrefix + "pending/"
)

// Claim says which machine has a task. The zero value means none.
type Claim struct {
	Machine string // id of the clone
	Host    string // name of the machine, for people
	Since   time.Time
}

// State is the state of a task on a remote.
type State struct {
	Task   string // name of the directory
	Commit string // the commit of the ref, with the task directory
	Claim  Claim
	Status trellis.Status // according to the saver, as all fields below
	Until  time.Time      // when a waiting task continues by itself; zero: it does not
	Branch string         // branch of the work, "" before there is any
	Head   string         // tip of the branch
	Work   string         // commit with what the worktree held beyond Head; otherwise Head
	Worker string         // id of the clone with that worktree
	At     time.Time
	By     string    // id of the clone that saved the state
	From   string    // name of that machine, for people
	Build  string    // program version of the saver
	Turn   time.Time // when the task was last assigned to a machine, by the assigner's clock; zero: tasks are not assigned

	Spending Spending // usage by agents of all machines, as far as the saver had heard
}

// ErrLost is matched by every *LostError.
var ErrLost = errors.New("another machine has the task")

// LostError means that the remote's state of a task is not the one that was to be replaced. Nothing was pushed.
type LostError struct {
	Task string
	Now  string // commit on the remote, "": the task is gone
}

func (e *LostError) Error() string {
	if e.Now == "" {
		return fmt.Sprintf("%s is no longer shared: somebody took it off the remote", e.Task)
	}
	return fmt.Sprintf("%v: the remote has another state of %s (%.12s)", ErrLost, e.Task, e.Now)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// LocalError means that a task can't be saved because of its local state, regardless of the remote.
type LocalError struct{ err error }

func (e *LocalError) Error() string { return e.err.Error() }
func (e *LocalError) Unwrap() error { return e.err }

// Remote is a git remote through which tasks of a repository are shared. The methods that change a task, Save, RenewClaim,
// Import, ImportWork and Remove, must not run concurrently for the same task: they are called by the process that has its run lock.
type Remote struct {
	Repo        *git.Repo
	Name        string // name of the remote, or its URL
	Store       taskdir.Store
	Places      Places
	Host        string // name of this machine, for people
	Disk        *durable.Disk
	Build       string          // version of this program
	Exclude     []string        // paths in worktrees that are not shared, such as settings that were copied there
	Transcripts bool            // share what agents were told and wrote, too
	Limit       time.Duration   // time limit of a fetch or push; 0: two minutes
	Spending    func() Spending // added to each state; nil: nothing is added
}

func (r Remote) timeout() time.Duration {
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

// Fetch fetches the states of all tasks, and the orders, both sorted by name. Refs with invalid names or contents are omitted.
// It changes nothing in this repository except refs of Trellis.
func (r Remote) Fetch(ctx context.Context) ([]State, []Order, error) {
	ctx = git.Hookless(ctx)
	var specs []string
	for _, refs := range []string{runRefs, orderRefs, gateRefs} {
		specs = append(specs, "+"+refs+"*:"+remoteRefs+strings.TrimPrefix(refs, git.OwnPrefix)+"*")
	}
	if err := r.Repo.Remotes().FetchRefs(ctx, r.Name, r.timeout(), specs...); err != nil {
		return nil, nil, err
	}
	return r.LastFetched(ctx)
}

// LastFetched returns the states and orders of the last fetch.
func (r Remote) LastFetched(ctx context.Context) (states []State, orders []Order, err error) {
	list, err := r.listRefs(ctx, remoteRefs+"run/", remoteRefs+"order/", pendingRefs, knownRefs)
	if err != nil {
		return nil, nil, err
	}
	own := map[string]string{} // local commits by ref
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
		if own[pendingRefs+task] == s.Commit && own[knownRefs+task] != s.Commit { // the push succeeded, but its result was never received
			if err := r.setRef(ctx, knownRefs+task, s.Commit); err != nil {
				return nil, nil, err
			}
		}
	}
	return states, orders, nil
}

// Known returns the commit of the state of a task that this clone last pushed or brought, "" if there is none.
func (r Remote) Known(ctx context.Context, task string) (string, error) {
	return r.Repo.Refs().Find(ctx, knownRefs+task)
}

// KnownAll returns those commits for all tasks, by task.
func (r Remote) KnownAll(ctx context.Context) (map[string]string, error) {
	list, err := r.listRefs(ctx, knownRefs)
	known := map[string]string{}
	for _, n := range list {
		known[strings.TrimPrefix(n.ref, knownRefs)] = n.commit
	}
	return known, err
}

// setRef moves a ref of this repository to a commit, whatever its old value.
func (r Remote) setRef(ctx context.Context, ref, commit string) error {
	old, err := r.Repo.Refs().Find(ctx, ref)
	if err != nil {
		return err
	}
	return r.Repo.Refs().MoveRef(ctx, ref, commit, old)
}

// deleteRef deletes a ref of this repository.
func (r Remote) deleteRef(ctx context.Context, ref string) error {
	old, err := r.Repo.Refs().Find(ctx, ref)
	if err != nil || old == "" {
		return err
	}
	return r.Repo.Refs().DeleteRef(ctx, ref, old)
}

// refInfo is a ref with the commit that it names and its message.
type refInfo struct{ ref, commit, message string }

// listRefs returns the refs below some prefixes that name commits, sorted.
func (r Remote) listRefs(ctx context.Context, under ...string) (list []refInfo, err error) {
	const fields = 4 // messages contain no NUL
	args := append([]string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(objecttype)%00%(contents)%00"}, under...)
	out, _, err := r.Repo.Run(ctx, git.Command{Dir: r.Repo.Main, Args: args})
	if err != nil {
		return nil, fmt.Errorf("listing what was fetched: %w", err)
	}
	parts := strings.Split(out, "\x00")
	for ; len(parts) > fields; parts = parts[fields:] {
		if parts[2] == "commit" {
			list = append(list, refInfo{strings.TrimPrefix(parts[0], "\n"), parts[1], parts[3]})
		}
	}
	return list, nil
}
