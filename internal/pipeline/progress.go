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

// Progress is what a task's journal says about its runs so far. Input is the input for the next run: that of the last one, with
// what the last one has done since.
type Progress struct {
	Input
	Outcome        trellis.Outcome
	State          TaskState       // the last one that was written to task.json
	Job            Job             // from the report of the last run
	Report         *Report         // of the last run that wrote one
	HasUndelivered bool            // Report is on a commit that was verified and could not be delivered
	Agent          string          // the agent that last worked on the task
	Session        string          // and its session
	Made           *git.WorktreeID // the worktree of this run, nil before it was made

	earlierRounds   int    // rounds of earlier reactions
	Claimed         Job    // what the last claim fixed
	observedContent string // content hash that implement began with
}

// DeliveredBy returns the outcome of a run that ended with everything done, "" for any other.
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

// ReadProgress reads the history of a run, or of a planning. An empty one gives the zero Progress.
func ReadProgress(h *journal.History) (p Progress, err error) {
	if h == nil || h.Run == "" {
		return p, nil
	}
	if h.Flow == Flow {
		var in Input
		if err := json.Unmarshal(h.Input, &in); err != nil {
			return p, fmt.Errorf("reading the input of run %s: %w", h.Run, err)
		}
		p = Progress{Input: in, Report: in.Undelivered, HasUndelivered: in.Undelivered != nil, earlierRounds: in.Reactions.Rounds}
		if p.Since.IsZero() || in.Fresh {
			p.Since = h.Began
		}
		if in.React != nil {
			p.Agent, p.Session = in.React.Agent, in.React.Session
		}
	}
	for _, e := range h.Calls {
		if err := p.recordCall(h.Flow, e); err != nil {
			return p, fmt.Errorf("reading %s of run %s: %w", e.ID, h.Run, err)
		}
	}
	if last := p.State; h.Flow == Flow && h.Ended && last.Status == trellis.Failed && last.Failure != nil && last.Failure.Retryable {
		p.Attempts++ // the last attempt is used up, too
	}
	done, err := workflow.Finished(h)
	if p.Finished == nil {
		p.Finished = done
	}
	maps.Copy(p.Finished, done)
	return p, err
}

// CompletedActivities returns how much work a run has done: the number of completed activities, without waits for people and checks whether
// such a wait is over.
func CompletedActivities(h *journal.History) (n int) {
	for _, e := range h.Calls {
		if e.Done && isWork(e) {
			n++
		}
	}
	return n
}

func isWork(e journal.Entry) bool {
	switch e.Activity {
	case string(claim), string(writeStatus), string(observe), workflow.Deciding:
		return false
	}
	return !strings.HasPrefix(e.Activity, "await:")
}

// Prefixes of activity ids: of the first round, and, where the baseline runs beside the first agents, of these and of the
// baseline.
const (
	firstRound = "round-1/"
	FirstWork  = "work/"
	besideWork = "base/"
)

// recordCall records one call of a history.
func (p *Progress) recordCall(flow string, e journal.Entry) error {
	if flow == Flow {
		if err := p.recordRunCall(e); err != nil {
			return err
		}
	}
	var revision int64
	if e.Done && e.Fail == nil && json.Unmarshal(e.Out, &revision) == nil { // activities that write task.json return its revision
		p.Revision = max(p.Revision, revision)
	}
	return nil
}

// recordRunCall records one call of a run.
func (p *Progress) recordRunCall(e journal.Entry) error {
	if p.observedContent != "" && strings.HasPrefix(e.ID, firstRound) { // a run that was interrupted has no report that says so
		p.Implemented = p.observedContent
	}
	switch {
	case e.Activity == string(writeStatus):
		if err := json.Unmarshal(e.In, &p.State); err != nil { // fields that the input lacks stay
			return err
		}
		p.Used, p.Attempts = p.State.Usage, p.State.Attempt-1
	case e.Activity == string(conclude):
		return decodeRecord(e.In, p.recordEnd)
	case !e.Done || e.Fail != nil:
	case strings.HasPrefix(strings.TrimPrefix(e.ID, FirstWork), string(observe)+"#"):
		return decodeRecord(e.Out, func(c Content) { p.observedContent = c.Hash })
	case e.Activity == string(baseline):
		return decodeRecord(e.Out, func(checks Checks) {
			if checks.reusable(e.ID) { // else it is run again
				checks = Report{Baseline: checks}.trimmed().Baseline
				p.Baseline = &checks
			}
		})
	case e.Activity == string(claim):
		return decodeRecord(e.Out, func(j Job) { p.Claimed = j })
	case e.Activity == string(prepare):
		p.Begun, p.Fresh = true, false
		return decodeRecord(e.Out, func(ready Prepared) {
			p.Made, p.Hooks, p.Borrowed, p.Filled = ready.Made, ready.Hooks, ready.Borrowed, ready.Filled
			if ready.Lost {
				p.Implemented, p.Finished = "", nil
			}
			p.Base, p.StackedOn, p.Branch = p.Claimed.BaseCommit, p.Claimed.StackedOn, p.Claimed.Branch
		})
	case e.Activity == string(update):
		return decodeRecord(e.Out, func(up Updated) {
			if up.Base != "" {
				p.Base, p.StackedOn = up.Base, up.On
			}
		})
	case slices.Contains(Roles(), trellis.Role(e.Activity)):
		return p.recordAgentCall(e)
	}
	return nil
}

// decodeRecord decodes a record, and calls take with it.
func decodeRecord[T any](record []byte, take func(T)) error {
	var v T
	if err := json.Unmarshal(record, &v); err != nil {
		return err
	}
	take(v)
	return nil
}

// recordEnd records how a run ended.
func (p *Progress) recordEnd(in concludeIn) {
	p.Job, p.Report, p.HasUndelivered = in.Job, &in.Report, isUndelivered(in)
	if p.React != nil {
		p.Reactions.Rounds = p.earlierRounds + in.Report.Rounds
	}
	if in.Failure == nil {
		p.React = nil
	}
	p.Outcome, p.Used, p.Attempts, p.Implemented = in.Report.Outcome, in.Report.Usage, in.Report.Attempts, in.Report.Implemented
}

// recordAgentCall records a call of an agent: its usage, which task.json has only after the next phase has begun, and the session
// of the work.
func (p *Progress) recordAgentCall(e journal.Entry) error {
	var request agentcall.Request
	var reply agentcall.Reply
	if err := errors.Join(json.Unmarshal(e.In, &request), json.Unmarshal(e.Out, &reply)); err != nil {
		return err
	}
	p.Used = p.Used.Add(reply.Usage)
	if e.Activity != string(trellis.Implement) && e.Activity != string(trellis.Debug) {
		return nil
	}
	if reply.Session != "" {
		p.Agent, p.Session = request.Agent, reply.Session
	}
	return p.recordFeedback(request, reply)
}
