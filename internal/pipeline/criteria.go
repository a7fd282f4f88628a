package pipeline

import (
	"cmp"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/taskdir"
)

// StatedCriterion is a criterion as a run would take it in, and where it was found.
type StatedCriterion struct {
	ID     string `json:"id"`
	Line   int    `json:"line"` // line of prd.md; 0: only plan.json has it
	Text   string `json:"text"`
	Verify string `json:"verify"`
	Level  string `json:"level"` // must, should, "" if not stated
}

// ReadCriteria returns the current criteria of a task directory, none if prd.md can't be read.
func ReadCriteria(dir string, p *plan.Plan) []StatedCriterion {
	prd, err := durable.ReadBelow(dir, taskdir.PRD, durable.MaxDocument)
	if err != nil {
		return nil
	}
	list, _ := allCriteria(string(prd), p)
	for i := range list {
		list[i].Level = cmp.Or(list[i].Level, "must")
	}
	return list
}

// noCriteria is the note in the report of a run for which nobody wrote criteria.
const noCriteria = `prd.md names no acceptance criteria: the work was judged by one, "prd.md is met"`

// criteriaOf returns the criteria of a run, see allCriteria. If there are none, the only one is that prd.md is met.
func criteriaOf(prd string, p *plan.Plan) (list []Criterion, notes []string) {
	all, notes := allCriteria(prd, p)
	for _, s := range all {
		list = append(list, Criterion{s.ID, s.Text, s.Verify, s.Level == "should"})
	}
	if len(list) == 0 {
		return []Criterion{{ID: "A1", Text: "prd.md is met"}}, append(notes, noCriteria)
	}
	return list, notes
}

// allCriteria returns the criteria of prd.md, in order, numbered by code. An entry of the plan with the same text supplies the
// command and the level if prd.md does not. Entries that only the plan has follow, each with a note.
func allCriteria(prd string, p *plan.Plan) (list []StatedCriterion, notes []string) {
	list = statedCriteria(prd)
	if p == nil {
		return list, nil
	}
	at := map[string]int{} // index + 1 in list, by text
	for i := range list {
		if line := text.OneLine(list[i].Text); at[line] == 0 {
			at[line] = i + 1
		}
	}
	for _, c := range p.Acceptance {
		line := text.OneLine(c.Criterion)
		if i := at[line]; i > 0 {
			s := &list[i-1]
			s.Verify, s.Level = cmp.Or(s.Verify, c.Verify), cmp.Or(s.Level, c.Level)
			continue
		}
		at[line] = len(list) + 1
		list = append(list, StatedCriterion{ID: fmt.Sprintf("A%d", at[line]), Text: line, Verify: c.Verify, Level: c.Level})
		notes = append(notes, fmt.Sprintf("A%d is only in plan.json, not in prd.md: %s", at[line], shortText(line)))
	}
	return list, notes
}

// statedCriteria returns the criteria that prd.md states. Problems were reported when the directory was checked.
func statedCriteria(prd string) (list []StatedCriterion) {
	items, _ := criteria.Parse("prd.md", []byte(prd))
	for i, it := range items {
		list = append(list, StatedCriterion{fmt.Sprintf("A%d", i+1), it.Line, it.Text, it.Verify, it.Level})
	}
	return list
}
