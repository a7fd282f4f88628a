package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// project is the World of a repository.
type project struct {
	*app.Project
	self string // path of this program
	dir  string // where it was started

	// orders is read-locked by each running program that carries out an order.
	orders sync.RWMutex

	mu         sync.Mutex
	log        *status.Log // log of the task that was last asked for
	logLines   []line      // its lines so far
	logPrinter *terminal.LogPrinter
}

// firstTasks is how many tasks are read first: more than any screen shows. Each further read is twice as large.
const firstTasks = 200

// yieldEvery is how many tasks are read between two keys.
const yieldEvery = 32

func (p *project) Tasks() (*Reading, error) {
	dirs, err := p.Store.Dirs()
	if err != nil {
		return nil, err
	}
	r, n := p.Reader(), firstTasks
	slices.Reverse(dirs) // the latest first
	next := func(yield func()) (tasks []status.Task, more bool) {
		some := dirs[:min(n, len(dirs))]
		if dirs = dirs[len(some):]; n == firstTasks {
			tasks = r.TasksIn(some)
		} else {
			tasks = readOneByOne(r, some, yield)
		}
		n *= 2
		return tasks, len(dirs) > 0
	}
	return &Reading{Of: len(dirs), Watcher: r.Watcher.String(), Next: next}, nil
}

// readOneByOne reads tasks on one processor: if the others were busy as well, a key would wait for its turn.
func readOneByOne(r status.Reader, dirs []string, yield func()) (tasks []status.Task) {
	for i := range dirs {
		if i%yieldEvery == 0 {
			yield()
		}
		tasks = append(tasks, r.TasksIn(dirs[i:i+1])...)
	}
	return tasks
}

// path returns the directory of a task.
func (p *project) path(id string) string { return filepath.Join(p.Store.Tasks(), id) }

// Task returns a task by its final name, even while it is planned.
func (p *project) Task(id string) (status.Task, error) {
	id = strings.TrimPrefix(id, taskdir.DraftPrefix)
	t, err := p.Reader().Task(p.path(id))
	if draft := p.path(taskdir.DraftPrefix + id); errors.Is(err, taskdir.ErrNotFound) {
		if _, gone := os.Stat(draft); gone == nil {
			return p.Reader().Task(draft)
		}
	}
	return t, err
}

func (p *project) Give(ctx context.Context, o Order, id string, about Subject, reason string) (Answer, error) {
	var did app.OrderResult
	var err error
	switch dir := p.path(id); o {
	case Approve:
		did, err = p.Orders().Approve(ctx, dir, app.Decision{Step: about.Step, Shown: about.Hash})
	case Reject:
		did, err = p.Orders().Reject(ctx, dir, app.Decision{Step: about.Step, Shown: about.Hash, Reason: reason})
	case Stop:
		did, err = p.Orders().Stop(ctx, dir)
	case Retry:
		did, err = p.Orders().Retry(ctx, dir, false)
	case Start:
		return p.runOrder(ctx, "start", "--detach", id)
	default: // orders that lead to hooks and programs run in a separate process, which ends what they leave behind
		return p.runOrder(ctx, string(o), id)
	}
	return Answer{did.Says, did.Next}, err
}

// orderGracePeriod is how long a program that carries out an order gets to end after SIGTERM.
const orderGracePeriod = 30 * time.Second

// runOrder runs this program for an order, and returns what it said. When ctx ends it sends SIGTERM, and waits for the program.
func (p *project) runOrder(ctx context.Context, args ...string) (Answer, error) {
	p.orders.RLock()
	defer p.orders.RUnlock()
	cmd := p.command(exec.CommandContext(ctx, p.self, args...))
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, orderGracePeriod
	out, err := cmd.CombinedOutput()
	said, err := app.ParseOutput(string(out), err)
	return Answer{said.Says, said.Next}, err
}

// waitForOrders waits until no order is being carried out. It calls say if it has to wait.
func (p *project) waitForOrders(say func()) {
	if !p.orders.TryLock() {
		say()
		p.orders.Lock()
	}
	p.orders.Unlock()
}

// command gives a program the folder and the environment of this one.
func (p *project) command(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir, cmd.Env = p.dir, p.Env.Vars
	return cmd
}

func (p *project) Program(kind Program, id string) (*exec.Cmd, error) {
	switch kind {
	case NewPlan:
		return p.command(exec.Command(p.self, "plan")), nil
	case Review, Edit:
		return p.command(exec.Command(p.self, string(kind), id)), nil
	}
	t, err := p.Store.Load(p.path(id))
	if err != nil {
		return nil, err
	}
	worktree := p.Worktree(t)
	if worktree == "" {
		return nil, app.WithHints(fmt.Errorf("%s has no worktree: it has not begun, or it was cleaned up", id), "trellis start "+trellis.ShellWord(id))
	}
	name := cmp.Or(p.Env.Get("SHELL"), "/bin/sh")
	args := []string{"-c", "exec " + name}
	if kind == Editor {
		editor := cmp.Or(p.Env.Get("VISUAL"), p.Env.Get("EDITOR"))
		if editor == "" {
			return nil, app.WithHints(errors.New("$EDITOR is not set"), "export EDITOR=vi")
		}
		args = []string{"-c", "exec " + editor + " ."}
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir, cmd.Env = worktree, p.Env.Vars
	return cmd, nil
}
