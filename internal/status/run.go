package status

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// States of the run of a file.
const (
	RunRunning = "running"
	RunPaused  = "paused" // no process works on it, or a budget is used up
	RunWaiting = "waiting"
	RunDone    = "done"
	RunFailed  = "failed"
)

// Run is the state of the run of a file of steps. Its JSON is what `trellis status RUN --json` prints.
type Run struct {
	ID        string   `json:"id"`
	Dir       string   `json:"dir"`
	File      string   `json:"file"`
	Status    string   `json:"status"`
	At        string   `json:"at"`   // path of the step at work, or of the one that was when the run was cut off
	Done      int      `json:"done"` // steps that ended well, rounds of loops too
	Waits     []string `json:"waits"`
	Failure   Failure  `json:"failure"`
	HeldBy    *Holder  `json:"held_by"`
	Began     string   `json:"began"` // RFC 3339, UTC
	UpdatedAt string   `json:"updated_at"`
}

// ReadRun reads the state of the run in a folder.
func ReadRun(dir string, now time.Time) (r Run, err error) {
	by := holder(dir) // before the journal is read: its writer may end after that
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return r, fmt.Errorf("reading run %s: %w", filepath.Base(dir), err)
	}
	var in workflow.FileInput
	if err := json.Unmarshal(h.Input, &in); err != nil {
		return r, fmt.Errorf("reading the input of run %s: %w", filepath.Base(dir), err)
	}
	r = Run{ID: filepath.Base(dir), Dir: dir, File: in.File, Waits: []string{}, HeldBy: by, Began: timestamp(h.Began), UpdatedAt: timestamp(modTime(filepath.Join(dir, taskdir.Journal)))}
	past, err := workflow.PastEvents(h)
	if err != nil {
		return r, err
	}
	for _, e := range past {
		if e.Type == workflow.StepFinished && e.State == workflow.Done {
			r.Done++
		}
	}
	if h.Ended {
		return r, r.fillEnd(h)
	}
	return r, r.fillProgress(h, past, now)
}

func (r *Run) fillEnd(h *journal.History) error {
	var rep workflow.FileReport
	fail := h.End
	if fail == nil {
		if err := json.Unmarshal(h.Out, &rep); err != nil {
			return fmt.Errorf("reading the report of run %s: %w", r.ID, err)
		}
		fail = rep.Failure()
	}
	if r.Status = RunDone; fail != nil {
		r.Status, r.Failure = RunFailed, Failure{trellis.Code(fail.Code), fail.Detail}
		if slices.Contains([]trellis.Code{trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime}, r.Failure.Code) {
			r.Status = RunPaused
		}
	}
	return nil
}

func (r *Run) fillProgress(h *journal.History, past []workflow.Event, now time.Time) error {
	open, err := workflow.OpenRequests(h)
	if err != nil {
		return err
	}
	said, _, err := proof.Read(r.Dir)
	if err != nil {
		return err
	}
	left := undecidedRequests(open, said, now)
	for _, q := range left {
		r.Waits = append(r.Waits, q.Path)
	}
	r.At = currentStep(past)
	switch {
	case len(left) > 0:
		r.Status = RunWaiting
	case r.HeldBy != nil:
		r.Status = RunRunning
	default:
		r.Status = RunPaused
	}
	return nil
}

// HasEnded reports whether the run has ended, well or not.
func (r Run) HasEnded() bool { return r.Status == RunDone || r.Status == RunFailed }

// Next returns the command that comes next for the run, "" if nothing is left to do.
func (r Run) Next() string {
	switch r.Status {
	case RunRunning:
		return "trellis logs -f " + trellis.ShellWord(r.ID)
	case RunWaiting:
		if len(r.Waits) > 1 {
			return "trellis approve " + trellis.ShellWord(r.ID) + " --step " + trellis.ShellWord(r.Waits[0])
		}
		return "trellis approve " + trellis.ShellWord(r.ID)
	case RunDone:
		return ""
	}
	return "trellis run --resume " + trellis.ShellWord(r.ID)
}
