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

// happening is one line of the log.
type happening struct {
	at   time.Time
	what string
}

// logLines returns the log in chronological order: two calls may run at once.
func logLines(h *journal.History) string {
	var list []happening
	in := intended(h)
	for i, e := range h.Calls {
		aims := ""
		if e.Activity == string(trellis.Plan) {
			aims = in.aims()
		}
		list = append(list, happening{e.Started, event(e) + "_started" + aims + asked(e)})
		if e.Done {
			list = append(list, happening{e.Finished, event(e) + "_finished " + told(e) + aims + stubbed(h.Calls[i+1:], e)})
		}
	}
	slices.SortStableFunc(list, func(a, b happening) int { return a.at.Compare(b.at) })
	list = slices.Insert(list, 0, happening{h.Began, "plan_started" + in.asked()})
	if h.Ended {
		list = append(list, happening{h.EndedAt, "plan_finished " + ending(h) + in.aims()})
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

// asked says why a call was repeated.
func asked(e journal.Entry) string {
	var q agentcall.Request
	var d about
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

// stubbed describes the TaskSpec that resulted from the last call for one.
func stubbed(later []journal.Entry, e journal.Entry) string {
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

// told describes the result of a finished activity.
func told(e journal.Entry) string {
	said := fmt.Sprintf("seconds=%.1f attempts=%d", e.Finished.Sub(e.Started).Seconds(), e.Entries)
	if e.Fail != nil {
		return said + " error=" + e.Fail.Code
	}
	var r agentcall.Reply
	var q agentcall.Request
	if json.Unmarshal(e.In, &q) != nil || q.Role == "" || json.Unmarshal(e.Out, &r) != nil {
		return said
	}
	said += fmt.Sprintf(" agent=%s valid=%t repaired=%t tokens=%d", q.Agent, r.Failure == nil && len(r.Problems) == 0, q.Repair != nil, r.Usage.Tokens())
	if r.ToolCalls >= 0 { // else the agent does not report it
		said += fmt.Sprintf(" tools=%d", r.ToolCalls)
	}
	if r.Known {
		said += " known=true"
	}
	if r.Usage.CostUSD != nil {
		said += fmt.Sprintf(" cost_usd=%.4f", *r.Usage.CostUSD)
	}
	if r.Usage.CostEstimated {
		said += " cost_estimated=true"
	}
	if r.Usage.CostPartial {
		said += " cost_partial=true"
	}
	if r.Failure != nil {
		said += " error=" + r.Failure.Code
	}
	if len(r.Problems) > 0 {
		said += fmt.Sprintf(" problems=%q", r.Problems)
	}
	return said
}

func ending(h *journal.History) string {
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
	given string // P0 to P3, or ""
	spec  Spec
	state string // of the TaskSpec: none, stub, valid
}

// intended returns the intent of a planning, as far as its journal goes.
func intended(h *journal.History) intent {
	var in Input
	_ = json.Unmarshal(h.Input, &in) // without a readable input the log says less
	of := intent{given: in.Priority, state: "none"}
	for _, e := range h.Calls {
		var s settled
		if e.Activity != string(settle) || !e.Done || e.Fail != nil || json.Unmarshal(e.Out, &s) != nil {
			continue
		}
		if of.spec, of.state = s.Said, "valid"; s.Said.Stub {
			of.state = "stub"
		}
	}
	return of
}

// asked describes what is known before the first call.
func (i intent) asked() string { return " priority=" + cmp.Or(i.given, "unset") }

// aims describes the priority, that of a person or else of the TaskSpec, and the number of goals.
func (i intent) aims() string {
	return fmt.Sprintf(" priority=%s goals=%d taskspec=%s", cmp.Or(i.given, i.spec.Priority, "unset"), i.spec.Goals, i.state)
}

// SoFar reports the completed calls of a planning, up to its end or its interruption, and the usage of these and all earlier
// calls. The other fields of the Report are empty.
func SoFar(h *journal.History) (rep Report, err error) {
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
