package status

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// RepeatReason returns why a planning repeats a request, "" if it does not.
func RepeatReason(r agentcall.Request) string {
	if r.Repair != nil && len(r.Repair.Problems) > 0 {
		return fmt.Sprintf("%s again: %s%s", r.Role, text.OneLine(r.Repair.Problems[0]), andMore(len(r.Repair.Problems)-1))
	}
	var d struct {
		Round, Sent int
		Why         string // "<who>, <n> of <m>: <reason>"
	}
	if json.Unmarshal(r.Data, &d) != nil {
		return ""
	}
	head, reason, _ := strings.Cut(text.OneLine(d.Why), ": ")
	who, nth, counted := strings.Cut(head, ", ")
	switch {
	case d.Why == "" && d.Sent > 0:
		return string(r.Role) + " again: no file was looked at"
	case d.Why == "":
		return ""
	case counted && who == string(trellis.Judge):
		return fmt.Sprintf("judge said no (%s): %s", nth, reason)
	case counted:
		return fmt.Sprintf("%s again (%s): %s", r.Role, nth, reason)
	}
	return fmt.Sprintf("%s again: %s", r.Role, text.OneLine(d.Why))
}

func andMore(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// Opinion has the fields that the answers of evaluate and judge share.
type Opinion struct {
	Decision string
	Category string
	Size     trellis.Size
	Pass     *bool
	Feedback string
}

// OpinionOf returns the opinion in an answer, an empty one for roles that decide nothing.
func OpinionOf(role trellis.Role, r agentcall.Reply) (o Opinion) {
	if role == trellis.Evaluate || role == trellis.Judge {
		_ = json.Unmarshal(r.Answer, &o) // an invalid answer decides nothing
	}
	return o
}

// Refused reports whether the judge said no.
func (o Opinion) Refused() bool { return o.Pass != nil && !*o.Pass }

// String returns what was decided, "" if the role decides nothing.
func (o Opinion) String() string {
	switch {
	case o.Category != "":
		return o.Decision + " (" + o.Category + ")"
	case o.Decision != "":
		return strings.TrimSuffix(o.Decision+", "+string(o.Size), ", ")
	case o.Pass != nil && *o.Pass:
		return "the plan passes"
	case o.Pass != nil:
		return "the plan does not pass"
	}
	return ""
}

// planningState returns the state of a planning that has not ended: the role that is asked, the first of
// several, or else the role that was asked last, the round of its call, and why a request was last repeated.
func planningState(dir string) (role string, round int, why string) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil || h.Flow != planner.Flow || h.Ended {
		return "", 0, ""
	}
	asked := false
	for _, c := range h.Calls {
		if !isRole(c.Activity) {
			continue
		}
		if !asked {
			role, round, asked = c.Activity, planRound(c), !c.Done
		}
		if a := repeatReason(c); a != "" {
			why = a
		}
	}
	return role, round, why
}

// planRound returns the number of the plan that a call is about, 0 if there is none yet.
func planRound(c journal.Entry) int {
	var r struct{ Data struct{ Round int } }
	_ = json.Unmarshal(c.In, &r) // a call without a round is in none
	return r.Data.Round
}

// repeatReason returns why a planning asks an agent again, "" if it does not.
func repeatReason(c journal.Entry) string {
	var r agentcall.Request
	if !isRole(c.Activity) || json.Unmarshal(c.In, &r) != nil || !r.Role.IsPlanning() {
		return ""
	}
	return RepeatReason(r)
}
