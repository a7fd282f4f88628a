package terminal

import (
	"io"
	"math"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Squeeze is a step of making a table narrower: a column is cut to so many columns of the terminal, 0 takes it away.
type Squeeze struct{ Column, To int }

// Grid is a table: cells below each other's, two blanks between them. On a terminal no line of it is longer than that is
// wide; elsewhere nothing is cut.
type Grid struct {
	Rows [][]string
	// What yields where the terminal is too narrow: one step after the other, none further than needed. What then is left
	// of the width goes back to them, the last one first.
	Squeezes []Squeeze
	Paint    func(row, column int) string // the colour of a cell as a terminal takes it; "" and nil: none
}

const gap = 2

// Print writes the table.
func (g Grid) Print(w io.Writer, style Style) error {
	rows := g.shown()
	widths := g.widths(rows, style.Width)
	var b strings.Builder
	for n, row := range rows {
		var line strings.Builder
		room := style.Width
		for i, cell := range row {
			if widths[i] == 0 {
				continue
			}
			if style.Width > 0 {
				cell = text.Clip(cell, min(widths[i], room))
			}
			room -= widths[i] + gap
			line.WriteString(g.painted(n, i, cell, style) + strings.Repeat(" ", widths[i]+gap-text.Width(cell)))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shown are the rows with each cell in one line, and nothing in it that a terminal would obey.
func (g Grid) shown() [][]string {
	rows := make([][]string, len(g.Rows))
	for n, row := range g.Rows {
		for _, cell := range row {
			rows[n] = append(rows[n], text.Clip(cell, math.MaxInt))
		}
	}
	return rows
}

func (g Grid) painted(row, column int, cell string, style Style) string {
	if g.Paint == nil {
		return cell
	}
	return Paint(cell, g.Paint(row, column), style.Colour)
}

// widths are those of the columns where lines have at most limit, 0 is no limit.
func (g Grid) widths(rows [][]string, limit int) []int {
	var natural []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(natural) {
				natural = append(natural, 0)
			}
			natural[i] = max(natural[i], text.Width(cell))
		}
	}
	widths := append([]int{}, natural...)
	if limit == 0 {
		return widths
	}
	for _, s := range g.Squeezes {
		if over := total(widths) - limit; over > 0 && s.Column < len(widths) {
			widths[s.Column] = min(widths[s.Column], max(s.To, widths[s.Column]-over))
			if s.To == 0 {
				widths[s.Column] = 0
			}
		}
	}
	for i := len(g.Squeezes) - 1; i >= 0; i-- {
		if c := g.Squeezes[i].Column; c < len(widths) && widths[c] > 0 {
			widths[c] = min(natural[c], widths[c]+max(limit-total(widths), 0))
		}
	}
	return widths
}

// total is how wide lines of such columns are.
func total(widths []int) (n int) {
	for _, w := range widths {
		if w > 0 {
			n += w + gap
		}
	}
	return max(n-gap, 0)
}
