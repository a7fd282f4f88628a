package pipeline

import (
	"fmt"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Stated is a criterion as a run would take it in, and where it stands.
type Stated struct {
	ID     string `json:"id"`
	Line   int    `json:"line"` // of prd.md; 0: it stands in plan.json alone
	Text   string `json:"text"`
	Verify string `json:"verify"`
	Level  string `json:"level"` // must, should
}

// ReadCriteria are the criteria of a task directory as they are now. There are none when prd.md can't be read.
func ReadCriteria(dir string, p *plan.Plan) []Stated {
	prd, err := durable.ReadBelow(dir, taskdir.PRD, durable.MaxDocument)
	if err != nil {
		return nil
	}
	all, _ := allCriteria(string(prd), p)
	list := make([]Stated, len(all))
	for i, s := range all {
		level := "must"
		if s.Should {
			level = "should"
		}
		list[i] = Stated{fmt.Sprintf("A%d", i+1), s.line, s.Text, s.Verify, level}
	}
	return list
}

// stated is a criterion as it is written. Level: it says itself whether it blocks.
type stated struct {
	Criterion
	level bool
	line  int
}

// noCriteria is said in the report of a run that nobody wrote criteria for.
const noCriteria = `prd.md names no acceptance criteria: the work was judged by one, "prd.md is met"`

// criteriaOf are the criteria of a run: those of prd.md, in order, numbered by code. An entry of the plan with the
// same text lends one the command and the level that it does not name. Entries that prd.md does not have follow, each
// with a note. None at all: one, that prd.md is met.
func criteriaOf(prd string, p *plan.Plan) (list []Criterion, notes []string) {
	all, notes := allCriteria(prd, p)
	for i, s := range all {
		s.ID = fmt.Sprintf("A%d", i+1)
		list = append(list, s.Criterion)
	}
	if len(list) == 0 {
		return []Criterion{{ID: "A1", Text: "prd.md is met"}}, append(notes, noCriteria)
	}
	return list, notes
}

// allCriteria are those of prd.md and of the plan.
func allCriteria(prd string, p *plan.Plan) ([]stated, []string) {
	list := statedIn(prd)
	if p == nil {
		return list, nil
	}
	return join(list, p.Acceptance)
}

// statedIn are the criteria that prd.md states. What can't be read was told when the directory was checked.
func statedIn(prd string) (list []stated) {
	items, _ := criteria.Parse("prd.md", []byte(prd))
	for _, it := range items {
		list = append(list, stated{Criterion{Text: it.Text, Verify: it.Verify, Should: it.Level == "should"}, it.Level != "", it.Line})
	}
	return list
}

func join(list []stated, acceptance []plan.Criterion) (_ []stated, notes []string) {
	at := map[string]int{} // by text
	for i := range list {
		if text := text.OneLine(list[i].Text); at[text] == 0 {
			at[text] = i + 1
		}
	}
	for _, c := range acceptance {
		text := text.OneLine(c.Criterion)
		if i := at[text]; i > 0 {
			list[i-1].borrow(c)
			continue
		}
		list = append(list, stated{Criterion: Criterion{Text: text, Verify: c.Verify, Should: c.Level == "should"}})
		at[text] = len(list)
		notes = append(notes, fmt.Sprintf("A%d stands in plan.json alone, prd.md does not have it: %s", len(list), short(text)))
	}
	return list, notes
}

// borrow takes from an entry of the plan what prd.md does not say.
func (s *stated) borrow(c plan.Criterion) {
	if s.Verify == "" {
		s.Verify = c.Verify
	}
	if !s.level {
		s.Should = c.Level == "should"
	}
}
