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

// scenarioWord returns the step that a line begins with, 0 for none. more reports whether the line continues the step before it.
func scenarioWord(bare string) (step int, more bool) {
	word, _, _ := strings.Cut(strings.TrimLeft(bare, "*_`"), " ")
	word = strings.ToLower(strings.Trim(word, "*_`:,"))
	return 1 + slices.Index([]string{"scenario", "given", "when", "then"}, word), word == "and" || word == "but"
}

func isScenarioLine(bare string) bool {
	step, more := scenarioWord(bare)
	return step > scenario || more
}

// reachedStep returns the step that a scenario has reached with this line; 0 if it is not one, or is complete in one line.
func reachedStep(bare string, before int) int {
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

// continueScenario reports whether a line continues the scenario before it, and if so adds it.
func (r *reader) continueScenario(said string, l line) bool {
	o := r.lastItem()
	if o == nil || len(r.preambles) > 0 || o.scenario == 0 {
		return false
	}
	step, more := scenarioWord(said)
	if !more && (step <= scenario || step == given && o.scenario > scenario) {
		return false
	}
	o.scenario = reachedStep(said, o.scenario)
	o.add(said, l.number)
	return true
}

// readScenario reports whether a line without a marker continues a scenario, or begins the next one, and if so adds it.
func (r *reader) readScenario(l line) bool {
	if r.continueScenario(l.bare, l) {
		return true
	}
	step, _ := scenarioWord(l.bare)
	if o := r.lastItem(); o.scenario < then || step != given && step != scenario {
		return false
	}
	r.startItem(l, &openItem{paragraph: true, scenario: reachedStep(l.bare, 0)})
	r.lastItem().add(l.bare, l.number)
	return true
}
