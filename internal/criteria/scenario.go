package criteria

import (
	"slices"
	"strings"
)

// Steps of a scenario, in order.
const (
	scenario = 1 + iota
	given
	when
	then
)

// scenarioWord is the step that a line begins with; more: it goes on with the one before.
func scenarioWord(bare string) (step int, more bool) {
	word, _, _ := strings.Cut(strings.TrimLeft(bare, "*_`"), " ")
	word = strings.ToLower(strings.Trim(word, "*_`:,"))
	return 1 + slices.Index([]string{"scenario", "given", "when", "then"}, word), word == "and" || word == "but"
}

func scenarioLine(bare string) bool {
	step, more := scenarioWord(bare)
	return step > scenario || more
}

// scenarioOf is how far a scenario has come with this line; 0 when it is none, or is told to its end in one line.
func scenarioOf(bare string, before int) int {
	step, _ := scenarioWord(bare)
	if before == 0 && step != scenario && step != given {
		return 0
	}
	lower := strings.ToLower(bare)
	if before == 0 && strings.Contains(lower, "then ") && strings.Contains(lower, "when ") {
		return 0
	}
	return max(before, step)
}

// joins reports whether a line goes on with the scenario before it, and takes it in.
func (r *reader) joins(said string, l line) bool {
	o := r.last()
	if o == nil || len(r.lead) > 0 || o.scenario == 0 {
		return false
	}
	step, more := scenarioWord(said)
	if !more && (step <= scenario || step == given && o.scenario > scenario) {
		return false
	}
	o.scenario = scenarioOf(said, o.scenario)
	o.add(said, l.number)
	return true
}

// scenario takes in a line without a marker that goes on with a scenario, or begins the next one.
func (r *reader) scenario(l line) bool {
	if r.joins(l.bare, l) {
		return true
	}
	step, _ := scenarioWord(l.bare)
	if o := r.last(); o.scenario < then || step != given && step != scenario {
		return false
	}
	r.start(l, &open{prose: true, scenario: scenarioOf(l.bare, 0)})
	r.last().add(l.bare, l.number)
	return true
}
