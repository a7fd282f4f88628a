package terminal

import (
	"fmt"
	"slices"
	"strings"
)

// Diff is the unified diff from one text to another, both of the file name; "" when they are the same. What a terminal
// would obey is blanked out.
func Diff(name, from, to string) string {
	if from == to {
		return ""
	}
	a, b := lines(from), lines(to)
	text := fmt.Sprintf("--- a/%[1]s\n+++ b/%[1]s\n", name)
	for _, h := range hunks(edits(a, b)) {
		text += h.text(a, b)
	}
	return text
}

func lines(text string) []string {
	list := strings.SplitAfter(text, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

// edit is a stretch of a that a stretch of b takes the place of.
type edit struct{ a0, a1, b0, b1 int }

// edits are the stretches that differ. Texts with too much between their first and their last difference differ in one.
func edits(a, b []string) (list []edit) {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	const most = 1 << 22
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x)*len(y) > most {
		return []edit{{head, len(a) - tail, head, len(b) - tail}}
	}
	common := longest(x, y)
	at := edit{head, head, head, head}
	for i, j := 0, 0; i < len(x) || j < len(y); {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			list = kept(list, at)
			i, j = i+1, j+1
			at = edit{head + i, head + i, head + j, head + j}
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			i++
			at.a1++
		default:
			j++
			at.b1++
		}
	}
	return kept(list, at)
}

func kept(list []edit, e edit) []edit {
	if e.a0 == e.a1 && e.b0 == e.b1 {
		return list
	}
	return append(list, e)
}

// longest[i][j] is how many lines x[i:] and y[j:] have in common, in their order.
func longest(x, y []string) [][]int {
	table := make([][]int, len(x)+1)
	for i := range table {
		table[i] = make([]int, len(y)+1)
	}
	for i := range slices.Backward(x) {
		for j := range slices.Backward(y) {
			if table[i][j] = max(table[i+1][j], table[i][j+1]); x[i] == y[j] {
				table[i][j] = table[i+1][j+1] + 1
			}
		}
	}
	return table
}

// hunk is edits that are shown together.
type hunk []edit

// around is how many lines are shown around a difference.
const around = 3

func hunks(list []edit) (all []hunk) {
	for _, e := range list {
		if n := len(all); n > 0 && e.a0-all[n-1][len(all[n-1])-1].a1 <= 2*around {
			all[n-1] = append(all[n-1], e)
			continue
		}
		all = append(all, hunk{e})
	}
	return all
}

func (h hunk) text(a, b []string) string {
	first, last := h[0], h[len(h)-1]
	from, to := max(first.a0-around, 0), min(last.a1+around, len(a))
	bfrom, bto := first.b0-(first.a0-from), last.b1+(to-last.a1)
	var out strings.Builder
	fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(from, to), span(bfrom, bto))
	at := from
	for _, e := range h {
		show(&out, " ", a[at:e.a0])
		show(&out, "-", a[e.a0:e.a1])
		show(&out, "+", b[e.b0:e.b1])
		at = e.a1
	}
	show(&out, " ", a[at:to])
	return out.String()
}

// span is a stretch of lines as a diff names it.
func span(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func show(out *strings.Builder, mark string, lines []string) {
	for _, l := range lines {
		text, whole := strings.CutSuffix(l, "\n")
		out.WriteString(mark + Safe(strings.TrimSuffix(text, "\r")) + "\n")
		if !whole {
			out.WriteString("\\ No newline at end of file\n")
		}
	}
}
