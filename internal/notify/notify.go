// Package notify sends events: that a task got a status, that a pull request can be merged. It runs a command or calls
// a webhook, at least once for each event, and stops nothing when that fails.
//
// An event is written to .trellis/.runtime/notify.jsonl (the book) before it is sent, and what came of that afterwards,
// so that a later process sends what a crash left. The book also has the last status of each task, by which changes are
// found that nobody wrote down.
package notify

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Event is that a task got a status, or that its pull request can be merged. Its JSON is a contract with the programs that get it.
type Event struct {
	Version  int             `json:"version"` // of this shape: 1
	ID       string          `json:"id"`      // the same when it is told again
	At       time.Time       `json:"at"`
	Repo     string          `json:"repo"`
	Task     string          `json:"task"` // directory name
	Dir      string          `json:"dir"`
	Title    string          `json:"title"`
	Event    string          `json:"event"`            // "mergeable"; "": it got the status
	Budget   string          `json:"budget,omitempty"` // of an event about one: cost, tokens or seconds
	From     trellis.Status  `json:"from"`             // "": it is new
	Status   trellis.Status  `json:"status"`
	Outcome  trellis.Outcome `json:"outcome"`
	Failure  Failure         `json:"failure"`
	Branch   string          `json:"branch"`
	Worktree string          `json:"worktree"`
	Commit   string          `json:"commit"`
	PRURL    string          `json:"pr_url"`
	Usage    trellis.Usage   `json:"usage"`
	Step     string          `json:"step,omitempty"` // of the plan, with which a task waits for people
}

// Failure is why a task failed or stopped.
type Failure struct {
	Code   trellis.Code `json:"code"`
	Detail string       `json:"detail"`
}

// Asked is what people are asked where a task waits.
type Asked struct {
	Nothing bool   // it waits for other tasks
	Step    string // of the plan; "": they are asked about the task
	Hash    string // of what the step is
}

// Notifier sends the events of one repository. Its methods may be called concurrently; other processes may have a
// notifier of the same repository.
type Notifier struct {
	Root   string
	Env    []string            // of the commands
	Getenv func(string) string // what the settings name by a variable; nil: nothing is set
	Redact func(string) string
	Say    func(string) // gets what can't be sent and why; nil: nobody does
	// May says why no program of the settings may be run now, nil when one may; nil: they always may.
	Allowed func(context.Context) error
	// Asks is what people are asked where a task waits; nil: they are asked about the task.
	Asks func(*taskdir.Task) Asked
	Late bool // nothing is sent before Close, as short commands want it
	Disk *durable.Disk
	Now  func() time.Time // in the time zone in which days begin

	mu         sync.Mutex
	hooks      []hook
	known      version           // of the file, when last was read
	last       map[string]string // status by task, as the file said
	begin      time.Time         // of the file
	closing    bool              // nothing is gathered any more
	unrecorded map[string]bool   // what was sent and could not be written to the file
	budgets    map[string]bool   // that people were told are nearly used up, by this process
	due        bool              // there is something to send
	wake       chan struct{}     // nil: nothing sends in the background
	stop       context.CancelFunc
	done       chan struct{}
}

// Configure sets who gets which events from now on.
func (n *Notifier) Configure(list []config.Notify) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks = nil
	for _, c := range list {
		n.hooks = append(n.hooks, newHook(c))
	}
}

func (n *Notifier) configured() []hook {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hooks
}

// Changed takes in that a task got a status. before is nil for a new one.
func (n *Notifier) Changed(before, after *taskdir.Task) {
	n.write(func(b *book) []record {
		if b.has(after) {
			return nil
		}
		var list []record
		from := trellis.Status("")
		if before != nil {
			from = before.Status
			if s, ok := b.last[before.ID]; ok && s != string(from) { // a change that nobody wrote down
				list = append(list, n.record(b, trellis.Status(s), before))
			}
		}
		return append(list, n.record(b, from, after))
	})
}

// Seen takes in a task as it is, which shows what was changed by hand, or by a process that was killed before it
// could say so. Of a task never heard of, that is one with a run here, changed since there is a book.
func (n *Notifier) Seen(t *taskdir.Task) {
	if len(n.configured()) == 0 || !n.mayHaveChanged(t) {
		return
	}
	n.write(func(b *book) []record {
		t, err := taskdir.Store{Root: n.Root}.Load(t.Dir) // what was read before may be older than the book
		if err != nil {
			return nil
		}
		if s, ok := b.last[t.ID]; ok && s != string(t.Status) || !ok && younger(t, b.begin) {
			return []record{n.record(b, trellis.Status(b.last[t.ID]), t)}
		}
		return nil
	})
}

// mayHaveChanged reports whether a task may have a status that the book lacks, by what is remembered of the book.
func (n *Notifier) mayHaveChanged(t *taskdir.Task) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := versionOf(n.path()); n.last == nil || now != n.known {
		b := n.read()
		n.known, n.last, n.begin = now, b.last, b.begin
	}
	s, ok := n.last[t.ID]
	return n.begin.IsZero() || ok && s != string(t.Status) || !ok && younger(t, n.begin)
}

// younger reports whether a task had a run here and was changed after a time.
func younger(t *taskdir.Task, begin time.Time) bool {
	return !begin.IsZero() && written(filepath.Join(t.Dir, taskdir.TaskJSON)).After(begin) && !written(filepath.Join(t.Dir, taskdir.Journal)).IsZero()
}

// Mergeable takes in that the pull request of a task can be merged as it is at a commit: people approved it, and its checks
// pass. It is told once for each commit.
func (n *Notifier) Mergeable(t *taskdir.Task, commit string) {
	n.write(func(b *book) []record {
		r := record{Kind: kindEvent, ID: t.ID + "@" + config.Mergeable + ":" + commit, Task: t.ID}
		if b.events[t.ID] == r.ID {
			return nil
		}
		if r.To = n.recipients(config.Mergeable); len(r.To) > 0 {
			r.Event = n.event(r.ID, t)
			r.Event.Event, r.Event.From, r.Event.Commit = config.Mergeable, t.Status, commit
		}
		return []record{r}
	})
}

func (n *Notifier) recipients(what string) (keys []string) {
	for _, h := range n.configured() {
		if h.people == nil && slices.Contains(h.on, what) {
			keys = append(keys, h.key)
		}
	}
	return keys
}

// people are those who get a message about an event, and have not got one about this state of the task in its run.
func (n *Notifier) people(b *book, e *Event, state string) (keys []string) {
	about := topics(e)
	for _, h := range n.configured() {
		if slices.ContainsFunc(about, h.hears) && b.told[told(h.key, e)] != state {
			keys = append(keys, h.key)
		}
	}
	return keys
}

// record is what the book says of a status that a task got, and who gets the event.
func (n *Notifier) record(b *book, from trellis.Status, t *taskdir.Task) record {
	r := record{Kind: kindStatus, ID: change(t) + n.Now().UTC().Format(":20060102T150405.000000"), Task: t.ID, Status: string(t.Status)}
	e := n.event(r.ID, t)
	e.From = from
	r.State = fmt.Sprintf("%d %s", b.run(t.ID, t.Status), t.Pipeline.PlanHash)
	r.To = n.recipients(r.Status)
	asked := Asked{}
	if t.Status == trellis.Waiting && n.Asks != nil {
		asked = n.Asks(t)
	}
	if e.Step = asked.Step; e.Step != "" {
		r.State += " " + e.Step + " " + asked.Hash
	}
	if !asked.Nothing {
		r.To = append(r.To, n.people(b, e, r.State)...)
	}
	if len(r.To) > 0 {
		r.Event = e
	}
	return r
}

func (n *Notifier) event(id string, t *taskdir.Task) *Event {
	rel, err := filepath.Rel(n.Root, t.Dir)
	if err != nil {
		rel = t.Dir
	}
	p := t.Pipeline
	return &Event{Version: 1, ID: id, At: n.Now().UTC(), Repo: n.Root, Task: t.ID, Dir: rel, Title: t.ShownTitle(), Status: t.Status,
		Outcome: p.Outcome, Failure: Failure{p.Failure.Code, n.Redact(p.Failure.Detail)}, Branch: t.BranchName(), Worktree: t.WorktreePath,
		Commit: t.Commit, PRURL: t.PRURL, Usage: p.Usage}
}

// change begins the id of each change to the status that a task has. By hand it can get the same one twice at a
// revision.
func change(t *taskdir.Task) string {
	return fmt.Sprintf("%s@%d:%s", t.ID, t.Pipeline.Revision, t.Status)
}

func (n *Notifier) say(format string, args ...any) {
	if n.Say != nil {
		n.Say(fmt.Sprintf(format, args...))
	}
}
