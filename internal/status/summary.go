package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func isRole(activity string) bool { return slices.Contains(trellis.Roles, trellis.Role(activity)) }

// agentOf returns the agent that an activity calls, "" if it calls none.
func agentOf(c journal.Entry) string {
	var r struct{ Agent string }
	if !isRole(c.Activity) || json.Unmarshal(c.In, &r) != nil {
		return ""
	}
	return r.Agent
}

// summary returns the result of an activity in words for people, and "" for records of activities
// that it does not know, or in another form.
func summary(c journal.Entry) string {
	if isRole(c.Activity) {
		var reply agentcall.Reply
		if json.Unmarshal(c.Out, &reply) != nil {
			return ""
		}
		said := replySummary(trellis.Role(c.Activity), reply)
		if reply.Known {
			said = strings.TrimSpace("answered by the planning before\n" + said)
		}
		return said
	}
	var out struct {
		Results []struct {
			Command string
			Code    int
			Seconds float64
			Tail    string
			Known   bool
		}
		SHA   string
		Hook  string
		Notes []string
	}
	if json.Unmarshal(c.Out, &out) != nil {
		return ""
	}
	var lines []string
	for _, r := range out.Results {
		line := fmt.Sprintf("%s: %s (%s)", r.Command, exitText(r.Code, r.Known), text.Seconds(r.Seconds))
		if r.Code != 0 && r.Tail != "" {
			line += "\n" + text.Indent(r.Tail)
		}
		lines = append(lines, line)
	}
	if out.SHA != "" {
		lines = append(lines, fmt.Sprintf("commit %.12s", out.SHA))
	}
	if out.Hook != "" {
		lines = append(lines, "a hook refused the commit:\n"+text.Indent(out.Hook))
	}
	return strings.Join(append(lines, noteLines(out.Notes)...), "\n")
}

func exitText(code int, known bool) string {
	switch {
	case code == 0:
		return "passed"
	case known:
		return fmt.Sprintf("exit %d, as before the work", code)
	}
	return fmt.Sprintf("exit %d", code)
}

func replySummary(role trellis.Role, r agentcall.Reply) string {
	var lines []string
	if o := OpinionOf(role, r); o.String() != "" {
		lines = append(lines, strings.TrimSuffix(o.String()+": "+text.OneLine(o.Feedback), ": "))
	}
	if u := text.Usage(r.Usage); u != "" {
		lines = append(lines, u)
	}
	switch {
	case r.Failure == nil:
	case r.Failure.Code == string(trellis.CalledOff):
		lines = append(lines, "called off: "+r.Failure.Detail)
	case r.Failure.Code == agentcall.Cancelled:
		lines = append(lines, "cancelled")
	default:
		lines = append(lines, "failed: "+r.Failure.Error())
	}
	for _, p := range r.Problems {
		lines = append(lines, "invalid answer: "+p)
	}
	return strings.Join(append(lines, noteLines(r.Notes)...), "\n")
}

func noteLines(list []string) []string {
	lines := make([]string, len(list))
	for i, n := range list {
		lines[i] = "note: " + n
	}
	return lines
}

func outcomeText(out json.RawMessage) string {
	var end struct {
		Outcome string
		Status  string
		Commit  string
	}
	if json.Unmarshal(out, &end) != nil {
		return ""
	}
	if end.Commit != "" {
		return fmt.Sprintf("%s, commit %.12s", end.Outcome, end.Commit)
	}
	return cmp.Or(end.Outcome, end.Status)
}
