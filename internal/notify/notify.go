// Package notify tells others when a task gets a status: it runs a command or calls a webhook, at least once for
// each time, and stops nothing when that fails.
//
// What is to be told is written to .trellis/.runtime/notify.jsonl before it is tried, and what came of it after that,
// so that a later process tells what a crash left. It also has the status that each task had last, by which a change
// shows that nobody wrote down.
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

// News is what is told: that a task got a status. Its JSON is a contract with the programs that get it.
type News struct {
	Version  int             `json:"version"` // of this shape: 1
	ID       string          `json:"id"`      // the same when it is told again
	At       time.Time       `json:"at"`
	Repo     string          `json:"repo"`
	Task     string          `json:"task"` // directory name
	Dir      string          `json:"dir"`
	Title    string          `json:"title"`
	Event    string          `json:"event"` // "mergeable"; "": it got the status
	From     trellis.Status  `json:"from"`  // "": it is new
	Status   trellis.Status  `json:"status"`
	Outcome  trellis.Outcome `json:"outcome"`
	Failure  Failure         `json:"failure"`
	Branch   string          `json:"branch"`
	Worktree string          `json:"worktree"`
	Commit   string          `json:"commit"`
	PRURL    string          `json:"pr_url"`
	Usage    trellis.Usage   `json:"usage"`
}

// Failure is why a task failed or stopped.
type Failure struct {
	Code   trellis.Code `json:"code"`
	Detail string       `json:"detail"`
}

// Teller tells the news of one repository. Its methods may be called concurrently; other processes may have a teller
// of the same repository.
type Teller struct {
	Root   string
	Env    []string // of the commands
	Redact func(string) string
	Say    func(string) // what can't be told and why; nil: nobody hears it
	// May says why no program of the settings may be run now, nil when one may; nil: they always may.
	May  func(context.Context) error
	Late bool // nothing is told before Close, as short commands do it
	Disk *durable.Disk
	Now  func() time.Time

	mu    sync.Mutex
	hooks []hook
	known stamp             // of the file, when last was read
	last  map[string]string // status by task, as the file said
	begin time.Time         // of the file
	told  map[string]bool   // what the file could not be told of
	owed  bool              // with Late
	poke  chan struct{}     // nil: nobody works
	stop  context.CancelFunc
	done  chan struct{}
}

// Configure says who is told of what from now on.
func (n *Teller) Configure(list []config.Notify) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks = nil
	for _, c := range list {
		n.hooks = append(n.hooks, newHook(c))
	}
}

func (n *Teller) configured() []hook {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hooks
}

// Changed takes in that a task got a status. before is nil for a new one.
func (n *Teller) Changed(before, after *taskdir.Task) {
	if len(n.configured()) == 0 {
		return
	}
	n.write(func(b *book) []record {
		if b.tells(after) {
			return nil
		}
		var list []record
		from := trellis.Status("")
		if before != nil {
			from = before.Status
			if s, ok := b.last[before.ID]; ok && s != string(from) { // a change that nobody wrote down
				list = append(list, n.record(trellis.Status(s), before))
			}
		}
		return append(list, n.record(from, after))
	})
}

// Seen takes in a task as it is, which shows what was changed by hand, or by a process that was killed before it
// could say so. Of a task never heard of, that is one with a run here, changed since there is a book.
func (n *Teller) Seen(t *taskdir.Task) {
	if len(n.configured()) == 0 || !n.news(t) {
		return
	}
	n.write(func(b *book) []record {
		t, err := taskdir.Store{Root: n.Root}.Load(t.Dir) // what was read before may be older than the book
		if err != nil {
			return nil
		}
		if s, ok := b.last[t.ID]; ok && s != string(t.Status) || !ok && younger(t, b.begin) {
			return []record{n.record(trellis.Status(b.last[t.ID]), t)}
		}
		return nil
	})
}

// news reports whether a task may have news, by what is remembered of the book.
func (n *Teller) news(t *taskdir.Task) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := stampOf(n.path()); n.last == nil || now != n.known {
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
func (n *Teller) Mergeable(t *taskdir.Task, commit string) {
	if len(n.configured()) == 0 {
		return
	}
	n.write(func(b *book) []record {
		r := record{Kind: kindEvent, ID: t.ID + "@" + config.Mergeable + ":" + commit, Task: t.ID}
		if b.events[t.ID] == r.ID {
			return nil
		}
		if r.To = n.hearers(config.Mergeable); len(r.To) > 0 {
			r.News = n.about(r.ID, t)
			r.News.Event, r.News.From, r.News.Commit = config.Mergeable, t.Status, commit
		}
		return []record{r}
	})
}

// hearers are the keys of those who are told of something.
func (n *Teller) hearers(what string) (keys []string) {
	for _, h := range n.configured() {
		if slices.Contains(h.on, what) {
			keys = append(keys, h.key)
		}
	}
	return keys
}

// record is what the book says of a status that a task got, and whom to tell.
func (n *Teller) record(from trellis.Status, t *taskdir.Task) record {
	r := record{Kind: kindStatus, ID: change(t) + n.Now().UTC().Format(":20060102T150405.000000"), Task: t.ID, Status: string(t.Status)}
	if r.To = n.hearers(r.Status); len(r.To) > 0 {
		r.News = n.about(r.ID, t)
		r.News.From = from
	}
	return r
}

// about is news of a task as it is.
func (n *Teller) about(id string, t *taskdir.Task) *News {
	rel, err := filepath.Rel(n.Root, t.Dir)
	if err != nil {
		rel = t.Dir
	}
	p := t.Pipeline
	return &News{Version: 1, ID: id, At: n.Now().UTC(), Repo: n.Root, Task: t.ID, Dir: rel, Title: t.Title, Status: t.Status,
		Outcome: p.Outcome, Failure: Failure{p.Failure.Code, n.Redact(p.Failure.Detail)}, Branch: t.BranchName(), Worktree: t.WorktreePath,
		Commit: t.Commit, PRURL: t.PRURL, Usage: p.Usage}
}

// change begins the id of each change to the status that a task has. By hand it can get the same one twice at a
// revision.
func change(t *taskdir.Task) string {
	return fmt.Sprintf("%s@%d:%s", t.ID, t.Pipeline.Revision, t.Status)
}

func (n *Teller) say(format string, args ...any) {
	if n.Say != nil {
		n.Say(fmt.Sprintf(format, args...))
	}
}
