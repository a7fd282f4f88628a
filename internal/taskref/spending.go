package taskref

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Spending is what agents used, by the id of their clone: for each clone its count on its newest day. Counts only grow, so that
// tables received in any order, and repeatedly, give the same result (a grow-only counter).
type Spending map[string]Spent

// Spent is what the agents of a clone used on one day by its own clock.
type Spent struct {
	Day     string  `json:"day"` // 2026-02-01
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"` // as far as known
}

// maxMachines is the maximum number of clones in a message: those that used most, as there may be a new clone for each job.
const maxMachines = 100

// Learn merges another table, and reports whether that changed s.
func (s Spending) Learn(other Spending) (news bool) {
	for machine, its := range other {
		now := s[machine]
		switch {
		case its.Day > now.Day:
			now = its
		case its.Day == now.Day:
			now.Tokens, now.CostUSD = max(now.Tokens, its.Tokens), max(now.CostUSD, its.CostUSD)
		}
		if now != s[machine] {
			s[machine], news = now, true
		}
	}
	return news
}

// Between returns the table without days before first or after last: otherwise a clock that was once ahead would determine its
// machine's entry until that day.
func (s Spending) Between(first, last string) Spending {
	kept := Spending{}
	for machine, its := range s {
		if its.Day >= first && its.Day <= last {
			kept[machine] = its
		}
	}
	return kept
}

// text returns the table as one line: clone, day, tokens and dollars of each entry.
func (s *Spending) text() string {
	var list []string
	for _, machine := range slices.Sorted(slices.Values(s.largest())) {
		its := (*s)[machine]
		list = append(list, fmt.Sprintf("%s %s %d %s", machine, its.Day, its.Tokens, strconv.FormatFloat(its.CostUSD, 'f', -1, 64)))
	}
	return strings.Join(list, ", ")
}

// largest returns at most maxMachines clones with usage, sorted by day, newest first, then by usage, most first.
func (s *Spending) largest() []string {
	list := slices.DeleteFunc(slices.Collect(maps.Keys(*s)), func(machine string) bool { its := (*s)[machine]; return its.Tokens == 0 && its.CostUSD == 0 })
	slices.SortFunc(list, func(a, b string) int {
		x, y := (*s)[a], (*s)[b]
		return cmp.Or(cmp.Compare(y.Day, x.Day), cmp.Compare(y.CostUSD, x.CostUSD), cmp.Compare(y.Tokens, x.Tokens), cmp.Compare(a, b))
	})
	return list[:min(len(list), maxMachines)]
}

// parse parses the result of text. Invalid entries are skipped.
func (s *Spending) parse(line string) {
	*s = nil
	for i, entry := range strings.Split(line, ", ") {
		words := strings.Fields(entry)
		if len(words) != 4 || i >= maxMachines || !trellis.ValidName(words[0]) {
			continue
		}
		_, dayErr := time.Parse(time.DateOnly, words[1])
		tokens, err := strconv.ParseInt(words[2], 10, 64)
		cost, costErr := strconv.ParseFloat(words[3], 64)
		if dayErr != nil || err != nil || costErr != nil || tokens < 0 || cost < 0 || math.IsNaN(cost) || math.IsInf(cost, 0) {
			continue
		}
		if *s == nil {
			*s = Spending{}
		}
		(*s)[words[0]] = Spent{words[1], tokens, cost}
	}
}
