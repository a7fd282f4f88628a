package roadmap

import "strings"

// addStep adds a step to the roadmap.
func (rd *reader) addStep(s Step, phase int) {
	i := len(rd.Steps)
	if _, twice := rd.index[s.ID]; !twice {
		rd.index[s.ID] = i
	}
	s.Phase = rd.Phases[phase].Title
	rd.Steps = append(rd.Steps, s)
	rd.Phases[phase].Steps = append(rd.Phases[phase].Steps, i)
}

const (
	statusHint = "one of: nothing, pending, in-progress, done, blocked, skipped; a remark goes into <!-- -->"
	prHint     = "one of: nothing, #12, plan #12, plan <task>"
)

// setState sets the state of a step in a table.
func (rd *reader) setState(s *Step) {
	status, known := readStatus(s.Text(Status))
	ref := readReference(s.Text(PR))
	s.PRs, s.Plan = ref.prs, ref.plan
	if plan := plainText(s.plan); s.Plan == "" && !isEmptyCell(plan) {
		s.Plan = plainText(withoutPrefix(plan, "plan "))
	}
	empty := len(s.PRs) == 0 && s.Plan == ""
	if ref.invalid {
		s.Plan = ""
		rd.reportBadPRCell(s, status)
	}
	if !known && !ref.invalid {
		rd.reportUnknownStatus(s, empty)
	}
	s.State = stateOf(status, s)
	switch {
	case ref.invalid:
	case s.State == Done && empty:
		rd.warnf(s.Line, "", "step %s is done, and no pull request says how", s.ID)
	case s.State.isInProgress() && empty:
		rd.warnf(s.Line, "", "step %s is %s, and no plan says where", s.ID, s.State.words())
	case s.State == Done && status.isInProgress():
		rd.warnf(s.Line, "", "step %s is done by its pull request, and its status says %s", s.ID, status.words())
	}
}

// isInProgress reports whether a step in this state is in progress.
func (s State) isInProgress() bool { return s == Planning || s == InProgress }

func (s State) words() string { return strings.ReplaceAll(string(s), "_", " ") }

// stateOf returns a step's state: blocked and skipped take precedence, then the PR cell, then the status. A planned step whose
// status is done is done: not every merge has a pull request.
func stateOf(status State, s *Step) State {
	switch {
	case status == Blocked || status == Skipped:
		return status
	case len(s.PRs) > 0:
		return Done
	case s.Plan != "" && status == Done:
		return Done
	case s.Plan != "" && status == Planning:
		return Planning
	case s.Plan != "":
		return InProgress
	case status == "":
		return Pending
	}
	return status
}

// reportBadPRCell reports a PR cell that can't be understood. Only the status can then determine the state of the step.
func (rd *reader) reportBadPRCell(s *Step, status State) {
	const message = "the PR cell of step %s says %q, which names no pull request and no plan"
	if status == "" || status == Pending {
		rd.errorf(s.Line, prHint, message, s.ID, s.Text(PR))
		return
	}
	rd.warnf(s.Line, prHint, message, s.ID, s.Text(PR))
}

// reportUnknownStatus reports an unknown status. With an empty PR cell, the state of the step can't be determined.
func (rd *reader) reportUnknownStatus(s *Step, alone bool) {
	if alone {
		rd.errorf(s.Line, statusHint, "the status %q of step %s is unknown", s.Text(Status), s.ID)
		return
	}
	rd.warnf(s.Line, statusHint, "the status %q of step %s is unknown, so its PR cell decides", s.Text(Status), s.ID)
}

// dependencies returns the ids in a Depends On cell. An empty cell states nothing; "none" states that there are none.
func dependencies(cell string) (ids []string, stated bool) {
	cell = plainText(cell)
	if isEmptyCell(cell) {
		return nil, false
	}
	if strings.EqualFold(cell, "none") {
		return nil, true
	}
	for _, item := range strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ';' || r == ' ' || r == '\t' }) {
		item = plainText(strings.Trim(plainText(item), checkMarks))
		switch strings.ToLower(item) {
		case "", "step", "steps", "node", "nodes", "and", "&":
		default:
			ids = append(ids, item)
		}
	}
	return ids, true
}

// addImplicitDependencies makes every step that states no dependencies depend on the previous one.
func (r *Roadmap) addImplicitDependencies() {
	for i := range r.Steps {
		if s := &r.Steps[i]; !s.Stated && i > 0 {
			s.DependsOn = []string{r.Steps[i-1].ID}
		}
	}
}
