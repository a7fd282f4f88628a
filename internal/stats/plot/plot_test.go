package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/stats/plot"
)

var hostile = []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "a\x00b\x1b[2J\u202e", strings.Repeat("很", 40), "]]>", "&lt;"}

// parsed returns the elements of a drawing with their attributes, and its texts.
func parsed(t *testing.T, svg string) (elements []xml.StartElement, texts string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, texts
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements = append(elements, token.Copy())
		case xml.CharData:
			texts += string(token) + "\n"
		}
	}
}

// A drawing has nothing that a strict page forbids: no script, no style, no address, and no element that comes from a text.
func TestSafe(t *testing.T) {
	allowed := map[string]bool{"svg": true, "title": true, "desc": true, "rect": true, "text": true, "line": true, "path": true, "circle": true}
	for _, shape := range []plot.Shape{plot.Bars, plot.Columns, plot.Lines} {
		c := plot.Chart{ID: hostile[1], Title: hostile[0], About: hostile[1], Shape: shape, Labels: hostile, Series: []plot.Series{
			{Name: hostile[0], Values: []float64{1, 2, math.NaN(), -1, math.MaxFloat64 / 1e10, 0}}, {Name: hostile[1], Values: []float64{3}}}}
		elements, texts := parsed(t, string(c.SVG()))
		for _, e := range elements {
			if !allowed[e.Name.Local] {
				t.Errorf("shape %d: there is an element %s", shape, e.Name.Local)
			}
			for _, a := range e.Attr {
				if name := a.Name.Local; name == "style" || strings.HasPrefix(name, "on") || name == "href" {
					t.Errorf("shape %d: %s has an attribute %s", shape, e.Name.Local, name)
				}
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("shape %d: %s has %s=%q", shape, e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
		if !strings.Contains(texts, hostile[0]) || strings.ContainsAny(texts, "\x1b\u202e") {
			t.Errorf("shape %d: got texts %q", shape, texts)
		}
	}
}

func TestShapes(t *testing.T) {
	values := []float64{10, 20, math.NaN()}
	for shape, want := range map[plot.Shape]struct{ rects, circles int }{plot.Bars: {2, 0}, plot.Columns: {2, 0}, plot.Lines: {0, 2}} {
		c := plot.Chart{ID: "x", Title: "Cost", About: "What it cost.", Shape: shape, Labels: []string{"a", "b", "c"}, Series: []plot.Series{{"cost", values}}}
		elements, texts := parsed(t, string(c.SVG()))
		rects, circles := 0, 0
		for _, e := range elements {
			switch e.Name.Local {
			case "rect":
				rects++
			case "circle":
				circles++
			}
		}
		if rects != want.rects || circles != want.circles {
			t.Errorf("shape %d: got %d rects, %d circles, want %+v", shape, rects, circles, want)
		}
		for _, text := range []string{"Cost\n", "What it cost.\n", "a: 10\n", "b: 20\n"} {
			if !strings.Contains(texts, text) {
				t.Errorf("shape %d: %q is not in %q", shape, text, texts)
			}
		}
		f := c.Figure()
		if got := f.Rows[2]; got[0] != "c" || got[1] != "unknown" {
			t.Errorf("got %q, want c unknown", got)
		}
	}
}

// A drawing of no numbers says so, and one of a single number is valid.
func TestEmpty(t *testing.T) {
	for _, shape := range []plot.Shape{plot.Bars, plot.Columns, plot.Lines} {
		if _, texts := parsed(t, string(plot.Chart{ID: "x", Shape: shape}.SVG())); !strings.Contains(texts, "nothing yet") {
			t.Errorf("shape %d: got %q", shape, texts)
		}
		parsed(t, string(plot.Chart{ID: "x", Shape: shape, Labels: []string{"a"}, Series: []plot.Series{{"n", []float64{0}}}}.SVG()))
	}
}
