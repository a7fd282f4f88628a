// Package runner takes a task, a plan or a file of steps from what is on disk to its end: it opens the run, holds its lock,
// gives it its effects and says where it ended. What a run does stands in planner, pipeline and workflow.
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

// Site is one repository and all that running tasks in it needs. Its methods may be called concurrently.
type Site struct {
	Store     taskdir.Store
	Repo      *git.Repo
	Config    *config.Config
	Agent     func(name string) (agents.Agent, error)
	Available func(ctx context.Context, name string) error // a *flow.Failure agent_missing or agent_auth when it can't work
	Default   func() (string, error)                       // the agent to take when nobody chose one
	Instruct  func(trellis.Role) (Instructions, error)     // what .trellis/agents and .trellis/templates say of a role
	LookPath  func(program string) error
	Environ   []string            // of the project's own commands
	Box       *sandbox.Box        // that they run in; nil: none
	Trust     *trust.Judge        // of what came by git; nil: all of it may run
	Keys      []ed25519.PublicKey // whose decisions count, whoever brings them
	SignWith  ed25519.PrivateKey  // decisions, when there is one
	Account   string              // that people decide with here, as USER@HOST
	// TrustedPrograms says why what the settings name may not be run any more, nil when it may; nil: it always may.
	TrustedPrograms func(context.Context) error
	Redact          func(string) string
	Secrets         []string            // values that must not be committed
	Build           string              // of this binary: inputs are compared to the letter only within one
	Event           func(Event)         // told what happens, from many goroutines; nil: nobody is
	Seen            func(*taskdir.Task) // shown each task that is assessed, as it is; nil: nobody is
	// Mergeable is shown each task whose pull request people approved and whose checks pass, with the commit that this is
	// said of, each time; nil: nobody is.
	Mergeable func(t *taskdir.Task, commit string)
	Spent     func(dir string, today trellis.Usage) // is shown what agents used after each call for a task; nil: nobody is
	Traces    *traces.Tracer                        // sends spans of what runs did; nil: nobody wants them
	Sharing   Sharing                               // between this machine and others; nil: all tasks are this one's
	Disk      *durable.Disk
	Now       func() time.Time

	once   sync.Once
	common *common
}

// common is what a process learned of a repository. A site that takes another one's place, with newer settings,
// goes on with it.
type common struct {
	identity   atomic.Bool      // git knows who commits
	neighbours ready.Neighbours // what is known of the tasks from one assessment to the next
	merges     bases.Merges     // and of their branches
	reviewed   sync.Map         // where branch and bases of those in review were, by directory, when nothing was found merged
	ledger     ledger           // of the day
	phases     sync.Map         // that runs entered last, by directory
	unsaved    sync.Once        // says that what is trusted can't be remembered
}

func (s *Site) shared() *common {
	s.once.Do(func() {
		if s.common == nil {
			s.common = new(common)
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
	return Approvals{pipeline.ApprovalJudge{Disk: s.Disk, Config: s.Config, Store: s.Store, Counts: s.guard().counts(), Now: s.Clock}, s.SignWith, s.Account}
}
func (s *Site) Objectives() Objectives { return Objectives{s} }
func (s *Site) Budgets() Budgets {
	b := Budgets{s.Config.Limits, &s.shared().ledger, spentIn(s.Store.Root), s.Disk, clockIn(s.Config.Shared.Zone(), s.Clock), s.Spent, nil}
	if s.Sharing != nil {
		b.others = s.Sharing.SpentElsewhere
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

// traced has a run's agents told below which span theirs belong, when spans are wanted.
func (s *Site) traced(c *agentcall.Caller, j *journal.Run) {
	if s.Traces == nil {
		return
	}
	trace, env := traces.Of(j.History()), c.Env
	c.Env = func(call flow.Call, r agentcall.Request) []string {
		return append(env(call, r), "TRACEPARENT="+trace.Parent(call.ID))
	}
}
func baseFinder(s *Site) bases.Finder {
	return bases.Finder{Repo: s.Repo, Store: s.Store, OnlyMerged: s.Config.DependsOnMerged, Merges: &s.shared().merges}
}

// Succeed has a site with newer settings take the place of another one: it goes on with what that learned and tells the
// same people.
func (s *Site) Succeed(old *Site) {
	s.common, s.Event, s.Seen, s.Sharing = old.shared(), old.Event, old.Seen, old.Sharing
}

// Event is something that happened in a run, for people who watch.
type Event struct {
	Task    string // directory name
	Role    trellis.Role
	Round   int
	Call    string              // which call of an agent it is about, by its id in the run
	Agent   agents.Event        // what the agent did, when all below are empty
	Asked   *agentcall.Request  // the call begins; told while planning
	Reply   *agentcall.Reply    // the call came to this; told while planning
	State   *pipeline.TaskState // where the run stands now
	Step    *workflow.Event     // what a step of a file did
	Told    *events.Event       // a check, a wait or the end of a run, as every face is told of it
	Ended   *Result             // beside a Told that the run has ended: where the task stands now
	Watch   *Watching           // what a watcher does not run, as it changes
	Message string              // what is to be said beside that
	Level   slog.Level          // of a Message: how much it matters
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

// nonce is a word that nobody can guess.
func nonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// open takes the lock of a task's run, ends what an earlier holder left running, and opens the run's journal. A
// *durable.HeldError means that another process has the task.
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
		Waits: func(c journal.Entry) { s.eventsOf(dir).waits(j, c) },
		Wrote: s.Traces.Follow(dir, func(text string) { s.Tell(Event{Level: slog.LevelWarn, Message: text}) }),
		Clear: func(former durable.Holder) error { return runlock.Clear(dir, former) }}
	err = runlock.Await(func() (err error) {
		j, err = journal.Open(o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.guard().ours(ctx, dir, j.History()); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	raised = s.Budgets().raised(j.History())
	if o.Wrote != nil {
		o.Wrote() // whoever wrote it before may not have sent it
	}
	return j, nil
}

// ParkAfter is the longest wait that a process sits out: longer than any between two tries of a call.
const ParkAfter = 6 * time.Minute
