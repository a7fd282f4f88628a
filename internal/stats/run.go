package stats

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// run is the content of a journal, which is that of a pipeline run or a planning.
type run struct {
	file  fs.FileInfo // state of the journal file when it was read
	dir   string      // directory of the journal
	calls []call
	open  bool // a call of an agent is running, or was interrupted
	err   error

	rounds    int
	ended     bool
	at        time.Time // when it ended
	end       end
	code      trellis.Code
	firstPass bool

	flow           string
	began          time.Time
	phases         []Phase // finished ones
	phase          phase   // the current one
	place          Place   // where the work was delivered
	reportedStatus trellis.Status
	failCode       string // code that the flow itself failed with

	checkSeconds, fullCheckSeconds float64 // seconds of all checks, and of one full run of them, from [pipeline.CheckSeconds]
}

// isUnchanged reports whether nothing was written since the journal was read, neither to it nor, by a running call, to other files.
func (r *run) isUnchanged(now fs.FileInfo) bool {
	return !r.open && os.SameFile(r.file, now) && r.file.Size() == now.Size() && r.file.ModTime().Equal(now.ModTime())
}

func readRun(path string, st fs.FileInfo) *run {
	r := &run{file: st, dir: filepath.Dir(path)}
	h, err := journal.ReadFile(path)
	if err != nil && !errors.Is(err, journal.ErrNone) {
		r.err = err
	}
	if h != nil {
		r.readHistory(h)
	}
	return r
}

func (r *run) readHistory(h *journal.History) {
	var last pipeline.TaskState
	var made []agentcall.CompletedCall
	debugged := false
	for _, c := range h.Calls {
		role := trellis.Role(c.Activity)
		r.open = r.open || !c.Done && slices.Contains(trellis.Roles, role)
		debugged = debugged || role == trellis.Debug || role == trellis.Heal
		if s, ok := pipeline.StateWritten(c.Activity, c.In); ok {
			last = s
			r.enterPhase(s, c)
		} else if c.Activity == deliverActivity {
			r.recordPlace(c)
		} else if used, ok := r.callOf(role, c, h.Run); ok {
			if used.Agent != "" {
				made = append(made, *used.made)
			}
			r.calls = append(r.calls, used)
		}
	}
	missed := agentcall.Uncached(made)
	for i := range r.calls {
		if c := &r.calls[i]; c.Agent != "" {
			c.Missed, missed, c.made = missed[0], missed[1:], nil
		}
	}
	r.ended, r.at = h.Ended, h.EndedAt
	r.flow, r.began = h.Flow, h.Started()
	r.recordEnd(h)
	if h.Flow == pipeline.Flow {
		r.recordOutcome(h, last, debugged)
	}
}

// recordOutcome derives outcome and counts of a pipeline run from the last state that it wrote.
func (r *run) recordOutcome(h *journal.History, last pipeline.TaskState, debugged bool) {
	r.rounds = last.Round
	r.checkSeconds, r.fullCheckSeconds = pipeline.CheckSeconds(h)
	if !h.Ended {
		return
	}
	switch last.Outcome {
	case "": // it is paused
		return
	case trellis.NoChangeNeeded:
		r.end = unneeded
	case trellis.OutcomeFailed:
		r.end = failed
	case trellis.OutcomeCancel:
		r.end = cancelled
	default:
		var in pipeline.Input
		r.end = delivered
		r.firstPass = json.Unmarshal(h.Input, &in) == nil && in.Retries == 0 && in.React == nil && !debugged
	}
	if last.Failure != nil {
		r.code = trellis.Code(last.Failure.Code)
	}
}

// callOf returns what an activity took, false if it doesn't count.
func (r *run) callOf(role trellis.Role, c journal.Entry, run string) (call, bool) {
	asks := slices.Contains(trellis.Roles, role)
	switch {
	case asks && (!c.Done || c.Fail != nil):
		return r.unansweredCall(role, c, run)
	case asks:
		return answeredCall(role, c)
	case !c.Done:
		return call{}, false
	}
	ran := commandsOf(c)
	return ran, ran.CheckSeconds > 0 || len(ran.failedCommands) > 0
}

// unansweredCall returns what a call of an agent took that has not (yet) returned a reply, as far as the agent reported it.
func (r *run) unansweredCall(role trellis.Role, c journal.Entry, run string) (call, bool) {
	var asked agentcall.CompletedCall
	if json.Unmarshal(c.In, &asked.Request) != nil {
		return call{}, false
	}
	used := agentcall.LostUsage(r.dir, flow.Call{Run: run, ID: c.ID, Attempt: c.Entries})
	at := c.Finished
	if !c.Done {
		at = c.Started
	}
	return call{Call: Call{Phase: string(role), Agent: asked.Request.Agent, Model: asked.Model(), Usage: used, Failed: isAgentFailure(c.Fail)}, at: at, made: &asked, ended: c.Done},
		asked.Request.Agent != "" && (c.Done || used != trellis.Usage{})
}

// answeredCall returns what a call of an agent took.
func answeredCall(role trellis.Role, c journal.Entry) (call, bool) {
	asked := agentcall.CompletedCall{Began: c.Started, Ended: c.Finished}
	if json.Unmarshal(c.In, &asked.Request) != nil || json.Unmarshal(c.Out, &asked.Reply) != nil {
		return call{}, false // records in an unknown format are ignored
	}
	if asked.Reply.Known { // the answer was known, so no agent was called
		return call{}, false
	}
	reply := asked.Reply
	return call{Call: Call{Phase: string(role), Agent: asked.Request.Agent, Model: asked.Model(), Usage: reply.Usage,
		Failed: isAgentFailure(reply.Failure) || len(reply.Problems) > 0, Refused: refuses(role, reply)}, at: c.Finished, made: &asked, ended: true}, asked.Request.Agent != ""
}

// isAgentFailure reports whether the agent is to blame for a failure: not if the call was cancelled since nobody needed it any more.
func isAgentFailure(f *flow.Failure) bool {
	return f != nil && f.Code != string(trellis.CalledOff) && f.Code != agentcall.Cancelled
}

// refuses reports whether the agent's answer is a no.
func refuses(role trellis.Role, r agentcall.Reply) bool {
	if role != trellis.Accept {
		o := status.OpinionOf(role, r)
		return o.Refused() || o.Decision == "reject"
	}
	var said struct{ Criteria []pipeline.CriterionResult }
	return json.Unmarshal(r.Answer, &said) == nil &&
		slices.ContainsFunc(said.Criteria, func(j pipeline.CriterionResult) bool { return j.Verdict != "met" })
}

// commandsOf returns what the project's commands in an activity took.
func commandsOf(c journal.Entry) call {
	ran := call{Call: Call{Phase: phaseOf(c.Activity)}, at: c.Finished, ended: true}
	if !bytes.Contains(c.Out, []byte(`"seconds":`)) {
		return ran
	}
	checks, _ := pipeline.ChecksIn(c)
	var step workflow.CommandResult
	if json.Unmarshal(c.Out, &step) == nil && step.Command != "" {
		checks.Results = append(checks.Results, pipeline.CommandResult{Command: step.Command, Code: step.Code, Seconds: step.Seconds})
	}
	for _, j := range checks.Judged { // 0 seconds: judged without a command
		if j.Seconds > 0 && !j.Earlier {
			checks.Results = append(checks.Results, pipeline.CommandResult{Command: j.Verify, Code: oneIf(!j.Proven), Seconds: j.Seconds})
		}
	}
	for _, r := range checks.Results {
		if !r.Earlier {
			ran.CheckSeconds += r.Seconds
			ran.Fails += oneIf(r.Code != 0)
			ran.Passes += oneIf(r.Code == 0)
		}
		if r.Code != 0 && c.Activity != "baseline" {
			ran.failedCommands = append(ran.failedCommands, r.Command)
		}
	}
	return ran
}

// phaseOf returns the phase of an activity that runs commands.
func phaseOf(activity string) string {
	switch activity {
	case "baseline", "verify", "final-verify":
		return activity
	case "criteria": // criteria are checked here when verify runs in the worktree
		return "verify"
	}
	return stepsPhase
}
