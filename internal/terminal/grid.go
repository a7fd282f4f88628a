package terminal

import (
	"io"
	"math"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Squeeze is a step of making a table narrower: a column is cut to To columns of the terminal; 0 removes it.
type Squeeze struct{ Column, To int }

// Grid is a table: columns of cells with two blanks between them. On a terminal its lines are cut
// to the width of that; elsewhere nothing is cut.
type Grid struct {
	Rows [][]string
	// What is cut if the terminal is too narrow: one step after the other, none further than
	// needed. Width that is left over then goes back to those columns, the last one first.
	Squeezes []Squeeze
	Paint    func(row, column int) string // returns the colour code of a cell; "" or a nil func: none
}

const gap = 2

// Print writes the table.
func (g Grid) Print(w io.Writer, style Style) error {
	rows := g.visibleRows()
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
			line.WriteString(g.paintCell(n, i, cell, style) + strings.Repeat(" ", widths[i]+gap-text.Width(cell)))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// visibleRows returns the rows with each cell on one line and its control characters made visible.
func (g Grid) visibleRows() [][]string {
	rows := make([][]string, len(g.Rows))
	for n, row := range g.Rows {
		for _, cell := range row {
			rows[n] = append(rows[n], text.Clip(cell, math.MaxInt))
		}
	}
	return rows
}

func (g Grid) paintCell(row, column int, cell string, style Style) string {
	if g.Paint == nil {
		return cell
	}
	return Paint(cell, g.Paint(row, column), style.Colour)
}

// widths returns the widths of the columns so that lines have at most limit columns; 0 means no limit.
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
		if over := totalWidth(widths) - limit; over > 0 && s.Column < len(widths) {
			widths[s.Column] = min(widths[s.Column], max(s.To, widths[s.Column]-over))
			if s.To == 0 {
				widths[s.Column] = 0
			}
		}
	}
	for i := len(g.Squeezes) - 1; i >= 0; i-- {
		if c := g.Squeezes[i].Column; c < len(widths) && widths[c] > 0 {
			widths[c] = min(natural[c], widths[c]+max(limit-totalWidth(widths), 0))
		}
	}
	return widths
}

// totalWidth returns the width of a line with such columns.
func totalWidth(widths []int) (n int) {
	for _, w := range widths {
		if w > 0 {
			n += w + gap
		}
	}
	return max(n-gap, 0)
}
