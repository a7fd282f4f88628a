package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/notify"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// How long a command may wait at its end for its news to be sent, before the rest is left to a later command.
const (
	newsTimeout          = 5 * time.Second
	newsInterruptTimeout = time.Second      // when a person interrupts the command
	watcherEndTimeout    = 10 * time.Second // when only this watcher can report that it ended
)

// Notifications notifies the recipients in the settings of what happens to tasks. The notifier is created when the first news comes.
type Notifications struct {
	p            *Project
	once         sync.Once
	n            *notify.Notifier
	watcherEnded bool // a watcher has ended and reports that
}

// Notifier returns the notifier, creating it on the first call.
func (r *Notifications) Notifier() *notify.Notifier {
	r.once.Do(func() {
		c := r.settings()
		r.n = &notify.Notifier{Root: r.p.Root, Env: r.p.Env.CommandEnv(), Getenv: r.p.Env.Get, Redact: proc.NewRedactor(r.p.Agents(c).secrets()).String,
			Say: func(text string) { r.p.Env.say("%s", text) }, Late: true, Disk: r.p.Env.Disk, Now: func() time.Time { return r.p.Env.Now().In(c.Shared.Zone()) },
			Allowed: r.p.checkProgramTrust, Asks: r.pendingRequest}
		r.n.Configure(c.Notify)
	})
	return r.n
}

// pendingRequest returns what people are asked where a task waits: about a step of its run, about the plan, or nothing if it waits only
// for other tasks. If that can't be determined, people are asked.
func (r *Notifications) pendingRequest(t *taskdir.Task) (a notify.Decision) {
	if q := status.PendingRequest(t.Dir, r.p.Env.Now()); q != nil {
		return notify.Decision{Step: q.Path, Hash: q.Hash}
	}
	if j := t.Pipeline.Judge; j != nil && !j.Pass || !r.hasOpenDependency(t) {
		return a
	}
	c, _ := r.p.Config()
	nobody, err := pipeline.ApprovalJudge{Config: c, Store: r.p.Store}.NeedsNoApproval(t)
	a.Nothing = nobody && err == nil
	return a
}

// hasOpenDependency reports whether a task that t depends on is not done yet.
func (r *Notifications) hasOpenDependency(t *taskdir.Task) bool {
	for _, id := range t.Pipeline.DependsOn {
		dir, err := r.p.Store.Find(id)
		if err != nil {
			continue
		}
		if on, err := r.p.Store.Load(dir); err == nil && on.Status != trellis.Review && on.Status != trellis.Completed {
			return true
		}
	}
	return false
}

// settings returns the settings in force. If none are, nobody is notified.
func (r *Notifications) settings() *config.Config {
	c, _ := r.p.Config()
	if len(c.Notify) == 0 {
		return c
	}
	p, err := r.p.InForce(context.Background())
	if err != nil {
		r.p.Env.say("nobody is notified about tasks: %v", err)
		c.Notify = nil
		return c
	}
	c, _ = p.Config()
	return c
}

func (r *Notifications) notifyChange(before, after *taskdir.Task) {
	r.Notifier().RecordChange(before, after)
}

// notifyBudget notifies of budgets that are nearly used up.
func (r *Notifications) notifyBudget(dir string, today trellis.Usage, l config.Limits) {
	if n := r.Notifier(); n.HearsOf(config.Spent) {
		if t, err := r.p.Store.Load(dir); err == nil {
			n.RecordUsage(t, today, l)
		}
	}
}

// Watch notifies of an earlier watcher that was killed, and returns the function to call at the end of this one.
func (r *Notifications) Watch() (stopped func(error)) {
	n, begun := r.Notifier(), r.p.Env.Now()
	if b, ok := pulse.Left(r.p.Root); ok && !b.Once {
		n.WatcherStopped(b.Since, "it was killed, or the machine stopped; its last sign of life was at "+b.At.Local().Format("2006-01-02 15:04:05"))
	}
	return func(err error) {
		why := "stopped by a signal"
		if err != nil {
			why = err.Error()
		}
		n.WatcherStopped(begun, why)
		r.watcherEnded = n.HearsOf(config.Watcher)
	}
}

// Work has news sent while a site works, beginning with the pending news of earlier processes.
func (r *Notifications) Work(s *runner.Site) {
	n := r.Notifier()
	n.Late = false
	if say := s.Event; say != nil {
		n.Say = func(text string) { say(runner.Event{Level: slog.LevelWarn, Message: text}) }
	}
	s.Seen = n.CheckChange
	n.StartSending()
}

// Close sends pending news. Commands that only give an order leave that to a live watcher.
func (r *Notifications) Close(ctx context.Context) {
	if r == nil || r.n == nil {
		return
	}
	patience := newsTimeout
	if r.watcherEnded {
		patience = watcherEndTimeout
		slow := time.AfterFunc(newsInterruptTimeout, func() {
			r.p.Env.say("telling people that the watcher stopped, for %v at most; Ctrl-C ends it at once", watcherEndTimeout)
		})
		defer slow.Stop()
	} else if w := pulse.Look(r.p.Root, r.p.Env.Now()); r.n.Late && w.Alive && !w.Hangs {
		patience = 0
	} else if ctx.Err() != nil {
		patience = newsInterruptTimeout
	}
	r.n.Close(patience)
}

// TestResult is the result of a test message to one recipient.
type TestResult struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	OK    bool   `json:"ok"`
	Error string `json:"error"`
}

// Test sends a test message to the recipients in the settings: all, or those of one kind or name.
func (r *Notifications) Test(ctx context.Context, which string) ([]TestResult, error) {
	p, err := r.p.InForce(ctx)
	if err != nil {
		return nil, err
	}
	c, err := p.ValidConfig()
	if err != nil {
		return nil, err
	}
	if len(c.Notify) == 0 {
		return nil, WithHints(Usagef("notify in .trellis/config.yaml is empty"), "docs/reference/notify.md shows what to write there")
	}
	list := []TestResult{}
	for _, n := range c.Notify {
		if kind, name := notify.KindAndName(n); which == "" || which == kind || which == name {
			t := TestResult{Name: name, Kind: kind, OK: true}
			if err := r.Notifier().Test(ctx, n); err != nil {
				t.OK, t.Error = false, r.Notifier().Redact(err.Error())
			}
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil, Usagef("notify has no entry of kind or name %q; it has %s", which, strings.Join(Notified(c), ", "))
	}
	return list, nil
}

// Notified returns the kinds and names of the recipients in the settings.
func Notified(c *config.Config) (list []string) {
	for _, n := range c.Notify {
		kind, name := notify.KindAndName(n)
		list = append(list, kind, name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// NotifierName returns the name of a recipient.
func NotifierName(n config.Notify) string {
	_, name := notify.KindAndName(n)
	return name
}

// Failing is a recipient that could not be reached last time, and why.
type Failing = notify.Failing

// Failing returns the recipients that could not be reached last time.
func (r *Notifications) Failing() []Failing { return r.Notifier().Failing() }
