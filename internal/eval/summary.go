package eval

import (
	"slices"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Summary sums up many results.
type Summary struct {
	Cases           int                       `json:"cases"`      // all that were to be planned
	Ended           int                       `json:"ended"`      // those that have a result
	Score           float64                   `json:"score"`      // from 0 to 100: the mean of the ended cases
	Decisions       map[string]map[string]int `json:"decisions"`  // by wanted, then by actual decision
	Kinds           map[string]Share          `json:"kinds"`      // correct decisions, by kind of case
	Categories      map[string]map[string]int `json:"categories"` // for correctly rejected cases: by best, then by actual category
	RightCategories Share                     `json:"right_categories"`
	Checks          Share                     `json:"checks"` // of plans that were wanted and made
	FalseAccepts    []string                  `json:"false_accepts"`
	FalseRejects    []string                  `json:"false_rejects"`
	Failures        []string                  `json:"failures"` // cases in which the planner neither accepted nor rejected
	Calls           int                       `json:"calls"`
	Usage           trellis.Usage             `json:"usage"`
	UnknownCost     int                       `json:"unknown_cost"` // cases with unknown cost
	Seconds         float64                   `json:"seconds"`      // of all cases together
}

// Share says how many of how many were correct.
type Share struct {
	Right int `json:"right"`
	Of    int `json:"of"`
}

func (s Share) plus(right, of int) Share { return Share{s.Right + right, s.Of + of} }

// Summarize adds results up. cases is how many were to be planned.
func Summarize(results []Result, cases int) Summary {
	s := Summary{Cases: cases, Decisions: map[string]map[string]int{}, Kinds: map[string]Share{}, Categories: map[string]map[string]int{},
		FalseAccepts: []string{}, FalseRejects: []string{}, Failures: []string{}}
	for _, r := range results {
		s.add(r)
	}
	if s.Ended > 0 {
		s.Score *= 100 / float64(s.Ended)
	}
	return s
}

func (s *Summary) add(r Result) {
	s.Ended++
	s.Score += r.Score
	s.Calls += r.Calls
	s.Usage = s.Usage.Add(r.Usage)
	s.Seconds += r.Seconds
	if r.Calls > 0 && r.Usage.CostUSD == nil {
		s.UnknownCost++
	}
	count(s.Decisions, r.Wanted, r.Got)
	right := 0
	switch {
	case r.Got == r.Wanted:
		right = 1
	case r.Got == Failed:
		s.Failures = append(s.Failures, r.ID)
	case r.Got == Accept:
		s.FalseAccepts = append(s.FalseAccepts, r.ID)
	default:
		s.FalseRejects = append(s.FalseRejects, r.ID)
	}
	s.Kinds[r.Kind] = s.Kinds[r.Kind].plus(right, 1)
	s.Checks = s.Checks.plus(r.Held(), len(r.Checks))
	if r.Wanted == Reject && r.Got == Reject {
		count(s.Categories, r.Right[0], r.Category)
		fits := 0
		if slices.Contains(r.Right, r.Category) {
			fits = 1
		}
		s.RightCategories = s.RightCategories.plus(fits, 1)
	}
}

func count(table map[string]map[string]int, row, column string) {
	if table[row] == nil {
		table[row] = map[string]int{}
	}
	table[row][column]++
}
