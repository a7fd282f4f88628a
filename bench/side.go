package main

// side is a built program to measure: the current one, or an earlier one for comparison.
type side struct{ name, trellis string }

// sides returns the programs that are compared when the cost of a delivered task is measured, the earlier one first.
func (b *bench) sides() []side {
	if b.before == "" {
		return []side{{"", b.trellis}}
	}
	return []side{{"before: ", b.before}, {"", b.trellis}}
}
