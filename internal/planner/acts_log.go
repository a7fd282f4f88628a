package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// WriteLog writes .plan-log, one line an event, from the journal of the planning. What earlier plannings of
// the directory left there stays.
func WriteLog(disk *durable.Disk, dir string) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, taskdir.PlanLog)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading .plan-log: %w", err)
	}
	head := fmt.Sprintf("== planning %s ==\n", h.Run)
	before, _, _ := strings.Cut(string(old), head)
	return disk.WriteFile(path, []byte(before+head+logLines(h)), 0o644)
}

func logLines(h *journal.History) string {
	var b strings.Builder
	line := func(at time.Time, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", at.UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
	}
	line(h.Began, "plan_started")
	for _, e := range h.Calls {
		line(e.Started, "%s_started", e.Activity)
		if e.Done {
			line(e.Finished, "%s_finished %s", e.Activity, told(e))
		}
	}
	if h.Ended {
		line(h.EndedAt, "plan_finished %s", ending(h))
	}
	return b.String()
}

// told is what a finished activity came to.
func told(e journal.Entry) string {
	said := fmt.Sprintf("seconds=%.1f entries=%d", e.Finished.Sub(e.Started).Seconds(), e.Entries)
	if e.Fail != nil {
		return said + " error=" + e.Fail.Code
	}
	var r ask.Reply
	var q ask.Request
	if json.Unmarshal(e.In, &q) != nil || q.Role == "" || json.Unmarshal(e.Out, &r) != nil {
		return said
	}
	said += fmt.Sprintf(" agent=%s valid=%t repair=%t tokens=%d tools=%d", q.Agent, r.Failure == nil && len(r.Problems) == 0, q.Repair != nil, r.Usage.Tokens(), r.ToolCalls)
	if r.Usage.CostUSD != nil {
		said += fmt.Sprintf(" cost_usd=%.4f", *r.Usage.CostUSD)
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
	return fmt.Sprintf("decision=%s size=%s status=%s calls=%d tokens=%d", r.Verdict.Decision, r.Verdict.Size, r.Status, r.Calls, r.Usage.Tokens())
}

// Used is what agents used by the end of a planning, or until it was cut off, with all that came before it.
func Used(h *journal.History) (trellis.Usage, error) {
	var in Input
	if err := json.Unmarshal(h.Input, &in); err != nil {
		return trellis.Usage{}, fmt.Errorf("reading the input of planning %s: %w", h.Run, err)
	}
	used := in.Used
	for _, e := range h.Calls {
		if !e.Done || e.Fail != nil || !slices.Contains(Roles(), trellis.Role(e.Activity)) {
			continue
		}
		var r ask.Reply
		if err := json.Unmarshal(e.Out, &r); err != nil {
			return used, fmt.Errorf("reading %s of planning %s: %w", e.ID, h.Run, err)
		}
		used = used.Add(r.Usage)
	}
	return used, nil
}
