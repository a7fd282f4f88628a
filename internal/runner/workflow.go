package runner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// FileRunner runs files of steps.
type FileRunner struct{ *Site }

// FileRunner works on s.
func (s *Site) FileRunner() FileRunner { return FileRunner{s} }

// FileOptions say what of a file of steps is to run, and how.
type FileOptions struct {
	File   string       // as a person named it
	Bundle *plan.Bundle // what it says; nil when a run goes on with what it said then
	Agent  string
	Steps  workflow.Options // Dir is where the steps work, absolute
}

// asks reports whether something is asked for that the run that there is does not do.
func (o FileOptions) asks() bool {
	s := o.Steps
	return o.Bundle != nil || o.Agent != "" || s.Only != "" || s.From != "" || s.To != "" || s.FailFast
}

// FileRun is a run of a file of steps, and where it stood when this process let go of it.
type FileRun struct {
	ID      string
	Dir     string // its folder, below .trellis/.runtime/runs
	Input   workflow.FileInput
	Bundle  *plan.Bundle
	Report  workflow.FileReport
	Usage   trellis.Usage // of its agents, by all runs of the id
	Failure *flow.Failure // why it could not go on; not that steps failed, which the report tells
	Waits   []workflow.Request
	Until   time.Time // it sleeps so long
	Seconds float64   // that this process spent on it

	Interrupted bool // this process was told to end; the run goes on later
	Idle        bool // it had ended well before, and nothing was done
	Proven      int  // steps that are proven
	Checks      int  // steps that have a check
}

// ErrNoRun says that there is no run of a file with such an id.
var ErrNoRun = errors.New("no such run")

// ID of a run: when it began, and four letters.
var runID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{6}-\d{6}-[a-z2-7]{4}$`) })

func (s FileRunner) runs() string { return filepath.Join(s.Store.Root, ".trellis", ".runtime", "runs") }

// FileDir is the folder of the run of a file with this id. ErrNoRun: there is none.
func (s FileRunner) FileDir(id string) (string, error) {
	dir := filepath.Join(s.runs(), id)
	if runID().MatchString(id) {
		if _, err := os.Stat(filepath.Join(dir, taskdir.Journal)); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for run %s: %w", id, err)
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNoRun, id)
}

// RunFile runs a file of steps, as far as it goes now. Errors that callers tell apart are those of [Starter.Start].
// begun is told which run it is, and what it did before, when nothing else has happened.
func (s FileRunner) RunFile(ctx context.Context, o FileOptions, begun func(FileRun, []workflow.Event)) (FileRun, error) {
	if err := s.guard().trustedHere(ctx, o.Steps.Dir); err != nil {
		return FileRun{}, err
	}
	if err := s.canRun(ctx, o.Bundle, o); err != nil {
		return FileRun{}, err
	}
	dir, err := s.newRun()
	if err != nil {
		return FileRun{}, err
	}
	return s.file(ctx, dir, begun, func(j *journal.Run) (workflow.FileInput, error) {
		return s.beginFile(j, dir, o, nil)
	})
}

// ResumeFile goes on with the run of a file. One that has ended, and one of which something else is asked now, is
// followed by another run of the same id, which takes over all steps that were finished and are as they were.
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
	if err := s.guard().trustedHere(ctx, old.Options.Dir); err != nil {
		return FileRun{}, err
	}
	if o.Bundle != nil && o.Bundle.Hash == old.Bundle {
		o.Bundle = nil // the file is as it was
	}
	asked, afresh := o.asks(), o.Steps.Only != "" || o.Steps.From != ""
	if o.Bundle != nil {
		b = o.Bundle
	} else {
		o.keep(old.Options)
	}
	if o.Agent == "" {
		o.Agent = old.Agent
	}
	if err := s.canRun(ctx, b, o); err != nil {
		return FileRun{}, err
	}
	return s.file(ctx, dir, begun, func(j *journal.Run) (in workflow.FileInput, err error) {
		h := j.History()
		if err := json.Unmarshal(h.Input, &in); err != nil {
			return in, fmt.Errorf("reading the input of %s: %w", h.Run, err)
		}
		if !asked && (!h.Ended || endedWell(h)) {
			return in, nil
		}
		o.Bundle, o.Steps.Dir = b, in.Options.Dir
		if o.File == "" {
			o.File = in.File
		}
		if afresh {
			h = nil
		}
		return s.beginFile(j, dir, o, h)
	})
}

// keep takes over what was asked of the run before, where nothing else is asked now.
func (o *FileOptions) keep(before workflow.Options) {
	s := &o.Steps
	if s.Only == "" && s.From == "" && s.To == "" {
		s.Only, s.From, s.To = before.Only, before.From, before.To
	}
	s.FailFast = s.FailFast || before.FailFast
}

// endedWell reports whether a run did all that it was to do.
func endedWell(h *journal.History) bool {
	var rep workflow.FileReport
	return h.Ended && h.End == nil && json.Unmarshal(h.Out, &rep) == nil && rep.Failure() == nil
}

// newRun makes the folder of a run.
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

// inputs is where the file that runs, and what was finished before, is kept as it was.
func inputs(dir, hash string) string {
	return filepath.Join(dir, taskdir.Run, "inputs", strings.TrimPrefix(hash, "sha256:"))
}

// beginFile begins a run with the file as it is now. before is the one whose finished steps it takes over, nil for none.
func (s FileRunner) beginFile(j *journal.Run, dir string, o FileOptions, before *journal.History) (workflow.FileInput, error) {
	in := workflow.FileInput{Code: workflow.FileCode, ID: filepath.Base(dir), Number: j.History().Number + 1, File: o.File, Bundle: o.Bundle.Hash, Agent: o.Agent,
		Options: o.Steps, Nonce: nonce()}
	if err := o.Bundle.Save(inputs(dir, in.Bundle), s.Disk); err != nil {
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
	raw, err := json.Marshal(in)
	if err != nil {
		return in, fmt.Errorf("encoding the run's input: %w", err)
	}
	return in, j.Begin(journal.Spec{Run: fmt.Sprintf("%s/%d", in.ID, in.Number), Flow: workflow.FileFlow, Code: in.Code, Input: raw})
}

// finishedBy are the steps that a run finished, and those before it.
func finishedBy(dir string, h *journal.History) (map[string]string, error) {
	var in workflow.FileInput
	if err := json.Unmarshal(h.Input, &in); err != nil {
		return nil, fmt.Errorf("reading the input of %s: %w", h.Run, err)
	}
	all, err := openFinished(dir, in.Finished)
	if err != nil {
		return nil, err
	}
	done, err := workflow.Finished(h)
	for path, hash := range done {
		all[path] = hash
	}
	return all, err
}

// keepFinished keeps a list of finished steps and returns its hash, by which an input names it.
func (s FileRunner) keepFinished(dir string, done map[string]string) (string, error) {
	if len(done) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(done)
	if err != nil {
		return "", fmt.Errorf("encoding the finished steps: %w", err)
	}
	hash := agentcall.Sum(raw)
	if err := s.Disk.MkdirAll(inputs(dir, hash), 0o700); err != nil {
		return "", err
	}
	return hash, s.Disk.WriteFile(filepath.Join(inputs(dir, hash), "finished.json"), raw, 0o600)
}

// openFinished is such a list.
func openFinished(dir, hash string) (map[string]string, error) {
	done := map[string]string{}
	if hash == "" {
		return done, nil
	}
	raw, err := durable.ReadBelow(inputs(dir, hash), "finished.json", durable.MaxJournal)
	if err != nil {
		return nil, fmt.Errorf("reading the finished steps: %w", err)
	}
	if agentcall.Sum(raw) != hash {
		return nil, fmt.Errorf("%s was changed", filepath.Join(inputs(dir, hash), "finished.json"))
	}
	if err := json.Unmarshal(raw, &done); err != nil {
		return nil, fmt.Errorf("reading the finished steps: %w", err)
	}
	return done, nil
}

// frozenFile is the input of the run that a folder holds, and the file as it was.
func frozenFile(dir string, h *journal.History) (in workflow.FileInput, b *plan.Bundle, err error) {
	if err := json.Unmarshal(h.Input, &in); err != nil {
		return in, nil, fmt.Errorf("reading the input of %s: %w", h.Run, err)
	}
	b, err = plan.OpenBundle(inputs(dir, in.Bundle), in.Bundle)
	return in, b, err
}

// file takes the run of a file from where its journal stands to its end, or as far as it goes now.
func (s FileRunner) file(ctx context.Context, dir string, begun func(FileRun, []workflow.Event), begin func(*journal.Run) (workflow.FileInput, error)) (res FileRun, err error) {
	res = FileRun{ID: filepath.Base(dir), Dir: dir}
	a := s.fileActs(dir)
	j, err := s.open(dir, a.activities(), func(j *journal.Run) []journal.Message { return s.Approvals().answers(dir, j) })
	if err != nil {
		return res, err
	}
	defer j.Close()
	if res.Input, err = begin(j); err != nil {
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
	defer listen(dir, j.Poke)()
	past, err := workflow.Past(j.History())
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

// fileEnd turns the end of Execute into where the run stands.
func (s FileRunner) fileEnd(ctx context.Context, res FileRun, h *journal.History, err error) (FileRun, error) {
	var parked *journal.Parked
	switch {
	case errors.As(err, &res.Failure):
		err = nil
	case errors.As(err, &parked):
		res.Until = parked.Until
		res.Waits, err = workflow.Open(h)
	case errors.Is(err, flow.ErrSuspended) && ctx.Err() != nil:
		res.Interrupted, err = true, nil
	}
	if err != nil {
		return res, err
	}
	if res.Usage, err = fileUsage(res.Dir, h); err != nil {
		return res, err
	}
	audit, err := proof.Verify(res.Dir, fileWorld(res.Dir, h, res.Bundle))
	if err != nil {
		return res, err
	}
	if res.Report.Head == "" && len(audit.Records) > 0 {
		res.Report.Head = audit.Records[len(audit.Records)-1].Hash
	}
	res.Proven, res.Checks = len(audit.Proven), len(audit.Proven)+len(audit.Unproven)
	return res, nil
}

// fileWorld is what there is of a run for its proofs to be compared with.
func fileWorld(dir string, h *journal.History, b *plan.Bundle) proof.ExpectedState {
	w := proof.ExpectedState{Task: filepath.Base(dir), Plan: b.Hash, Steps: workflow.Provable(b)}
	for n := range h.Number {
		w.Runs = append(w.Runs, fmt.Sprintf("%s/%d", w.Task, n+1))
	}
	var rep workflow.FileReport
	if h.Ended && json.Unmarshal(h.Out, &rep) == nil {
		w.Head = rep.Head
	}
	return w
}
