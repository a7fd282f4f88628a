// Package runner takes a task, a plan or a file of steps from what is on disk to its end: it opens the run, holds its lock,
// passes it its effects and reports how it ended. What a run does is defined in planner, pipeline and workflow.
package runner

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/traces"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Site is one repository and everything that is needed to run tasks in it. Its methods may be called concurrently.
type Site struct {
	Store     taskdir.Store
	Repo      *git.Repo
	Config    *config.Config
	Agent     func(name string) (agents.Agent, error)
	Available func(ctx context.Context, name string) error // returns a *flow.Failure agent_missing or agent_auth if the agent can't work
	Default   func() (string, error)                       // returns the agent to use if nobody chose one
	Instruct  func(trellis.Role) (Instructions, error)     // returns what .trellis/agents and .trellis/templates say about a role
	LookPath  func(program string) error
	Environ   []string            // environment of the project's own commands
	Box       *sandbox.Box        // sandbox for these commands; nil: none
	Trust     *trust.Judge        // judges what came by git; nil: all of it may run
	Keys      []ed25519.PublicKey // decisions signed with these keys count, whoever brings them
	SignWith  ed25519.PrivateKey  // signs decisions; nil: they are not signed
	Account   string              // account with which people decide here, as USER@HOST
	// TrustedPrograms returns why the programs that the settings name may not run any more, nil if they may. If unset, they always may.
	TrustedPrograms func(context.Context) error
	Redact          func(string) string
	Secrets         []string            // values that must not be committed
	Build           string              // version of this binary; inputs are compared with the journal only if it began the run
	Event           func(Event)         // called with what happens, from many goroutines; nil: not called
	Seen            func(*taskdir.Task) // called with each task that is assessed, in its current state; nil: not called
	// Mergeable is called with each task whose pull request people approved and whose checks pass, and with the commit for
	// which that was found, each time it is found; nil: not called.
	Mergeable func(t *taskdir.Task, commit string)
	Spent     func(dir string, today trellis.Usage) // called after each agent call for a task with today's usage; nil: not called
	Traces    *traces.Tracer                        // sends spans of what runs did; nil: none are sent
	Sharing   Sharing                               // shares tasks with other machines; nil: all tasks are this machine's
	Disk      *durable.Disk
	Now       func() time.Time

	once   sync.Once
	common *repositoryState
}

// repositoryState is what a process has learned about a repository. A Site with newer settings that replaces another one takes it over.
type repositoryState struct {
	identity   atomic.Bool      // git has an identity to commit with
	neighbours ready.Neighbours // what is known about the tasks, kept from one assessment to the next
	merges     bases.Merges     // what is known about their branches
	reviewed   sync.Map         // by directory of a task in review: where its branch and bases were when nothing was found merged
	ledger     dayLedger        // what was used today
	phases     sync.Map         // by task directory: the phase that its run entered last
	unsaved    sync.Once        // guards the warning that trust can't be stored
}

func (s *Site) shared() *repositoryState {
	s.once.Do(func() {
		if s.common == nil {
			s.common = new(repositoryState)
		}
	})
	return s.common
}

func (s *Site) Assessor() Assessor {
	return Assessor{s.Store, s.Repo, s.Config, s.LookPath, s.Seen, &s.shared().neighbours, baseFinder(s), s.Approvals(), s.Budgets(), s.guard(), s.states(), s.Elsewhere}
}
func (s *Site) Starter() Starter {
	return Starter{s.Store, s.Assessor(), s.TaskRunner(), s.Orders(), s.guard(), s.states(), s.Tell, s.Clock}
}
func (s *Site) TaskRunner() TaskRunner { return TaskRunner{s} }
func (s *Site) PlanRunner() PlanRunner { return PlanRunner{s} }
func (s *Site) FileRunner() FileRunner { return FileRunner{s} }
func (s *Site) Orders() Orders         { return Orders{s} }
func (s *Site) Approvals() Approvals {
	return Approvals{pipeline.ApprovalJudge{Disk: s.Disk, Config: s.Config, Store: s.Store, Counts: s.guard().decisionFilter(), Now: s.Clock}, s.SignWith, s.Account}
}
func (s *Site) Objectives() Objectives { return Objectives{s} }
func (s *Site) Budgets() Budgets {
	b := Budgets{s.Config.Limits, &s.shared().ledger, ledgerDir(s.Store.Root), s.Disk, clockIn(s.Config.Shared.Zone(), s.Clock), s.Spent, nil}
	if s.Sharing != nil {
		b.usedElsewhere = s.Sharing.SpentElsewhere
	}
	return b
}
func (s *Site) Hooks() Hooks {
	return Hooks{s.Config.Hooks, s.Store, s.Environ, s.Redact, s.guard(), s.Tell}
}
func (s *Site) Roles() Roles {
	return Roles{s.Config, s.Instruct, s.Default, s.Available, s.guard().trustedAgent, s.Repo.Author(), &s.shared().identity}
}
func (s *Site) guard() trustGuard {
	return trustGuard{s.Store, s.Repo, baseFinder(s), s.Trust, s.TrustedPrograms, s.Keys, s.Config.Agents.Commands, s.Agent, s.Environ, &s.shared().unsaved, s.Tell}
}
func (s *Site) states() states { return states{s.Store, s.Clock} }
func agentCallers(s *Site) callers {
	return callers{s.Disk, s.Repo.Main, s.Budgets(), s.Redact, s.Clock, s.Tell}
}

// traced passes each agent call of a run its span as the parent of the agent's own spans, if spans are wanted.
func (s *Site) traced(c *agentcall.Caller, j *journal.Run) {
	if s.Traces == nil {
		return
	}
	trace, env := traces.TraceOf(j.History()), c.Env
	c.Env = func(call flow.Call, r agentcall.Request) []string {
		return append(env(call, r), "TRACEPARENT="+trace.Parent(call.ID))
	}
}
func baseFinder(s *Site) bases.Finder {
	return bases.Finder{Repo: s.Repo, Store: s.Store, OnlyMerged: s.Config.DependsOnMerged, Merges: &s.shared().merges}
}

// TakeOver makes s, which has newer settings, replace old: s takes over what old has learned, and its Event, Seen and Sharing.
func (s *Site) TakeOver(old *Site) {
	s.common, s.Event, s.Seen, s.Sharing = old.shared(), old.Event, old.Seen, old.Sharing
}

// Event is something that happened in a run, for people who watch it.
type Event struct {
	Task    string // directory name
	Role    trellis.Role
	Round   int
	Call    string              // id in the run of the agent call that the event is about
	Agent   agents.Event        // what the agent did, if all fields below are empty
	Asked   *agentcall.Request  // the call that begins; only while planning
	Reply   *agentcall.Reply    // what the call returned; only while planning
	State   *pipeline.TaskState // new state of the run
	Step    *workflow.Event     // what a step of a plan or a file did
	Told    *events.Event       // a check, a wait or the end of a run, as all interfaces report it
	Ended   *Result             // set with a Told that the run has ended: the state of the task
	Watch   *WatchState         // what a watcher runs, and why it does not run other tasks; with each heartbeat
	Message string              // text to show in addition
	Level   slog.Level          // severity of Message
}

func (s *Site) Tell(e Event) {
	if s.Event != nil {
		s.Event(e)
	}
}

func (s *Site) Clock() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// nonce returns a random word that nobody can guess.
func nonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// open takes the lock of a task's run, ends what an earlier holder left running, and opens the run's journal. It returns a
// *durable.HeldError if another process has the task.
func (s *Site) open(ctx context.Context, dir string, acts []flow.Activity, mailbox func(*journal.Run) []journal.Message) (j *journal.Run, err error) {
	var raised []journal.Message
	clone, err := s.Repo.CloneID()
	if err != nil {
		return nil, err
	}
	o := journal.Options{Dir: filepath.Join(dir, taskdir.Run), Clone: clone, Build: s.Build, Activities: acts, Disk: s.Disk, Mailbox: func() []journal.Message {
		if mailbox == nil {
			return raised
		}
		return append(mailbox(j), raised...)
	}, Holder: runlock.Holder(dir, s.Clock()), Now: s.Clock, ParkAfter: ParkAfter,
		Waits: func(c journal.Entry) { s.eventsOf(dir).sendWait(j, c) },
		Wrote: s.Traces.Follow(dir, func(text string) { s.Tell(Event{Level: slog.LevelWarn, Message: text}) }),
		Clear: func(former durable.Holder) error { return runlock.EndLeftovers(dir, former) }}
	err = runlock.Await(func() (err error) {
		j, err = journal.Open(o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.guard().checkJournalOrigin(ctx, dir, j.History()); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	raised = s.Budgets().budgetMessages(j.History())
	if o.Wrote != nil {
		o.Wrote() // the process that wrote the last lines may not have sent their spans
	}
	return j, nil
}

// ParkAfter is the longest wait during which a process keeps running. It is longer than the delay between two attempts of a call.
const ParkAfter = 6 * time.Minute
