package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/pipeline/passes"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Deps are the dependencies from which New makes the effects of a task's run. Only New sees all of them.
type Deps struct {
	Dir        string // the task directory
	Repo       *git.Repo
	Store      taskdir.Store
	Config     *config.Config // nil: nothing is configured
	Agents     agentcall.Agents
	LookPath   func(program string) error
	Neighbours *ready.Neighbours // what is known of other tasks; nil: they are read again
	Merges     *bases.Merges     // which work is known to be merged; nil: git is asked again
	Environ    []string          // environment of the project's own commands
	Box        *sandbox.Box      // sandbox that these commands run in
	Marker     string            // value of proc.MarkerVar in the processes of the run
	Redact     func(string) string
	Secrets    []string // values that must not be committed
	Deliver    func(context.Context, flow.Call, DeliverIn) (Delivery, error)
	// TrustedClaim returns an error if the task can't begin at base here, and TrustedBase if its work can't take over base, since
	// base came from somebody who is not trusted. begun: a run of this clone made its branch. Nil: all is trusted.
	TrustedClaim func(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error
	TrustedBase  func(ctx context.Context, base bases.Base) error
	// TrustedTexts returns an error if files of the checkout, given as they were read, must not be used. Nil: all is trusted.
	TrustedTexts func(ctx context.Context, texts map[string][]byte) error
	Counts       proof.Filter        // which decisions count; nil: all
	Committed    func(commit string) // called with each commit that was made; may be nil

	OnState func(TaskState) // called with what was written to task.json; may be nil
	// OnCheck is called when a deciding command of an activity ends, or when the activity waits before running it; may be nil.
	OnCheck func(c flow.Call, told CheckNews)
	Step    func(workflow.Event) // called with events of the plan's steps; may be nil
	Disk    *durable.Disk
	Now     func() time.Time
}

// Effects holds the effects of a run, and those that are used without a run.
type Effects struct {
	Prompts       *prompts   // data for the prompts of its agents
	Calls         *callWatch // checks around agents' calls
	Bundles       *inputs    // the plans that it took in
	Preview       *previewer
	Report        *reporter
	Upstream      *upstream
	Delivery      *deliverer
	Leaks         *leaks
	status        *statusWriter
	claimer       *claimer
	preparer      *preparer
	worktrees     *worktrees
	verifier      *verifier
	prover        *prover
	freshVerifier *freshVerifier
	sealer        *sealer
	committer     *committer
	updater       *updater
	observer      *observer
	steps         *stepRunner
	guard         *worktreeGuard
	standards     *standardsWatch
}

// LoadProgress takes in what is known before the run continues: the highest revision of task.json that earlier runs wrote, and
// what the journal says.
func (e *Effects) LoadProgress(revision int64, p Progress) {
	e.status.RecordSeen(revision)
	e.guard.SetMade(p.Made)
	e.guard.SetHooks(p.Hooks)
	e.guard.SetObjects(p.Since, p.Borrowed)
}

// Activities returns all that a run does besides calling agents. A step of the flow, its activity and its effect have one name,
// except for these, whose names are in journals (the string) or had to differ:
//
//	run.enter                         writeStatus "status"                 statusWriter.write
//	run.baselineAndImplement          baseline                             freshVerifier.baseline, verifier.baseline
//	run.accept                        prove "criteria", unproven "ground"  prover
//	run.verify                        verify                               freshVerifier.verify, verifier.verify
//	run.final                         final "final-verify", seal           freshVerifier.final, sealer.seal
//	run.unresolvedConflicts           unresolvedConflicts "unmended"       updater.unresolvedConflicts
//	run.finish                        discard                              worktrees.discard
//	run.end                           conclude "report"                    reporter.conclude
//	checkNotSilent, resumeVerified …  changed                              verifier.changed
func (e *Effects) Activities() []flow.Activity {
	list := []flow.Activity{claim.With(e.claimer.claim), writeStatus.With(e.status.write), prepare.With(e.preparer.prepare), baseline.With(e.freshVerifier.baseline), observe.With(e.observer.observe),
		verify.With(e.freshVerifier.verify), final.With(e.freshVerifier.final), prove.With(e.prover.prove), unproven.With(e.prover.unproven), changed.With(e.verifier.changed), commit.With(e.committer.commit),
		discard.With(e.worktrees.discard), seal.With(e.sealer.seal), deliver.With(e.Delivery.deliver), conclude.With(e.Report.conclude),
		update.With(e.updater.update), unresolvedConflicts.With(e.updater.unresolvedConflicts), probe.With(e.Upstream.probe)}
	return guardWorktree(e.guard, e.standards, append(list, e.steps.effects().Activities()...))
}

// Delivers reports whether an activity shows the work to people, with effects that are visible outside this repository.
func Delivers(activity string) bool { return activity == string(deliver) }

// LeavesNothing reports whether an activity leaves nothing behind that another one needs: it only reads or judges.
func LeavesNothing(activity string) bool {
	switch activity {
	case string(observe), string(baseline), string(verify), string(final), string(prove), string(unproven), string(changed), string(probe), string(unresolvedConflicts):
		return true
	}
	return false
}

// New makes the effects of a task's run.
func New(d Deps) *Effects {
	cfg := cmp.Or(d.Config, new(config.Config))
	finder := bases.Finder{Repo: d.Repo, Store: d.Store, OnlyMerged: cfg.DependsOnMerged, Merges: d.Merges}
	task := &taskDir{dir: d.Dir, disk: d.Disk, redactor: d.Redact, runDir: filepath.Join(d.Dir, taskdir.Run)}
	place := place{d.Repo, d.Store, task}
	inputs := &inputs{place: place, bundles: map[string]*plan.Bundle{}}
	trust := &trustJudge{repo: d.Repo, judgeBase: d.TrustedBase, judgeClaim: d.TrustedClaim, judgeTexts: d.TrustedTexts}
	intake := &intake{place: place, inputs: inputs, trust: trust}
	approvals := ApprovalJudge{Disk: d.Disk, Config: cfg, Store: d.Store, Counts: d.Counts, Now: d.Now}
	claimer := &claimer{place: place, approvals: approvals, agents: d.Agents, config: cfg, intake: intake, lookPath: d.LookPath, bases: finder, trust: trust}
	standards := &standardsWatch{place: place}
	observer := &observer{place: place, approvals: approvals, config: cfg, inputs: inputs, intake: intake, lookPath: d.LookPath, neighbours: d.Neighbours, standards: standards}
	guard := &worktreeGuard{place: place}
	leaks := &leaks{place: place, secrets: d.Secrets}
	readOnly := &readerSnapshot{}
	sealer := &sealer{place: place, chain: &proof.Chain{Disk: d.Disk, Dir: d.Dir}, config: cfg, counts: d.Counts, inputs: inputs, now: d.Now}
	steps := &stepRunner{place: place, box: d.Box, config: cfg, counts: d.Counts, environ: d.Environ, inputs: inputs, marker: d.Marker, now: d.Now, sealer: sealer, step: d.Step}
	prompts := &prompts{place: place, box: d.Box, guard: guard, inputs: inputs, leaks: leaks, readOnly: readOnly, steps: steps, trust: trust}
	preview := &previewer{agents: d.Agents, claimer: claimer, observer: observer, prompts: prompts}
	status := &statusWriter{place: place, now: d.Now, onState: d.OnState}
	commands := &commands{box: d.Box, environ: d.Environ, marker: d.Marker, task: task}
	restorer := &restorer{place: place}
	modules := &modules{place: place}
	repairer := &repairer{place: place, guard: guard, modules: modules}
	environment := &fingerprinter{place: place, box: d.Box, environ: d.Environ}
	worktrees := &worktrees{place: place, guard: guard, modules: modules, restorer: restorer}
	setup := &setup{place: place, commands: commands, trust: trust}
	warm := &warmFolders{now: d.Now, disk: d.Disk, environment: environment, folder: filepath.Join(d.Store.Root, warmFolder), repo: d.Repo, restorer: restorer}
	passed := &passRecords{environment: environment, repo: d.Repo, store: passes.Store{Folder: filepath.Join(d.Store.Root, passesFolder), Disk: d.Disk, Now: d.Now}, task: task}
	preparer := &preparer{place: place, warm: warm, box: d.Box, commands: commands, environment: environment, guard: guard, modules: modules, passes: passed, restorer: restorer, setup: setup, worktrees: worktrees}
	verifier := &verifier{place: place, passes: passed, commands: commands, onCheck: d.OnCheck, environment: environment, inputs: inputs, repairer: repairer, restorer: restorer}
	fresh := &freshCheckout{warm: warm, commands: commands, modules: modules, repo: d.Repo, setup: setup}
	prover := &prover{commands: commands, fresh: fresh, restorer: restorer, task: task}
	freshVerifier := &freshVerifier{fresh: fresh, inputs: inputs, leaks: leaks, prover: prover, repo: d.Repo, restorer: restorer, verifier: verifier}
	committer := &committer{place: place, onCommit: d.Committed, guard: guard, leaks: leaks, modules: modules, restorer: restorer}
	upstream := &upstream{place: place, bases: finder, trust: trust}
	updater := &updater{place: place, committer: committer, modules: modules, restorer: restorer, trust: trust, upstream: upstream, verifier: verifier}
	delivery := &deliverer{place: place, intake: intake, send: d.Deliver}
	report := &reporter{place: place, guard: guard, inputs: inputs}
	checkout := &mainWatch{place: place, checkout: agentcall.Checkout{Repo: d.Repo}}
	calls := &callWatch{place: place, checkout: checkout, guard: guard, readOnly: readOnly, standards: standards}
	return &Effects{Prompts: prompts, Calls: calls, Bundles: inputs, Preview: preview, Report: report, Upstream: upstream, Delivery: delivery, Leaks: leaks,
		status: status, claimer: claimer, preparer: preparer, worktrees: worktrees, verifier: verifier, prover: prover, freshVerifier: freshVerifier, sealer: sealer,
		committer: committer, updater: updater, observer: observer, steps: steps, guard: guard, standards: standards}
}

// place is what most effects work with: the repository, its tasks, and the directory of the one that is run.
type place struct {
	repo  *git.Repo
	store taskdir.Store
	task  *taskDir
}

// taskDir is the directory of a task. Its runs keep their files below run/ there.
type taskDir struct {
	dir      string
	runDir   string
	redactor func(string) string
	disk     *durable.Disk
}

func (d *taskDir) id() string { return filepath.Base(d.dir) }

// backupRef returns the ref under which a call backs up what it removes.
func (d *taskDir) backupRef(c flow.Call) string {
	return fmt.Sprintf("refs/trellis/backup/%s/%s", filepath.Base(d.dir), strings.ReplaceAll(c.Key()[strings.LastIndex(c.Run, "/")+1:], "#", "-"))
}

// folder returns the folder in which one attempt of an activity keeps its files, and makes it if necessary.
func (d *taskDir) folder(c flow.Call) (string, error) {
	if _, err := os.Stat(d.dir); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err) // the task was removed, and must not be created again
	}
	dir := filepath.Join(d.runDir, agentcall.Folder(c), fmt.Sprint(c.Attempt))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err)
	}
	return dir, nil
}

// outputRef returns a reference to the file at path, below run/, that has this text.
func (d *taskDir) outputRef(path, text string) (agentcall.Ref, error) {
	rel, err := filepath.Rel(d.runDir, path)
	return agentcall.Ref{Path: filepath.ToSlash(rel), SHA256: agentcall.SHA256Hex([]byte(text)), Bytes: len(text)}, err
}

func (d *taskDir) output(ref agentcall.Ref) (string, error) {
	data, err := durable.ReadBelow(d.runDir, ref.Path, durable.MaxJournal)
	if err != nil {
		return "", fmt.Errorf("reading a command's output: %w", err)
	}
	return string(data), nil
}

func (d *taskDir) redact(s string) string {
	if d.redactor == nil {
		return s
	}
	return d.redactor(s)
}

// firstResult returns the result of now as it was when the call was entered for the first time, from a note in the call's folder:
// the current one may have been changed by an attempt that was interrupted. A power cut may lose the note.
func firstResult[T any](d *taskDir, c flow.Call, name string, most int64, now func() (T, error)) (v T, err error) {
	dir := filepath.Join(d.runDir, agentcall.Folder(c))
	if c.Attempt > 1 {
		if data, err := durable.ReadBelow(dir, name, most); err == nil && json.Unmarshal(data, &v) == nil {
			return v, nil
		}
	}
	if v, err = now(); err != nil {
		return v, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return v, fmt.Errorf("encoding what %s began with: %w", c.ID, err)
	}
	return v, writeNote(dir, name, c, data)
}

// writeNote writes a note about the state before a call into dir. A power cut may lose it.
func writeNote(dir, name string, c flow.Call, data []byte) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = agentcall.WriteUnsynced(dir, name, data)
	}
	if err != nil {
		return fmt.Errorf("noting what %s began with: %w", c.ID, err)
	}
	return nil
}

// WithFailureCodes wraps activities so that an error of git, or a missing working directory, becomes a failure with a code and the whole
// error text of git.
func WithFailureCodes(list []flow.Activity) []flow.Activity {
	for i, act := range list {
		code := trellis.WorktreeFailed
		switch act.Name {
		case string(commit):
			code = trellis.CommitFailed
		case string(deliver):
			code = trellis.PushFailed
		}
		list[i].Run = func(ctx context.Context, c flow.Call, input json.RawMessage) (any, error) {
			out, err := act.Run(ctx, c, input)
			if err == nil || ctx.Err() != nil || errors.As(err, new(*flow.Failure)) || !git.IsGitFailure(err) && !errors.Is(err, proc.ErrNoFolder) {
				return out, err
			}
			return out, flow.Fail(string(code), "%v%s%s", err, dirHint(err), freshHint(c, err))
		}
	}
	return list
}

// freshHint returns a hint to the command that starts over when the task's branch is gone, "" for other errors.
func freshHint(c flow.Call, err error) string {
	if !errors.As(err, new(*git.LostBranchError)) {
		return ""
	}
	return fmt.Sprintf("; `trellis retry %s --fresh` saves what is in the worktree and begins again", path.Dir(c.Run))
}

// dirHint names the checkout in which a git command failed, which git's own message seldom does.
func dirHint(err error) string {
	var e *git.Error
	if !errors.As(err, &e) || e.Dir == "" || strings.Contains(err.Error(), e.Dir) {
		return ""
	}
	return " (in " + e.Dir + ")"
}
