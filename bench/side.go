package main

// side is a built program whose cost is measured: the one that is asked about, or one to see beside it.
type side struct{ name, trellis string }

// sides are the programs that are measured in turn where what a delivered task takes is: an earlier one first.
func (b *bench) sides() []side {
	if b.before == "" {
		return []side{{"", b.trellis}}
	}
	return []side{{"before: ", b.before}, {"", b.trellis}}
}
