// Package plot draws numbers as SVG to be embedded in a page: bars, columns and lines, each also as a table. The SVG consists
// of shapes, classes and text only, without scripts and styles, so that a page may forbid both.
package plot

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Shape is how numbers are drawn.
type Shape int

const (
	Bars    Shape = iota // horizontal, one for each label, the series end to end
	Columns              // vertical, one for each label, the series stacked
	Lines                // one for each series, across the labels
)

// Chart has numbers and says how to draw them.
type Chart struct {
	ID     string // of the element; unique in a page
	Title  string
	About  string // describes the chart in a sentence
	Shape  Shape
	Labels []string
	Series []Series
	Format func(float64) string // formats a number; nil: its shortest form
	Top    float64              // end of the axis; 0: from the numbers
}

// Series has a number for each label. NaN means unknown.
type Series struct {
	Name   string
	Values []float64
}

// Figure is a drawing with its content as a table.
type Figure struct {
	ID, Title, About string
	SVG              template.HTML
	Head             []string
	Rows             [][]string
}

// Figure draws the chart.
func (c Chart) Figure() Figure {
	f := Figure{ID: c.ID, Title: c.Title, About: c.About, SVG: c.SVG(), Head: []string{""}}
	for _, s := range c.Series {
		f.Head = append(f.Head, s.Name)
	}
	for i, label := range c.Labels {
		row := []string{label}
		for _, s := range c.Series {
			row = append(row, c.format(s.value(i)))
		}
		f.Rows = append(f.Rows, row)
	}
	return f
}

// Sizes of drawings, in units of their view box, which is about as wide as a phone's page in CSS pixels.
const (
	width        = 360.0
	plotHeight   = 150.0 // of columns and lines, without legend and labels
	barHeight    = 20.0  // of a bar
	labelWidth   = 100.0 // width for the labels of bars
	axisWidth    = 44.0  // width for the numbers of an axis
	numberWidth  = 56.0  // width for the number behind a bar
	legendHeight = 18.0  // height of a line of the legend
)

// maxBars is how many bars are drawn at most; the table has all.
const maxBars = 15

// SVG draws the chart. Markup in its texts is escaped.
func (c Chart) SVG() template.HTML {
	d := &drawing{}
	top := d.legend(c.Series)
	height := top + plotHeight + 1.5*legendHeight
	if c.Shape == Bars {
		height = top + barHeight*float64(min(len(c.Labels), maxBars+1))
	}
	title, about := c.ID+"-title", c.ID+"-about"
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="plot" viewBox="0 0 %s %s" role="img" aria-labelledby="%s %s" xmlns="http://www.w3.org/2000/svg"><title id="%s">%s</title><desc id="%s">%s</desc>`,
		n(width), n(height), esc(title), esc(about), esc(title), esc(c.Title), esc(about), esc(c.About))
	switch {
	case len(c.Labels) == 0:
		d.text(width/2, top+plotHeight/2, "plot-none", "middle", "nothing yet")
	case c.Shape == Bars:
		c.drawBars(d, top)
	default:
		c.drawUpright(d, top)
	}
	b.WriteString(d.String() + "</svg>")
	return template.HTML(b.String())
}

// value returns the number for label i, NaN if there is none.
func (s Series) value(i int) float64 {
	if i >= len(s.Values) {
		return math.NaN()
	}
	return s.Values[i]
}

func (c Chart) format(v float64) string {
	switch {
	case math.IsNaN(v):
		return "unknown"
	case c.Format != nil:
		return c.Format(v)
	}
	return n(v)
}

// sum returns the sum of the known numbers for label i, and false if none is known.
func (c Chart) sum(i int) (all float64, known bool) {
	for _, s := range c.Series {
		if v := s.value(i); !math.IsNaN(v) {
			all, known = all+v, true
		}
	}
	return all, known
}

// axisMax returns the largest number that the axis has to show.
func (c Chart) axisMax() float64 {
	if c.Top > 0 {
		return c.Top
	}
	most := 0.0
	for i := range c.Labels {
		all, _ := c.sum(i)
		for _, s := range c.Series {
			if v := s.value(i); c.Shape == Lines && !math.IsNaN(v) {
				most = max(most, v)
			}
		}
		if c.Shape != Lines {
			most = max(most, all)
		}
	}
	return most
}

func (c Chart) drawBars(d *drawing, top float64) {
	most := max(c.axisMax(), math.SmallestNonzeroFloat64)
	for i, label := range c.Labels {
		y := top + barHeight*float64(i)
		if i == maxBars {
			d.text(labelWidth-6, y+barHeight-6, "plot-label", "end", fmt.Sprintf("%d more", len(c.Labels)-i))
			return
		}
		d.text(labelWidth-6, y+barHeight-6, "plot-label", "end", text.Clip(label, 15))
		x := labelWidth
		for k, s := range c.Series {
			v := s.value(i)
			if math.IsNaN(v) || v <= 0 {
				continue
			}
			w := v / most * (width - labelWidth - numberWidth)
			d.rect(k, x, y+3, w, barHeight-6, c.tooltip(label, s, v))
			x += w
		}
		all, known := c.sum(i)
		if !known {
			all = math.NaN()
		}
		d.text(x+4, y+barHeight-6, "plot-number", "start", c.format(all))
	}
}

func (c Chart) tooltip(label string, s Series, v float64) string {
	about := label + ": " + c.format(v)
	if len(c.Series) > 1 {
		about = label + ", " + s.Name + ": " + c.format(v)
	}
	return about
}

// drawUpright draws columns or lines above a horizontal axis.
func (c Chart) drawUpright(d *drawing, top float64) {
	ticks := axisTicks(c.axisMax())
	most := ticks[len(ticks)-1]
	bottom := top + plotHeight + legendHeight/2
	at := func(v float64) float64 { return bottom - v/most*plotHeight }
	for _, v := range ticks {
		d.line("plot-grid", axisWidth, at(v), width, at(v))
		d.text(axisWidth-5, at(v)+4, "plot-number", "end", c.format(v))
	}
	step := (width - axisWidth) / float64(len(c.Labels))
	for i, label := range c.Labels {
		if every := 1 + (len(c.Labels)-1)/4; i%every == 0 {
			d.text(axisWidth+step*(float64(i)+0.5), bottom+14, "plot-label", "middle", text.Clip(label, 11))
		}
	}
	if c.Shape == Lines {
		c.drawLines(d, step, at)
		return
	}
	for i, label := range c.Labels {
		y := bottom
		for k, s := range c.Series {
			v := s.value(i)
			if math.IsNaN(v) || v <= 0 {
				continue
			}
			h := v / most * plotHeight
			y -= h
			w := min(step*0.8, 40)
			d.rect(k, axisWidth+step*(float64(i)+0.5)-w/2, y, w, h, c.tooltip(label, s, v))
		}
	}
}

// drawLines draws each series as a line with a point for each number and gaps for unknown ones.
func (c Chart) drawLines(d *drawing, step float64, at func(float64) float64) {
	for k, s := range c.Series {
		var path strings.Builder
		pen := "M"
		for i := range c.Labels {
			v := s.value(i)
			if math.IsNaN(v) {
				pen = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%s %s", pen, n(axisWidth+step*(float64(i)+0.5)), n(at(v)))
			pen = "L"
		}
		d.path(k, path.String())
		for i, label := range c.Labels {
			if v := s.value(i); !math.IsNaN(v) {
				d.point(k, axisWidth+step*(float64(i)+0.5), at(v), c.tooltip(label, s, v))
			}
		}
	}
}

// axisTicks returns the numbers at an axis, from 0 to the first round one that is not below most.
func axisTicks(most float64) []float64 {
	if most <= 0 {
		return []float64{0, 1}
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/2)))
	step := unit
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if step = f * unit; step*4 >= most {
			break
		}
	}
	ticks := []float64{0}
	for ticks[len(ticks)-1] < most*(1-1e-9) {
		ticks = append(ticks, step*float64(len(ticks)))
	}
	return ticks
}

// drawing collects the shapes of a chart.
type drawing struct{ strings.Builder }

// legend draws the names of the series if there are several, and returns its height.
func (d *drawing) legend(series []Series) float64 {
	if len(series) < 2 {
		return 4
	}
	x, y := 0.0, 4.0
	for k, s := range series {
		w := 24 + 6.6*float64(text.Width(s.Name))
		if x+w > width {
			x, y = 0, y+legendHeight
		}
		d.rect(k, x, y, 10, 10, s.Name)
		d.text(x+14, y+9, "plot-label", "start", s.Name)
		x += w
	}
	return y + legendHeight + 4
}

// colourCount is the number of different colours for series.
const colourCount = 6

func (d *drawing) rect(k int, x, y, w, h float64, about string) {
	fmt.Fprintf(d, `<rect class="plot-%d" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`, k%colourCount, n(x), n(y), n(w), n(h), esc(about))
}

func (d *drawing) point(k int, x, y float64, about string) {
	fmt.Fprintf(d, `<circle class="plot-%d" cx="%s" cy="%s" r="3"><title>%s</title></circle>`, k%colourCount, n(x), n(y), esc(about))
}

func (d *drawing) path(k int, of string) {
	if of != "" {
		fmt.Fprintf(d, `<path class="plot-line plot-line-%d" d="%s"/>`, k%colourCount, of)
	}
}

func (d *drawing) line(class string, x, y, x2, y2 float64) {
	fmt.Fprintf(d, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, n(x), n(y), n(x2), n(y2))
}

func (d *drawing) text(x, y float64, class, anchor, s string) {
	fmt.Fprintf(d, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`, class, n(x), n(y), anchor, esc(s))
}

// n formats a number with few digits.
func n(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}

// esc escapes markup, and makes invisible characters visible.
func esc(s string) string {
	return template.HTMLEscapeString(trellis.Visible(strings.ToValidUTF8(s, "�")))
}
