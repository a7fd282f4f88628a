package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

type callState struct {
	id        string
	role      trellis.Role // "" outside of a planning
	since     time.Time
	took      time.Duration // once it has ended
	ended     bool
	failed    bool // the agent failed
	calledOff bool // it was called off, since nobody needed it
	unusable  bool // no answer that can be used, or the judge's no
	used      trellis.Usage
	tools     int    // how many tool calls it made
	last      string // what it did last
}

// quickStages are the stages of a planning without a plan.
var quickStages = [][]trellis.Role{{trellis.Evaluate}, {trellis.Research}, {trellis.PRD}}

// Stages returns the roles that a planning with these options asks, stage by stage, as far as that
// is known before the requirement is evaluated. The roles of one stage work at the same time.
func Stages(c config.Planning, o runner.PlanOptions) [][]trellis.Role {
	if o.Quick {
		return quickStages
	}
	list := [][]trellis.Role{{trellis.Evaluate}, {trellis.Research}, {trellis.Plan}}
	if c.TaskSpec && !o.NoTaskSpec {
		list[1] = append(list[1], trellis.TaskSpec)
	}
	if c.Judge {
		list = append(list, []trellis.Role{trellis.Judge})
	}
	return list
}

// SetStages sets the stages of plannings that begin from now on.
func (l *Live) SetStages(stages [][]trellis.Role) { l.change(func() { l.stages = stages }) }

// showRequest shows that a planning begins to ask an agent. A repeated request is printed with its reason.
func (l *Live) showRequest(t *activeTask, id string, r agentcall.Request) {
	if t.stages == nil {
		t.phase, t.stages = "planning", append([][]trellis.Role{}, l.stages...)
	}
	t.addStage(r.Role)
	t.joinEarlierStage(r.Role)
	earlier := t.callsOf(r.Role)
	*t.call(id) = callState{id: id, role: r.Role, since: l.now()}
	switch why := status.RepeatReason(r); {
	case why != "":
		l.print(t.name + ": " + why)
	case len(earlier) > 0 && earlier[len(earlier)-1].failed:
		l.print(t.name + ": " + string(r.Role) + " again")
	case !l.isTerminal:
		l.print(t.name + ": " + string(r.Role))
	}
}

func (l *Live) showReply(t *activeTask, id string, r agentcall.Reply) {
	c := t.call(id)
	opinion := status.OpinionOf(c.role, r)
	c.ended, c.took, c.used = true, l.now().Sub(c.since), r.Usage
	c.calledOff = r.Failure != nil && r.Failure.Code == string(trellis.CalledOff)
	c.failed = r.Failure != nil && !c.calledOff
	c.unusable = c.failed || len(r.Problems) > 0 || opinion.Refused()
	if opinion.Size == trellis.Tiny {
		t.stages = slices.Clone(quickStages)
	}
	switch {
	case c.calledOff && !l.isTerminal:
		l.print(fmt.Sprintf("%s: %s called off: %s", t.name, c.role, r.Failure.Detail))
	case c.failed:
		l.print(fmt.Sprintf("%s: %s: %v", t.name, c.role, r.Failure) + l.retryRemark(r.Failure))
	case !l.isTerminal && !c.calledOff && len(r.Problems) == 0:
		l.print(fmt.Sprintf("%s: %s", t.name, c.summary(r)))
	}
}

// retryRemark returns a remark on when a call that failed is repeated by itself, as far as that is known.
func (l *Live) retryRemark(f *flow.Failure) string {
	if f.Code == string(trellis.ProviderDown) && f.ResumeAt.IsZero() {
		return "; it is asked again within five minutes"
	}
	return l.resumeRemark(f.ResumeAt)
}

// resumeRemark returns a remark on when a wait ends, "" if it does not end by itself.
func (l *Live) resumeRemark(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf("; continues at %s (in %s)", at.Local().Format(time.DateTime), at.Sub(l.now()).Round(time.Second))
}

func (t *activeTask) call(id string) *callState {
	for _, c := range t.calls {
		if c.id == id {
			return c
		}
	}
	c := &callState{id: id}
	t.calls = append(t.calls, c)
	return c
}

func (t *activeTask) callsOf(role trellis.Role) (list []*callState) {
	for _, c := range t.calls {
		if c.role == role {
			list = append(list, c)
		}
	}
	return list
}

// addStage adds a stage for a role that has none.
func (t *activeTask) addStage(role trellis.Role) {
	if !slices.ContainsFunc(t.stages, func(s []trellis.Role) bool { return slices.Contains(s, role) }) {
		t.stages = append(t.stages, []trellis.Role{role})
	}
}

// joinEarlierStage moves a role that is asked ahead into the earlier stage that is still being asked.
func (t *activeTask) joinEarlierStage(role trellis.Role) {
	at := slices.IndexFunc(t.stages, func(s []trellis.Role) bool { return slices.Contains(s, role) })
	for i := range max(at, 0) {
		if !slices.ContainsFunc(t.stages[i], t.isAsked) {
			continue
		}
		t.stages[i] = append(slices.Clone(t.stages[i]), role)
		t.stages[at] = slices.DeleteFunc(slices.Clone(t.stages[at]), func(r trellis.Role) bool { return r == role })
		return
	}
}

// isAsked reports whether a role is being asked.
func (t *activeTask) isAsked(role trellis.Role) bool {
	return slices.ContainsFunc(t.callsOf(role), func(c *callState) bool { return !c.ended })
}

func (c *callState) summary(r agentcall.Reply) string {
	parts := []string{string(c.role) + " done in " + text.Duration(c.took)}
	if v := status.OpinionOf(c.role, r).String(); v != "" {
		parts = append(parts, v)
	}
	if c.tools > 0 {
		parts = append(parts, text.Count(c.tools, "tool call"))
	}
	if u := r.Usage; u.Tokens() > 0 || u.CostUSD != nil {
		parts = append(parts, text.Tokens(u.Tokens())+" tokens", text.Cost(u))
	}
	return strings.Join(parts, " · ")
}

// planning returns the lines of a task that is being planned: its stages, and what the agents at work do.
func (t *activeTask) planning(now time.Time, width int, colour bool) []string {
	head := append([]string{t.name + ": " + t.phase, text.Seconds(now.Sub(t.began).Seconds())}, text.UsageParts(t.usage())...)
	lines := append([]string{text.Clip(strings.Join(head, " · "), width)}, wrap(t.stageWords(now), width, colour)...)
	if t.wait != nil {
		lines = append(lines, Paint(text.Clip("  ‖ "+t.wait.Text(now), width), "33", colour))
	}
	for _, c := range t.calls {
		if c.ended || c.last == "" {
			continue
		}
		line := "  " + string(c.role)
		if c.tools > 0 {
			line += " · " + text.Count(c.tools, "tool call")
		}
		lines = append(lines, text.Clip(line+" · "+c.last, width))
	}
	return lines
}

// word is a part of a line that is not broken, with what separates it from the word before in the same line.
type word struct{ before, text, paint string }

// stageWords returns the stages, without those that are skipped.
func (t *activeTask) stageWords(now time.Time) (list []word) {
	furthest := -1
	for i, stage := range t.stages {
		if slices.ContainsFunc(stage, func(r trellis.Role) bool { return len(t.callsOf(r)) > 0 }) {
			furthest = i
		}
	}
	for i, stage := range t.stages {
		before := " · "
		for _, role := range stage {
			calls := t.callsOf(role)
			if len(calls) == 0 && i < furthest {
				continue
			}
			w := stageWord(role, calls, now)
			w.before, before = before, " ∥ "
			list = append(list, w)
		}
	}
	return list
}

// stageWord returns a role with the time of its calls, and how the last one ended.
func stageWord(role trellis.Role, calls []*callState, now time.Time) word {
	if len(calls) == 0 {
		return word{text: string(role), paint: "2"}
	}
	var took time.Duration
	for _, c := range calls {
		if took += c.took; !c.ended {
			took += now.Sub(c.since)
		}
	}
	name := string(role)
	if len(calls) > 1 {
		name += fmt.Sprintf(" ×%d", len(calls))
	}
	switch last := calls[len(calls)-1]; {
	case last.calledOff:
		return word{text: name + " off " + text.Duration(took), paint: "2"}
	case !last.ended:
		return word{text: name + " " + text.Seconds(took.Seconds())}
	case last.unusable:
		return word{text: name + " ✗ " + text.Duration(took), paint: "33"}
	}
	return word{text: name + " ✓ " + text.Duration(took), paint: "32"}
}

// wrap joins words to lines, none longer than width.
func wrap(list []word, width int, colour bool) (lines []string) {
	used := 0
	for _, w := range list {
		shown, room := Paint(w.text, w.paint, colour), text.Width(w.before+w.text)
		if len(lines) > 0 && used+room <= width {
			lines[len(lines)-1] += w.before + shown
			used += room
			continue
		}
		lead := "  "
		if strings.TrimSpace(w.before) == "∥" && len(lines) > 0 {
			lead = "  ∥ "
		}
		if used = text.Width(lead + w.text); used > width {
			shown, used = text.Clip(lead+w.text, width), width
			lead = ""
		}
		lines = append(lines, lead+shown)
	}
	return lines
}
