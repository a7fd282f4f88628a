package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Progress is what a task's journal says of its runs so far. Input is what the next one has to go by: what the last one began with, and
// what it came to since.
type Progress struct {
	Input
	Outcome     trellis.Outcome
	State       TaskState       // the last that was written
	Job         Job             // by the report of the last run
	Report      *Report         // of the last run that has one
	Undelivered bool            // it is of a commit that was verified and could not be delivered
	Agent       string          // who worked on the task last
	Session     string          // and in which session
	Made        *git.WorktreeID // the worktree of this run, nil before it is there

	earlier  int    // rounds of earlier reactions
	Claimed  Job    // what the last claim fixed
	observed string // content hash that implement was to go by
}

// DeliveredBy is the outcome of a run that ended with all done, "" for any other.
func DeliveredBy(h *journal.History) (trellis.Outcome, error) {
	if h == nil || h.Flow != Flow || !h.Ended {
		return "", nil
	}
	p, err := ReadProgress(h)
	if err != nil || p.Outcome != trellis.Delivered && p.Outcome != trellis.NoChangeNeeded {
		return "", err
	}
	return p.Outcome, nil
}

// ReadProgress takes a history apart, of a planning too. An empty one is the zero Progress.
func ReadProgress(h *journal.History) (p Progress, err error) {
	if h == nil || h.Run == "" {
		return p, nil
	}
	if h.Flow == Flow {
		var in Input
		if err := json.Unmarshal(h.Input, &in); err != nil {
			return p, fmt.Errorf("reading the input of run %s: %w", h.Run, err)
		}
		p = Progress{Input: in, Report: in.Undelivered, Undelivered: in.Undelivered != nil, earlier: in.Reactions.Rounds}
		if p.Since.IsZero() || in.Fresh {
			p.Since = h.Began
		}
		if in.React != nil {
			p.Agent, p.Session = in.React.Agent, in.React.Session
		}
	}
	for _, e := range h.Calls {
		if err := p.take(h.Flow, e); err != nil {
			return p, fmt.Errorf("reading %s of run %s: %w", e.ID, h.Run, err)
		}
	}
	if last := p.State; h.Flow == Flow && h.Ended && last.Status == trellis.Failed && last.Failure != nil && last.Failure.Retryable {
		p.Attempts++ // the last one is used up, too
	}
	done, err := workflow.Finished(h)
	if p.Finished == nil {
		p.Finished = done
	}
	maps.Copy(p.Finished, done)
	return p, err
}

// Worked is how much work a run has done: activities with an outcome, without waits for people and what only looks
// whether they are over.
func Worked(h *journal.History) (n int) {
	for _, e := range h.Calls {
		if e.Done && worked(e) {
			n++
		}
	}
	return n
}

func worked(e journal.Entry) bool {
	switch e.Activity {
	case string(claim), string(writeStatus), string(observe), workflow.Deciding:
		return false
	}
	return !strings.HasPrefix(e.Activity, "await:")
}

// What the ids of activities begin with: those after implement, and those before it where the baseline runs beside the work.
const (
	firstRound = "round-1/"
	FirstWork  = "work/"
	besideWork = "base/"
)

// take takes in one call of a history.
func (p *Progress) take(flow string, e journal.Entry) error {
	if flow == Flow {
		if err := p.takeStep(e); err != nil {
			return err
		}
	}
	var revision int64
	if e.Done && e.Fail == nil && json.Unmarshal(e.Out, &revision) == nil { // those that write task.json return its revision
		p.Revision = max(p.Revision, revision)
	}
	return nil
}

// takeStep takes in one call of a run.
func (p *Progress) takeStep(e journal.Entry) error {
	if p.observed != "" && strings.HasPrefix(e.ID, firstRound) { // of a run that was cut off, and so has no report
		p.Implemented = p.observed
	}
	switch {
	case e.Activity == string(writeStatus):
		if err := json.Unmarshal(e.In, &p.State); err != nil { // what it does not say stays
			return err
		}
		p.Used, p.Attempts = p.State.Usage, p.State.Attempt-1
	case e.Activity == string(conclude):
		return read(e.In, p.concluded)
	case !e.Done || e.Fail != nil:
	case strings.HasPrefix(strings.TrimPrefix(e.ID, FirstWork), string(observe)+"#"):
		return read(e.Out, func(c Content) { p.observed = c.Hash })
	case e.Activity == string(baseline):
		return read(e.Out, func(said Checks) {
			if said.settled(e.ID) { // else it is to be asked again
				said = Report{Baseline: said}.brief().Baseline
				p.Baseline = &said
			}
		})
	case e.Activity == string(claim):
		return read(e.Out, func(j Job) { p.Claimed = j })
	case e.Activity == string(prepare):
		p.Begun, p.Fresh = true, false
		return read(e.Out, func(ready Prepared) {
			p.Made, p.Hooks, p.Borrowed, p.Filled = ready.Made, ready.Hooks, ready.Borrowed, ready.Filled
			if ready.Lost {
				p.Implemented, p.Finished = "", nil
			}
			p.Base, p.StackedOn, p.Branch = p.Claimed.BaseCommit, p.Claimed.StackedOn, p.Claimed.Branch
		})
	case e.Activity == string(update):
		return read(e.Out, func(up Updated) {
			if up.Base != "" {
				p.Base, p.StackedOn = up.Base, up.On
			}
		})
	case slices.Contains(Roles(), trellis.Role(e.Activity)):
		return p.asked(e)
	}
	return nil
}

// read takes in what a record says.
func read[T any](record []byte, take func(T)) error {
	var v T
	if err := json.Unmarshal(record, &v); err != nil {
		return err
	}
	take(v)
	return nil
}

// concluded takes in how a run ended.
func (p *Progress) concluded(in concludeIn) {
	p.Job, p.Report, p.Undelivered = in.Job, &in.Report, undelivered(in)
	if p.React != nil {
		p.Reactions.Rounds = p.earlier + in.Report.Rounds
	}
	if in.Failure == nil {
		p.React = nil
	}
	p.Outcome, p.Used, p.Attempts, p.Implemented = in.Report.Outcome, in.Report.Usage, in.Report.Attempts, in.Report.Implemented
}

// asked takes in a call of an agent: what it used, which task.json says only once a phase begins after it, and whose session the work was done in.
func (p *Progress) asked(e journal.Entry) error {
	var asked agentcall.Request
	var reply agentcall.Reply
	if err := errors.Join(json.Unmarshal(e.In, &asked), json.Unmarshal(e.Out, &reply)); err != nil {
		return err
	}
	p.Used = p.Used.Add(reply.Usage)
	if e.Activity != string(trellis.Implement) && e.Activity != string(trellis.Debug) {
		return nil
	}
	if reply.Session != "" {
		p.Agent, p.Session = asked.Agent, reply.Session
	}
	return p.heard(asked, reply)
}
