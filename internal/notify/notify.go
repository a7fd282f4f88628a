// Package notify reports events, such as a task that got a new status or a pull request that can be merged. It runs a command,
// calls a webhook or sends people a message; nothing is held up when that fails. Commands and webhooks get each event at least
// once, people at most once.
//
// An event is written to .trellis/.runtime/notify.jsonl (the book) before it is sent, and the result afterwards, so that a
// later process sends what a crash left. By the last status of each task in the book it finds changes that nobody recorded.
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

// Event says that a task got a status, or that something else happened. Its JSON is a contract with the programs that receive it.
type Event struct {
	Version  int             `json:"version"` // of this format: 1
	ID       string          `json:"id"`      // the same when the event is sent again
	At       time.Time       `json:"at"`
	Repo     string          `json:"repo"`
	Task     string          `json:"task"` // directory name
	Dir      string          `json:"dir"`
	Title    string          `json:"title"`
	Event    string          `json:"event"`            // "mergeable", "budget" or "watcher"; "": the task got the status
	Budget   string          `json:"budget,omitempty"` // for "budget": cost, tokens or seconds
	From     trellis.Status  `json:"from"`             // "": the task is new
	Status   trellis.Status  `json:"status"`
	Outcome  trellis.Outcome `json:"outcome"`
	Failure  Failure         `json:"failure"`
	Branch   string          `json:"branch"`
	Worktree string          `json:"worktree"`
	Commit   string          `json:"commit"`
	PRURL    string          `json:"pr_url"`
	Usage    trellis.Usage   `json:"usage"`
	Step     string          `json:"step,omitempty"` // the step of the plan for which the task waits for people
}

// Failure is why a task failed or stopped.
type Failure struct {
	Code   trellis.Code `json:"code"`
	Detail string       `json:"detail"`
}

// Decision says what people have to decide when a task waits.
type Decision struct {
	Nothing bool   // the task waits for other tasks
	Step    string // the step of the plan to decide on; "": the task as a whole
	Hash    string // of the step's content
}

// Notifier sends the events of one repository. Its methods may be called concurrently; other processes may have a
// notifier of the same repository.
type Notifier struct {
	Root   string
	Env    []string            // environment of the commands
	Getenv func(string) string // looks up the variables that the settings name; nil: none is set
	Redact func(string) string
	Say    func(string) // is called with what can't be sent and why; may be nil
	// Allowed returns an error if no program of the settings may be run now; nil: they always may.
	Allowed func(context.Context) error
	// Asks returns what people have to decide when a task waits; nil: always about the task as a whole.
	Asks func(*taskdir.Task) Decision
	Late bool // send nothing before Close, as short commands want it
	Disk *durable.Disk
	Now  func() time.Time // must return times in the time zone in which days begin

	mu          sync.Mutex
	hooks       []hook
	bookVersion version           // of the book, when it was last read
	lastStatus  map[string]string // status by task, as read from the book
	bookBegun   time.Time         // when the book was begun
	closing     bool              // Close was called: messages don't wait for others any more
	unrecorded  map[string]bool   // sent events that could not be recorded in the book
	budgets     map[string]bool   // budgets for which this process has checked the book already
	due         bool              // there may be events to send
	wake        chan struct{}     // wakes the background sender; nil: none runs
	stop        context.CancelFunc
	done        chan struct{}
}

// Configure sets who receives which events from now on.
func (n *Notifier) Configure(list []config.Notify) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks = nil
	for _, c := range list {
		n.hooks = append(n.hooks, newHook(c))
	}
}

func (n *Notifier) configuredHooks() []hook {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hooks
}

// RecordChange records that a task got a status. before is nil for a new task.
func (n *Notifier) RecordChange(before, after *taskdir.Task) {
	n.write(func(b *book) []record {
		if b.hasChange(after) {
			return nil
		}
		var list []record
		from := trellis.Status("")
		if before != nil {
			from = before.Status
			if s, ok := b.lastStatus[before.ID]; ok && s != string(from) { // a change that nobody recorded
				list = append(list, n.statusRecord(b, trellis.Status(s), before))
			}
		}
		return append(list, n.statusRecord(b, from, after))
	})
}

// CheckChange compares a task with the book, and so finds changes made by hand or by a process that was killed before it could record
// them. A task that the book lacks counts if it has run here and changed since the book was begun.
func (n *Notifier) CheckChange(t *taskdir.Task) {
	if len(n.configuredHooks()) == 0 || !n.mayHaveChanged(t) {
		return
	}
	n.write(func(b *book) []record {
		t, err := taskdir.Store{Root: n.Root}.Load(t.Dir) // what was read before may be older than the book
		if err != nil {
			return nil
		}
		if s, ok := b.lastStatus[t.ID]; ok && s != string(t.Status) || !ok && changedSince(t, b.begun) {
			return []record{n.statusRecord(b, trellis.Status(b.lastStatus[t.ID]), t)}
		}
		return nil
	})
}

// mayHaveChanged reports whether a task may have a status that the book lacks, judging by the cached content of the book.
func (n *Notifier) mayHaveChanged(t *taskdir.Task) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := versionOf(n.bookPath()); n.lastStatus == nil || now != n.bookVersion {
		b := n.readBook()
		n.bookVersion, n.lastStatus, n.bookBegun = now, b.lastStatus, b.begun
	}
	s, ok := n.lastStatus[t.ID]
	return n.bookBegun.IsZero() || ok && s != string(t.Status) || !ok && changedSince(t, n.bookBegun)
}

// changedSince reports whether a task has run here and was changed after begin.
func changedSince(t *taskdir.Task, begin time.Time) bool {
	return !begin.IsZero() && modTime(filepath.Join(t.Dir, taskdir.TaskJSON)).After(begin) && !modTime(filepath.Join(t.Dir, taskdir.Journal)).IsZero()
}

// Mergeable records that the pull request of a task can be merged at commit: people approved it, and its checks pass. It is
// reported once for each commit.
func (n *Notifier) Mergeable(t *taskdir.Task, commit string) {
	n.write(func(b *book) []record {
		r := record{Kind: kindEvent, ID: t.ID + "@" + config.Mergeable + ":" + commit, Task: t.ID}
		if b.mergeableIDs[t.ID] == r.ID {
			return nil
		}
		if r.To = n.programRecipients(config.Mergeable); len(r.To) > 0 {
			r.Event = n.newEvent(r.ID, t)
			r.Event.Event, r.Event.From, r.Event.Commit = config.Mergeable, t.Status, commit
		}
		return []record{r}
	})
}

func (n *Notifier) programRecipients(what string) (keys []string) {
	for _, h := range n.configuredHooks() {
		if h.channel == nil && slices.Contains(h.events, what) {
			keys = append(keys, h.key)
		}
	}
	return keys
}

// peopleRecipients returns the keys of hooks that send people a message about e and have sent none yet about this state of the task.
func (n *Notifier) peopleRecipients(b *book, e *Event, state string) (keys []string) {
	about := topics(e)
	for _, h := range n.configuredHooks() {
		if slices.ContainsFunc(about, h.notifies) && b.toldStates[toldKey(h.key, e)] != state {
			keys = append(keys, h.key)
		}
	}
	return keys
}

// statusRecord returns the record of a status that a task got, with those who are to receive the event.
func (n *Notifier) statusRecord(b *book, from trellis.Status, t *taskdir.Task) record {
	r := record{Kind: kindStatus, ID: changeIDPrefix(t) + n.Now().UTC().Format(":20060102T150405.000000"), Task: t.ID, Status: string(t.Status)}
	e := n.newEvent(r.ID, t)
	e.From = from
	r.State = fmt.Sprintf("%d %s", b.runNumber(t.ID, t.Status), t.Pipeline.PlanHash)
	r.To = n.programRecipients(r.Status)
	asked := Decision{}
	if t.Status == trellis.Waiting && n.Asks != nil {
		asked = n.Asks(t)
	}
	if e.Step = asked.Step; e.Step != "" {
		r.State += " " + e.Step + " " + asked.Hash
	}
	if !asked.Nothing {
		r.To = append(r.To, n.peopleRecipients(b, e, r.State)...)
	}
	if len(r.To) > 0 {
		r.Event = e
	}
	return r
}

func (n *Notifier) newEvent(id string, t *taskdir.Task) *Event {
	rel, err := filepath.Rel(n.Root, t.Dir)
	if err != nil {
		rel = t.Dir
	}
	p := t.Pipeline
	return &Event{Version: 1, ID: id, At: n.Now().UTC(), Repo: n.Root, Task: t.ID, Dir: rel, Title: t.ShownTitle(), Status: t.Status,
		Outcome: p.Outcome, Failure: Failure{p.Failure.Code, n.Redact(p.Failure.Detail)}, Branch: t.BranchName(), Worktree: t.WorktreePath,
		Commit: t.Commit, PRURL: t.PRURL, Usage: p.Usage}
}

// changeIDPrefix returns the prefix of the ids of all changes to the task's status at its revision. A change by hand can give it
// the same status twice at a revision.
func changeIDPrefix(t *taskdir.Task) string {
	return fmt.Sprintf("%s@%d:%s", t.ID, t.Pipeline.Revision, t.Status)
}

func (n *Notifier) say(format string, args ...any) {
	if n.Say != nil {
		n.Say(fmt.Sprintf(format, args...))
	}
}
