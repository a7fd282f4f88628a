// Package hooks runs the project's own commands after something has happened to a task: config.yaml names them by event.
//
// A command runs at most once for each occasion: run/hooks.jsonl of the task records the occasion before the command begins, and a
// recorded occasion is not repeated. A crash in between leaves a command cut off or not run; messages that must not get lost are
// for package notify.
package hooks

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Event is something that happened, named like its key in config.yaml.
type Event string

// Events that have hooks.
const (
	AfterCreate  Event = "after_create"  // a task directory was created
	AfterStart   Event = "after_start"   // a run of the task began
	AfterFinish  Event = "after_finish"  // a run of the task ended, or the task was cancelled
	AfterArchive Event = "after_archive" // the task was archived
)

// Variable marks the processes of a hook: a trellis that they call does not run hooks itself.
const Variable = "TRELLIS_HOOK"

// limit is the time limit of one command, unless a Runner sets another.
const limit = time.Minute

const (
	maxOutput = 16 << 10 // bytes of a command's output that are kept, at its beginning and its end
	maxShown  = 500      // bytes at the end of the output that a person is shown
)

// Runner runs the commands of one repository. Its methods may be called concurrently.
type Runner struct {
	Config config.Hooks
	Store  taskdir.Store
	Env    []string            // environment of the commands
	Redact func(string) string // nil: nothing is secret
	Say    func(string)        // called with what went wrong; nil: nobody is told
	Marker string              // marker of the commands' processes
	Wall   time.Duration       // time limit of one command; 0 is a minute
}

// Any reports whether there is a command for an event, and this process was not itself started by a hook.
func (r *Runner) Any(e Event) bool {
	for _, kv := range r.Env {
		if strings.HasPrefix(kv, Variable+"=") {
			return false
		}
	}
	return len(r.commands(e)) > 0
}

func (r *Runner) commands(e Event) []string {
	c := r.Config
	return map[Event][]string{AfterCreate: c.AfterCreate, AfterStart: c.AfterStart, AfterFinish: c.AfterFinish, AfterArchive: c.AfterArchive}[e]
}

// Run runs the commands for an event of the task in dir, one after the other, in the main checkout. occasion distinguishes events
// of one kind: it is "" for events that a task has only once. Run returns when the commands have ended, and reports errors to Say:
// nothing that they do makes anything else fail. When ctx ends, so do they.
func (r *Runner) Run(ctx context.Context, e Event, dir, occasion string) {
	if !r.Any(e) || ctx.Err() != nil {
		return
	}
	if err := r.run(ctx, e, dir, occasion); err != nil {
		r.say("hooks.%s of %s: %v", e, filepath.Base(dir), err)
	}
}

func (r *Runner) run(ctx context.Context, e Event, dir, occasion string) error {
	t, err := r.Store.Load(dir)
	if err != nil {
		return err
	}
	fresh, err := r.recordOnce(dir, record{e, occasion})
	if err != nil || !fresh {
		return err
	}
	for _, line := range r.commands(e) {
		if err := r.command(ctx, e, t, line); err != nil {
			r.say("hooks.%s of %s: `%s`: %v", e, t.ID, r.redact(line), err)
		}
		if ctx.Err() != nil {
			return nil // the others do not begin
		}
	}
	return nil
}

// command runs one command. t is the task as it was before the first one: changes that a hook makes, the next reads in task.json.
func (r *Runner) command(ctx context.Context, e Event, t *taskdir.Task, line string) error {
	wall := cmp.Or(r.Wall, limit)
	said := proc.NewCapped(maxOutput)
	err := proc.RunSuccessfully(ctx, proc.Command{Argv: proc.Shell(line), Dir: r.Store.Root, Env: r.environ(e, t), Stdout: said, Stderr: said,
		Marker: r.Marker, Wall: wall, Grace: time.Second})
	if output := r.redact(strings.TrimSpace(said.String())); err != nil && output != "" && errors.As(err, new(*proc.FailedError)) {
		return fmt.Errorf("%w: %s", err, text.Tail(output, maxShown))
	}
	return err
}

func (r *Runner) environ(e Event, t *taskdir.Task) []string {
	p := t.Pipeline
	env := append([]string{}, r.Env...)
	for _, kv := range [][2]string{
		{"TASK_JSON_PATH", filepath.Join(t.Dir, taskdir.TaskJSON)}, {Variable, string(e)},
		{"TRELLIS_TASK_ID", t.ID}, {"TRELLIS_TASK_DIR", t.Dir}, {"TRELLIS_REPO", r.Store.Root}, {"TRELLIS_TITLE", t.ShownTitle()},
		{"TRELLIS_STATUS", string(t.Status)}, {"TRELLIS_OUTCOME", string(p.Outcome)}, {"TRELLIS_CODE", string(p.Failure.Code)},
		{"TRELLIS_BRANCH", t.BranchName()}, {"TRELLIS_PACKAGE", t.Package},
	} {
		env = append(env, kv[0]+"="+strings.ReplaceAll(kv[1], "\x00", ""))
	}
	return env
}

// record is an event for which hooks were run.
type record struct {
	Event    Event  `json:"event"`
	Occasion string `json:"occasion,omitempty"`
}

// File is the file of a task directory that records which hooks were run.
const File = taskdir.Run + "/hooks.jsonl"

// recordOnce records that the commands for an occasion run now; fresh is false if they ran already.
func (r *Runner) recordOnce(dir string, now record) (fresh bool, err error) {
	run, err := r.Store.RunDir(dir)
	if err != nil {
		return false, err
	}
	lock, err := durable.WaitLock(context.Background(), filepath.Join(run, "hooks.lock"), durable.Holder{PID: os.Getpid()})
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	path := filepath.Join(dir, filepath.FromSlash(File))
	data, err := durable.ReadBelow(dir, File, durable.MaxRecords)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading which hooks were run: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var done record
		if json.Unmarshal(lines.Bytes(), &done) == nil && done == now {
			return false, nil
		}
	}
	line, err := json.Marshal(now)
	if err != nil {
		return false, fmt.Errorf("encoding an occasion: %w", err)
	}
	return true, r.Store.Disk.Append(path, line, 0o600)
}

func (r *Runner) redact(s string) string {
	if r.Redact == nil {
		return s
	}
	return r.Redact(s)
}

func (r *Runner) say(format string, args ...any) {
	if r.Say != nil {
		r.Say(fmt.Sprintf(format, args...))
	}
}
