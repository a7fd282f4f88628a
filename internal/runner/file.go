package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// FileRunner runs files of steps.
type FileRunner struct{ *Site }

// FileOptions say what of a file of steps is to run, and how.
type FileOptions struct {
	File   string       // as a person named it
	Bundle *plan.Bundle // content of the file; nil if a run is resumed with its own copy
	Agent  string
	Steps  workflow.Options // Dir is where the steps work, absolute
}

// isNewRequest reports whether o asks for something that the existing run does not do.
func (o FileOptions) isNewRequest() bool {
	s := o.Steps
	return o.Bundle != nil || o.Agent != "" || s.Only != "" || s.From != "" || s.To != "" || s.FailFast
}

// FileRun is a run of a file of steps, and where it stood when this process stopped working on it.
type FileRun struct {
	ID      string
	Dir     string // its folder, below .trellis/.runtime/runs
	Input   workflow.FileInput
	Bundle  *plan.Bundle
	Report  workflow.FileReport
	Usage   trellis.Usage // of the agents in all runs with this ID
	Failure *flow.Failure // why the run could not continue; failed steps are in Report instead
	Waits   []workflow.Request
	Until   time.Time // the run sleeps until then
	Seconds float64   // time that this process spent on the run

	Interrupted bool // this process was told to end; the run can be resumed later
	Idle        bool // the run had already ended well, and nothing was done
	Proven      int  // steps that are proven
	Checks      int  // steps that have a check
}

// ErrNoRun is returned if no run of a file has the given ID.
var ErrNoRun = errors.New("no such run")

// runID matches the ID of a run: when it began, and four letters or digits.
var runID = trellis.Pattern(`^\d{6}-\d{6}-[a-z2-7]{4}$`)

func (s FileRunner) runs() string { return filepath.Join(s.Store.Root, ".trellis", ".runtime", "runs") }

// FileDir returns the folder of the run of a file with this ID, or ErrNoRun if there is none.
func (s FileRunner) FileDir(id string) (string, error) {
	dir := filepath.Join(s.runs(), id)
	if runID().MatchString(id) {
		if _, err := os.Stat(filepath.Join(dir, taskdir.Journal)); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for run %s: %w", id, err)
		}
	}
	return "", fmt.Errorf("%w: %s (%s)", ErrNoRun, id, s.newest())
}

// Dirs returns the folders of all runs of files, in the order in which the runs began.
func (s FileRunner) Dirs() (dirs []string) {
	list, _ := os.ReadDir(s.runs()) // sorted; the ids begin with the time
	for _, e := range list {
		if dir := filepath.Join(s.runs(), e.Name()); durable.Exists(filepath.Join(dir, taskdir.Journal)) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// newest returns the text that says which run of a file was begun last.
func (s FileRunner) newest() string {
	dirs := s.Dirs()
	if len(dirs) == 0 {
		return "there is none"
	}
	return "the newest is " + filepath.Base(dirs[len(dirs)-1])
}

// IsRunID reports whether id has the form of the ID of a run of a file, which no task has.
func IsRunID(id string) bool { return runID().MatchString(id) }

// RunFile runs a file of steps, as far as it gets now. Errors that callers tell apart are those of [Starter.Start]. Before
// anything else happens, it calls begun with the run and what the run did before.
func (s FileRunner) RunFile(ctx context.Context, o FileOptions, begun func(FileRun, []workflow.Event)) (FileRun, error) {
	if err := s.guard().checkCheckout(ctx, o.Steps.Dir); err != nil {
		return FileRun{}, err
	}
	if err := s.checkRunnable(ctx, o.Bundle, o); err != nil {
		return FileRun{}, err
	}
	dir, err := s.newRun()
	if err != nil {
		return FileRun{}, err
	}
	return s.execute(ctx, dir, begun, func(j *journal.Run) (workflow.FileInput, error) {
		return s.beginFile(j, dir, o, nil)
	})
}

// ResumeFile resumes the run of a file. A run that ended badly, or that is asked for something else now, is followed by another
// one with the same ID. That run takes over all finished steps that are unchanged, unless Only or From says where to begin.
func (s FileRunner) ResumeFile(ctx context.Context, id string, o FileOptions, begun func(FileRun, []workflow.Event)) (FileRun, error) {
	dir, err := s.FileDir(id)
	if err != nil {
		return FileRun{}, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return FileRun{}, err
	}
	old, b, err := frozenFile(dir, h)
	if err != nil {
		return FileRun{}, err
	}
	if err := s.guard().checkCheckout(ctx, old.Options.Dir); err != nil {
		return FileRun{}, err
	}
	if o.Bundle != nil && o.Bundle.Hash == old.Bundle {
		o.Bundle = nil // the file is unchanged
	}
	asked, afresh := o.isNewRequest(), o.Steps.Only != "" || o.Steps.From != ""
	if o.Bundle != nil {
		b = o.Bundle
	} else {
		o.inherit(old.Options)
	}
	o.Agent = cmp.Or(o.Agent, old.Agent)
	if err := s.checkRunnable(ctx, b, o); err != nil {
		return FileRun{}, err
	}
	return s.execute(ctx, dir, begun, func(j *journal.Run) (in workflow.FileInput, err error) {
		h := j.History()
		if err := json.Unmarshal(h.Input, &in); err != nil {
			return in, fmt.Errorf("reading the input of %s: %w", h.Run, err)
		}
		var rep workflow.FileReport
		well := h.Ended && h.End == nil && json.Unmarshal(h.Out, &rep) == nil && rep.Failure() == nil
		if !asked && (!h.Ended || well) {
			return in, nil
		}
		o.Bundle, o.Steps.Dir = b, in.Options.Dir
		o.File = cmp.Or(o.File, in.File)
		if afresh {
			h = nil
		}
		return s.beginFile(j, dir, o, h)
	})
}

// inherit takes the options that o does not set from the previous run.
func (o *FileOptions) inherit(before workflow.Options) {
	s := &o.Steps
	if s.Only == "" && s.From == "" && s.To == "" {
		s.Only, s.From, s.To = before.Only, before.From, before.To
	}
	s.FailFast = s.FailFast || before.FailFast
}

func (s FileRunner) newRun() (string, error) {
	if err := s.Disk.MkdirAll(s.runs(), 0o700); err != nil {
		return "", fmt.Errorf("making the folder of a run: %w", err)
	}
	for {
		dir := filepath.Join(s.runs(), s.Clock().UTC().Format("060102-150405-")+strings.ToLower(rand.Text()[:4]))
		err := s.Disk.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("making the folder of a run: %w", err)
		}
		return dir, nil
	}
}

// beginFile begins a run with the file as it is now. The run takes over the finished steps of before, unless that is nil.
func (s FileRunner) beginFile(j *journal.Run, dir string, o FileOptions, before *journal.History) (workflow.FileInput, error) {
	in := workflow.FileInput{Code: workflow.FileCode, ID: filepath.Base(dir), Number: j.History().Number + 1, File: o.File, Bundle: o.Bundle.Hash, Agent: o.Agent,
		Options: o.Steps, Nonce: nonce()}
	if err := o.Bundle.Save(inputDir(dir, in.Bundle), s.Disk); err != nil {
		return in, err
	}
	if before != nil {
		done, err := finishedBy(dir, before)
		if err != nil {
			return in, err
		}
		if in.Finished, err = s.keepFinished(dir, done); err != nil {
			return in, err
		}
	}
	return in, beginFlow(j, workflow.FileFlow, in.ID, in.Code, in)
}

// execute continues the run of a file from where its journal ends to the end of the run, or as far as it gets now.
func (s FileRunner) execute(ctx context.Context, dir string, begun func(FileRun, []workflow.Event), begin func(*journal.Run) (workflow.FileInput, error)) (res FileRun, err error) {
	res = FileRun{ID: filepath.Base(dir), Dir: dir}
	a := s.fileActs(dir)
	j, err := s.open(ctx, dir, a.activities(), func(j *journal.Run) []journal.Message { return s.Approvals().messagesForWaits(dir, j) })
	if err != nil {
		return res, err
	}
	defer j.Close()
	if res.Input, err = begin(j); err != nil {
		return res, err
	}
	if err := checkVersion(dir, j.History()); err != nil {
		return res, err
	}
	if _, res.Bundle, err = frozenFile(dir, j.History()); err != nil {
		return res, err
	}
	finished, err := openFinished(dir, res.Input.Finished)
	if err != nil {
		return res, err
	}
	if err := a.bind(res.Input, res.Bundle, j.History()); err != nil {
		return res, err
	}
	s.traced(a.caller, j)
	defer watchEvents(dir, j.Poke)()
	past, err := workflow.PastEvents(j.History())
	if err != nil {
		return res, err
	}
	res.Idle = j.History().Ended
	begun(res, past)
	began := s.Clock()
	res.Report, err = journal.Execute(ctx, j, func(f flow.Flow, in workflow.FileInput) (workflow.FileReport, error) {
		return workflow.RunFile(f, in, res.Bundle, finished)
	})
	res.Seconds = s.Clock().Sub(began).Seconds()
	return s.fileEnd(ctx, res, j.History(), err)
}

// fileEnd adds the outcome of journal.Execute, usage and proofs to res.
func (s FileRunner) fileEnd(ctx context.Context, res FileRun, h *journal.History, err error) (FileRun, error) {
	var parked *journal.Parked
	switch {
	case errors.As(err, &res.Failure):
		err = nil
	case errors.As(err, &parked):
		res.Until = parked.Until
		res.Waits, err = workflow.OpenRequests(h)
	case errors.Is(err, flow.ErrSuspended) && ctx.Err() != nil:
		res.Interrupted, err = true, nil
	}
	if err != nil {
		return res, instructionsProblem(err, "trellis run --resume "+trellis.ShellWord(res.ID))
	}
	if res.Usage, err = fileUsage(res.Dir, h); err != nil {
		return res, err
	}
	audit, err := proof.Verify(res.Dir, expectedFileState(res.Dir, h, res.Bundle))
	if err != nil {
		return res, err
	}
	if res.Report.Head == "" && len(audit.Records) > 0 {
		res.Report.Head = audit.Records[len(audit.Records)-1].Hash
	}
	res.Proven, res.Checks = len(audit.Proven), len(audit.Proven)+len(audit.Unproven)
	return res, nil
}

func (s FileRunner) fileActs(dir string) *fileActs {
	marker := runlock.Marker(dir)
	a := &fileActs{s: s.Site, dir: dir, caller: agentCallers(s.Site).caller(dir, marker)}
	a.steps = &workflow.Effects{RunDir: a.caller.RunDir, Bundle: func(string) (*plan.Bundle, error) { return a.b, nil }, Env: s.Environ, Box: s.Box, Marker: marker, Repo: s.Repo, Except: ignoredPaths,
		Decide: a.decide, Disk: s.Disk, Redact: s.Redact, Protected: s.Config.Protected, Now: s.Clock,
		Event: func(e workflow.Event) { s.Tell(Event{Task: filepath.Base(dir), Step: &e}) }}
	a.run = &workflow.FileEffects{Job: a.job}
	a.caller.Slots, a.caller.Check, a.caller.Watch = a.steps.Slots, a.steps.Check, a.watch
	a.caller.Event = func(_ flow.Call, r agentcall.Request, e agents.Event) {
		if told, ok := workflow.EventOf(r, e); ok {
			a.steps.Send(told)
		}
	}
	return a
}

// checkRunnable returns an error, before anything is begun, unless the steps asked for exist and their commands and agents can work.
func (s FileRunner) checkRunnable(ctx context.Context, b *plan.Bundle, o FileOptions) error {
	if err := s.Box.Ready(ctx); err != nil {
		return err
	}
	if err := CheckTemp(); err != nil {
		return err
	}
	if _, err := s.Agent(o.Agent); o.Agent != "" && errors.Is(err, agents.ErrUnknown) {
		return err
	}
	steps := "trellis help run"
	if o.File != "" {
		steps = "trellis run " + trellis.ShellWord(o.File) + " --dry-run"
	}
	wanted, err := workflow.PossibleCalls(b, o.Steps)
	if fail, ok := errors.AsType[*flow.Failure](err); ok {
		return &RefusedError{fail.Detail, steps}
	}
	seen := map[string]bool{}
	for _, q := range wanted {
		if err := s.Roles().checkInstructions([]trellis.Role{q.Role}); err != nil {
			return err
		}
		c, err := s.Roles().Choose(q.Role, "", o.Agent)
		if err != nil {
			return err
		}
		if c = q.Who(c); seen[c.Agent] {
			continue
		}
		seen[c.Agent] = true
		if err := s.Available(ctx, c.Agent); err != nil {
			return err
		}
	}
	return err
}
