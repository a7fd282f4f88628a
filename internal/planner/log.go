package planner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// WriteLog writes .plan-log, one line per event, from the journal of the planning. The lines of earlier plannings of the directory
// stay.
func WriteLog(disk *durable.Disk, dir string) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, taskdir.PlanLog)
	old, err := taskdir.ReadFile(dir, taskdir.PlanLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading .plan-log: %w", err)
	}
	head := fmt.Sprintf("== planning %s ==\n", h.Run)
	before, _, _ := strings.Cut(string(old), head)
	return disk.WriteFile(path, []byte(before+head+logLines(h)), 0o644)
}

// logEntry is one line of the log.
type logEntry struct {
	at   time.Time
	what string
}

// logLines returns the log in chronological order: two calls may run at once.
func logLines(h *journal.History) string {
	var list []logEntry
	in := intentOf(h)
	for i, e := range h.Calls {
		summary := ""
		if e.Activity == string(trellis.Plan) {
			summary = in.summary()
		}
		list = append(list, logEntry{e.Started, event(e) + "_started" + summary + repeatReason(e)})
		if e.Done {
			list = append(list, logEntry{e.Finished, event(e) + "_finished " + resultText(e) + summary + taskSpecResult(h.Calls[i+1:], e)})
		}
	}
	slices.SortStableFunc(list, func(a, b logEntry) int { return a.at.Compare(b.at) })
	list = slices.Insert(list, 0, logEntry{h.Began, "plan_started" + in.priorityText()})
	if h.Ended {
		list = append(list, logEntry{h.EndedAt, "plan_finished " + endText(h) + in.summary()})
	}
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintf(&b, "%s %s\n", l.at.UTC().Format(time.RFC3339), l.what)
	}
	return b.String()
}

// event returns the name of an activity in the log, where plan is the whole planning.
func event(e journal.Entry) string {
	if e.Activity == string(trellis.Plan) {
		return "planner"
	}
	return e.Activity
}

// repeatReason says why a call was repeated.
func repeatReason(e journal.Entry) string {
	var q agentcall.Request
	var d promptData
	switch {
	case json.Unmarshal(e.In, &q) != nil || q.Role == "":
		return ""
	case q.Repair != nil && len(q.Repair.Problems) > 0:
		return fmt.Sprintf(" why=%q", q.Repair.Problems[0])
	case json.Unmarshal(q.Data, &d) == nil && d.Why != "":
		return fmt.Sprintf(" round=%d why=%q", d.Round, d.Why)
	}
	return ""
}

// taskSpecResult describes the TaskSpec that resulted from the last call for one.
func taskSpecResult(later []journal.Entry, e journal.Entry) string {
	if e.Activity != string(trellis.TaskSpec) {
		return ""
	}
	for _, l := range later {
		var s settled
		switch {
		case l.Activity == e.Activity:
			return ""
		case l.Activity == string(settle) && l.Done && json.Unmarshal(l.Out, &s) == nil:
			return fmt.Sprintf(" stub=%t goals=%d priority=%s", s.Said.Stub, s.Said.Goals, s.Said.Priority)
		}
	}
	return ""
}

// resultText describes the result of a finished activity.
func resultText(e journal.Entry) string {
	text := fmt.Sprintf("seconds=%.1f attempts=%d", e.Finished.Sub(e.Started).Seconds(), e.Entries)
	if e.Fail != nil {
		return text + " error=" + e.Fail.Code
	}
	var r agentcall.Reply
	var q agentcall.Request
	if json.Unmarshal(e.In, &q) != nil || q.Role == "" || json.Unmarshal(e.Out, &r) != nil {
		return text
	}
	text += fmt.Sprintf(" agent=%s valid=%t repaired=%t tokens=%d", q.Agent, r.Failure == nil && len(r.Problems) == 0, q.Repair != nil, r.Usage.Tokens())
	if r.ToolCalls >= 0 { // else the agent does not report it
		text += fmt.Sprintf(" tools=%d", r.ToolCalls)
	}
	if r.Known {
		text += " known=true"
	}
	if r.Usage.CostUSD != nil {
		text += fmt.Sprintf(" cost_usd=%.4f", *r.Usage.CostUSD)
	}
	if r.Usage.CostEstimated {
		text += " cost_estimated=true"
	}
	if r.Usage.CostPartial {
		text += " cost_partial=true"
	}
	if r.Failure != nil {
		text += " error=" + r.Failure.Code
	}
	if len(r.Problems) > 0 {
		text += fmt.Sprintf(" problems=%q", r.Problems)
	}
	return text
}

func endText(h *journal.History) string {
	if h.End != nil {
		return "error=" + (&flow.Failure{Code: h.End.Code, Detail: h.End.Detail}).Error()
	}
	var r Report
	if json.Unmarshal(h.Out, &r) != nil {
		return ""
	}
	return fmt.Sprintf("decision=%s size=%s confidence=%.2f status=%s calls=%d tokens=%d steps=%d",
		r.Verdict.Decision, r.Verdict.Size, r.Verdict.Confidence, r.Status, r.Calls, r.Usage.Tokens(), r.Steps)
}

// intent is what a planning was for: the priority that a person gave, and a summary of its TaskSpec.
type intent struct {
	givenPriority string // P0 to P3, or ""
	spec          Spec
	state         string // of the TaskSpec: none, stub, valid
}

// intentOf returns the intent of a planning, as far as its journal goes.
func intentOf(h *journal.History) intent {
	var in Input
	_ = json.Unmarshal(h.Input, &in) // without a readable input the log says less
	found := intent{givenPriority: in.Priority, state: "none"}
	for _, e := range h.Calls {
		var s settled
		if e.Activity != string(settle) || !e.Done || e.Fail != nil || json.Unmarshal(e.Out, &s) != nil {
			continue
		}
		if found.spec, found.state = s.Said, "valid"; s.Said.Stub {
			found.state = "stub"
		}
	}
	return found
}

// priorityText describes what is known before the first call.
func (i intent) priorityText() string { return " priority=" + cmp.Or(i.givenPriority, "unset") }

// summary describes the priority, that of a person or else of the TaskSpec, and the number of goals.
func (i intent) summary() string {
	return fmt.Sprintf(" priority=%s goals=%d taskspec=%s", cmp.Or(i.givenPriority, i.spec.Priority, "unset"), i.spec.Goals, i.state)
}

// PartialReport reports the completed calls of a planning, up to its end or its interruption, and the usage of these and all earlier
// calls. The other fields of the Report are empty.
func PartialReport(h *journal.History) (rep Report, err error) {
	var in Input
	if err := json.Unmarshal(h.Input, &in); err != nil {
		return rep, fmt.Errorf("reading the input of planning %s: %w", h.Run, err)
	}
	rep.Usage = in.Used
	for _, e := range h.Calls {
		if !e.Done || e.Fail != nil || !slices.Contains(Roles(), trellis.Role(e.Activity)) {
			continue
		}
		var r agentcall.Reply
		if err := json.Unmarshal(e.Out, &r); err != nil {
			return rep, fmt.Errorf("reading %s of planning %s: %w", e.ID, h.Run, err)
		}
		if !r.Known {
			rep.Calls++
		}
		rep.Usage = rep.Usage.Add(r.Usage)
	}
	return rep, nil
}
