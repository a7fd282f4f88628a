package pipeline

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// taskDir is the directory of the task, where its run keeps its files below run/.
type taskDir struct {
	dir      string
	runDir   string
	redactor func(string) string
	disk     *durable.Disk
}

// inputs are the copies below run/inputs of what people wrote, by their hashes: what phases read.
type inputs struct {
	store   taskdir.Store
	task    *taskDir
	bundles map[string]*plan.Bundle
	mu      sync.Mutex
}

// trustJudge asks whether what a run takes in came from somebody who is trusted here.
type trustJudge struct {
	repo         *git.Repo
	trustedClaim func(ctx context.Context, t *taskdir.Task, base Base, begun bool) error
	trustedBase  func(ctx context.Context, base Base) error
	textsTrusted func(ctx context.Context, texts map[string][]byte) error
}

// intake reads what counts of the task's directory.
type intake struct {
	store  taskdir.Store
	inputs *inputs
	task   *taskDir
	trust  *trustJudge
}

// claimer is the effect of the claim.
type claimer struct {
	repo      *git.Repo
	store     taskdir.Store
	config    *config.Config
	cast      agentcall.Cast
	lookPath  func(program string) error
	merges    *Merges
	approvals Agreements
	intake    *intake
	task      *taskDir
	trust     *trustJudge
}

// standardsWatch watches what judges the work.
type standardsWatch struct {
	store taskdir.Store
	task  *taskDir
	mu    sync.Mutex
}

// observer is the effect of observe.
type observer struct {
	store      taskdir.Store
	config     *config.Config
	lookPath   func(program string) error
	neighbours *ready.Neighbours
	approvals  Agreements
	inputs     *inputs
	intake     *intake
	standards  *standardsWatch
	task       *taskDir
}

// guard knows the worktree that was made for the run, and what git had around it before any agent was at work.
type guard struct {
	repo     *git.Repo
	task     *taskDir
	hooks    map[string]string
	lastBase string
	made     git.Made
	objects  objects
	mu       sync.Mutex
}

// leaks finds secrets in what a run adds.
type leaks struct {
	repo    *git.Repo
	secrets []string
	task    *taskDir
}

// readerSnapshot is the worktree as a call found it that may only read.
type readerSnapshot struct {
	snap *git.Snapshot
	mu   sync.Mutex
}

// sealer keeps the proofs of a task.
type sealer struct {
	repo   *git.Repo
	config *config.Config
	counts proof.Counting
	now    func() time.Time
	inputs *inputs
	task   *taskDir
	chain  *proof.Chain
	mu     sync.Mutex
}

// stepRunner has the effects of a plan's steps.
type stepRunner struct {
	repo    *git.Repo
	config  *config.Config
	environ []string
	box     *sandbox.Box
	marker  string
	counts  proof.Counting
	step    func(workflow.Event)
	now     func() time.Time
	inputs  *inputs
	sealer  *sealer
	task    *taskDir
}

// prompts makes what the prompt of a phase is made of.
type prompts struct {
	repo     *git.Repo
	store    taskdir.Store
	box      *sandbox.Box
	guard    *guard
	inputs   *inputs
	leaks    *leaks
	readOnly *readerSnapshot
	steps    *stepRunner
	task     *taskDir
	trust    *trustJudge
}

// previewer shows prompts without a run.
type previewer struct {
	cast     agentcall.Cast
	claimer  *claimer
	observer *observer
	prompts  *prompts
}

// statusWriter makes task.json say how the run stands.
type statusWriter struct {
	store    taskdir.Store
	stand    func(Standing)
	now      func() time.Time
	task     *taskDir
	revision int64
	mu       sync.Mutex
}

// commands run the project's own commands in their sandbox.
type commands struct {
	environ []string
	box     *sandbox.Box
	marker  string
	task    *taskDir
}

// restorer puts the worktree back to what it was before a call.
type restorer struct {
	repo *git.Repo
	task *taskDir
}

// modules are the submodules that a task works in.
type modules struct {
	repo *git.Repo
	task *taskDir
}

// repairer takes back what no agent may do to git or to task directories.
type repairer struct {
	repo    *git.Repo
	guard   *guard
	modules *modules
	task    *taskDir
}

// fingerprinter takes the fingerprint of a run's environment.
type fingerprinter struct {
	repo    *git.Repo
	store   taskdir.Store
	environ []string
	box     *sandbox.Box
	task    *taskDir
}

// worktrees makes, finds and takes away the worktree of a task.
type worktrees struct {
	repo     *git.Repo
	store    taskdir.Store
	guard    *guard
	modules  *modules
	restorer *restorer
	task     *taskDir
}

// setup makes a checkout ready to work in.
type setup struct {
	store    taskdir.Store
	commands *commands
	task     *taskDir
	trust    *trustJudge
}

// preparer is the effect of prepare.
type preparer struct {
	repo        *git.Repo
	box         *sandbox.Box
	commands    *commands
	environment *fingerprinter
	guard       *guard
	modules     *modules
	restorer    *restorer
	setup       *setup
	task        *taskDir
	worktrees   *worktrees
}

// verifier is the effect of verify and baseline.
type verifier struct {
	repo        *git.Repo
	commands    *commands
	environment *fingerprinter
	inputs      *inputs
	repairer    *repairer
	restorer    *restorer
	task        *taskDir
}

// freshCheckout is a checkout of the commit alone.
type freshCheckout struct {
	repo     *git.Repo
	commands *commands
	modules  *modules
	setup    *setup
}

// prover is the effect of accept: it judges the criteria that name a command.
type prover struct {
	commands *commands
	fresh    *freshCheckout
	restorer *restorer
	task     *taskDir
}

// finalVerifier is the effect of final verify.
type finalVerifier struct {
	repo     *git.Repo
	fresh    *freshCheckout
	inputs   *inputs
	leaks    *leaks
	prover   *prover
	restorer *restorer
	verifier *verifier
}

// committer is the effect of commit.
type committer struct {
	repo      *git.Repo
	committed func(commit string)
	guard     *guard
	leaks     *leaks
	modules   *modules
	restorer  *restorer
	task      *taskDir
}

// upstream knows what the base of a task went on to.
type upstream struct {
	repo   *git.Repo
	store  taskdir.Store
	merges *Merges
	trust  *trustJudge
}

// updater is the effect of update.
type updater struct {
	repo      *git.Repo
	committer *committer
	modules   *modules
	restorer  *restorer
	task      *taskDir
	trust     *trustJudge
	upstream  *upstream
	verifier  *verifier
}

// deliverer is the effect of deliver.
type deliverer struct {
	repo   *git.Repo
	send   func(context.Context, flow.Call, DeliverIn) (Delivery, error)
	intake *intake
	task   *taskDir
}

// reporter is the effect of report.
type reporter struct {
	repo   *git.Repo
	store  taskdir.Store
	guard  *guard
	inputs *inputs
	task   *taskDir
}

// mainWatch watches the main checkout around an agent's call.
type mainWatch struct {
	repo *git.Repo
	task *taskDir
	seen *git.Looks
	mu   sync.Mutex
}

// callWatch watches around an agent's call.
type callWatch struct {
	repo      *git.Repo
	guard     *guard
	checkout  *mainWatch
	readOnly  *readerSnapshot
	standards *standardsWatch
	task      *taskDir
}

// Deps are what the effects of a task's run are made of. Only New sees all of them.
type Deps struct {
	Dir        string // the task directory
	Repo       *git.Repo
	Store      taskdir.Store
	Config     *config.Config
	Cast       agentcall.Cast
	LookPath   func(program string) error
	Neighbours *ready.Neighbours // what is known of other tasks; nil: they are read anew
	Merges     *Merges           // what is known of merged work; nil: git is asked anew
	Environ    []string          // of the project's own commands
	Box        *sandbox.Box      // that they run in
	Marker     string            // of the run's processes
	Redact     func(string) string
	Secrets    []string // values that must not be committed
	Deliver    func(context.Context, flow.Call, DeliverIn) (Delivery, error)
	// TrustedClaim says why a task can't begin at base here, and TrustedBase why nothing of base can be brought into its work:
	// it came from somebody whom nobody here trusts. begun: a run of this clone made its branch. Nil: all is trusted.
	TrustedClaim func(ctx context.Context, t *taskdir.Task, base Base, begun bool) error
	TrustedBase  func(ctx context.Context, base Base) error
	// TrustedTexts says why files of the checkout, as they were read, count for nothing. Nil: all is trusted.
	TrustedTexts func(ctx context.Context, texts map[string][]byte) error
	Counts       proof.Counting      // which decisions count; nil: all
	Committed    func(commit string) // told what was committed; nil: nobody is

	Stand func(Standing)       // told what task.json says now; nil: nobody is
	Step  func(workflow.Event) // told what the steps of a plan do; nil: nobody is
	Disk  *durable.Disk
	Now   func() time.Time
}

// Effects are what a run does, and what is asked for without one.
type Effects struct {
	Prompts   *prompts   // of its agents' calls
	Calls     *callWatch // around those
	Bundles   *inputs    // the plans that it took in
	Preview   *previewer
	Report    *reporter
	Upstream  *upstream
	Delivery  *deliverer
	Leaks     *leaks
	status    *statusWriter
	claimer   *claimer
	preparer  *preparer
	worktrees *worktrees
	verifier  *verifier
	prover    *prover
	final     *finalVerifier
	sealer    *sealer
	committer *committer
	updater   *updater
	observer  *observer
	steps     *stepRunner
	guard     *guard
	standards *standardsWatch
}

// Begin tells what is known before the run goes on: the highest revision of task.json that earlier runs wrote, and what
// the journal says.
func (e *Effects) Begin(revision int64, p Progress) {
	e.status.Seen(revision)
	e.guard.Made(p.Made)
	e.guard.Hooks(p.Hooks)
	e.guard.Objects(p.Since, p.Borrowed)
}

// Activities are all that a run does besides its agents' calls.
func (e *Effects) Activities() []flow.Activity {
	list := []flow.Activity{claim.With(e.claimer.claim), project.With(e.status.writeStatus), prepare.With(e.preparer.prepare), baseline.With(e.verifier.baseline), observe.With(e.observer.observe),
		verify.With(e.verifier.verify), final.With(e.final.final), prove.With(e.prover.prove), ground.With(e.prover.ground), changed.With(e.verifier.changed), commit.With(e.committer.commit),
		discard.With(e.worktrees.discard), seal.With(e.sealer.seal), deliver.With(e.Delivery.deliver), conclude.With(e.Report.conclude),
		update.With(e.updater.update), unmended.With(e.updater.unmended), probe.With(e.Upstream.probe)}
	return inWorktree(e.guard, e.standards, append(list, e.steps.effects().Activities()...))
}

// New makes the effects of a task's run.
func New(d Deps) *Effects {
	task := &taskDir{dir: d.Dir, disk: d.Disk, redactor: d.Redact, runDir: filepath.Join(d.Dir, taskdir.Run)}
	inputs := &inputs{store: d.Store, task: task}
	trust := &trustJudge{repo: d.Repo, trustedBase: d.TrustedBase, trustedClaim: d.TrustedClaim, textsTrusted: d.TrustedTexts}
	intake := &intake{inputs: inputs, store: d.Store, task: task, trust: trust}
	approvals := Agreements{Disk: d.Disk, Config: d.Config, Store: d.Store, Counts: d.Counts, Now: d.Now}
	claimer := &claimer{approvals: approvals, cast: d.Cast, config: d.Config, intake: intake, lookPath: d.LookPath, merges: d.Merges, repo: d.Repo, store: d.Store, task: task, trust: trust}
	standards := &standardsWatch{store: d.Store, task: task}
	observer := &observer{approvals: approvals, config: d.Config, inputs: inputs, intake: intake, lookPath: d.LookPath, neighbours: d.Neighbours, standards: standards, store: d.Store, task: task}
	guard := &guard{repo: d.Repo, task: task}
	leaks := &leaks{repo: d.Repo, secrets: d.Secrets, task: task}
	readOnly := &readerSnapshot{}
	sealer := &sealer{config: d.Config, counts: d.Counts, inputs: inputs, now: d.Now, repo: d.Repo, task: task}
	steps := &stepRunner{box: d.Box, config: d.Config, counts: d.Counts, environ: d.Environ, inputs: inputs, marker: d.Marker, now: d.Now, repo: d.Repo, sealer: sealer, step: d.Step, task: task}
	prompts := &prompts{box: d.Box, guard: guard, inputs: inputs, leaks: leaks, readOnly: readOnly, repo: d.Repo, steps: steps, store: d.Store, task: task, trust: trust}
	preview := &previewer{cast: d.Cast, claimer: claimer, observer: observer, prompts: prompts}
	status := &statusWriter{now: d.Now, stand: d.Stand, store: d.Store, task: task}
	commands := &commands{box: d.Box, environ: d.Environ, marker: d.Marker, task: task}
	restorer := &restorer{repo: d.Repo, task: task}
	modules := &modules{repo: d.Repo, task: task}
	repairer := &repairer{guard: guard, modules: modules, repo: d.Repo, task: task}
	environment := &fingerprinter{box: d.Box, environ: d.Environ, repo: d.Repo, store: d.Store, task: task}
	worktrees := &worktrees{guard: guard, modules: modules, repo: d.Repo, restorer: restorer, store: d.Store, task: task}
	setup := &setup{commands: commands, store: d.Store, task: task, trust: trust}
	preparer := &preparer{box: d.Box, commands: commands, environment: environment, guard: guard, modules: modules, repo: d.Repo, restorer: restorer, setup: setup, task: task, worktrees: worktrees}
	verifier := &verifier{commands: commands, environment: environment, inputs: inputs, repairer: repairer, repo: d.Repo, restorer: restorer, task: task}
	fresh := &freshCheckout{commands: commands, modules: modules, repo: d.Repo, setup: setup}
	prover := &prover{commands: commands, fresh: fresh, restorer: restorer, task: task}
	final := &finalVerifier{fresh: fresh, inputs: inputs, leaks: leaks, prover: prover, repo: d.Repo, restorer: restorer, verifier: verifier}
	committer := &committer{committed: d.Committed, guard: guard, leaks: leaks, modules: modules, repo: d.Repo, restorer: restorer, task: task}
	upstream := &upstream{merges: d.Merges, repo: d.Repo, store: d.Store, trust: trust}
	updater := &updater{committer: committer, modules: modules, repo: d.Repo, restorer: restorer, task: task, trust: trust, upstream: upstream, verifier: verifier}
	delivery := &deliverer{intake: intake, repo: d.Repo, send: d.Deliver, task: task}
	report := &reporter{guard: guard, inputs: inputs, repo: d.Repo, store: d.Store, task: task}
	checkout := &mainWatch{repo: d.Repo, task: task}
	calls := &callWatch{checkout: checkout, guard: guard, readOnly: readOnly, repo: d.Repo, standards: standards, task: task}
	return &Effects{Prompts: prompts, Calls: calls, Bundles: inputs, Preview: preview, Report: report, Upstream: upstream, Delivery: delivery, Leaks: leaks,
		status: status, claimer: claimer, preparer: preparer, worktrees: worktrees, verifier: verifier, prover: prover, final: final, sealer: sealer,
		committer: committer, updater: updater, observer: observer, steps: steps, guard: guard, standards: standards}
}
