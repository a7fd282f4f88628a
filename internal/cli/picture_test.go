package cli

import (
	"cmp"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
)

// look is how a character is shown on a terminal.
type look struct {
	colour        int // 30 to 37, 90 to 97; 0: the default of text
	ground        int // 40 to 47, 100 to 107; 0: the default of the terminal
	bold, dim, on bool
}

type cell struct {
	letter rune
	look   look
}

// drawing is the content of a terminal, including lines that were scrolled away.
type drawing struct {
	width    int
	rows     [][]cell
	at       []float64 // when each row was last changed
	gone     []overwritten
	row, col int
	look     look
}

// overwritten is a row that was shown only for a time.
type overwritten struct {
	cells    []cell
	at       int // index of the row
	from, to float64
}

// controls matches the parts of a terminal's input: escape sequences and characters.
var controls = regexp.MustCompile(`\x1b\[([0-9;?]*)([A-Za-z])|\x1b.|[\s\S]`)

// write draws what a program wrote at a time. Escape sequences that change no character are ignored.
func (d *drawing) write(text string, now float64) {
	for _, m := range controls.FindAllStringSubmatch(text, -1) {
		switch n, _ := strconv.Atoi(m[1]); {
		case m[2] == "m":
			d.style(m[1])
		case m[2] == "A":
			d.row = max(0, d.row-max(n, 1))
		case m[2] == "J":
			for i := d.row; i < len(d.rows); i++ {
				d.gone = append(d.gone, overwritten{d.rows[i], i, d.at[i], now})
			}
			d.rows, d.at = d.rows[:min(len(d.rows), d.row)], d.at[:min(len(d.at), d.row)]
		case m[2] == "K":
			d.line(now)
			d.rows[d.row] = d.rows[d.row][:min(len(d.rows[d.row]), d.col)]
		case m[0] == "\r":
			d.col = 0
		case m[0] == "\n":
			d.line(now)
			d.row++
		case !strings.HasPrefix(m[0], "\x1b"):
			d.put([]rune(m[0])[0], now)
		}
	}
}

// line adds rows up to the current one.
func (d *drawing) line(now float64) {
	for len(d.rows) <= d.row {
		d.rows, d.at = append(d.rows, nil), append(d.at, now)
	}
}

func (d *drawing) put(letter rune, now float64) {
	if d.col == d.width {
		d.row, d.col = d.row+1, 0
	}
	d.line(now)
	for len(d.rows[d.row]) <= d.col {
		d.rows[d.row] = append(d.rows[d.row], cell{letter: ' '})
	}
	d.rows[d.row][d.col], d.at[d.row] = cell{letter, d.look}, now
	d.col++
}

// style sets the look of the characters that follow.
func (d *drawing) style(codes string) {
	for code := range strings.SplitSeq(codes, ";") {
		switch n, _ := strconv.Atoi(code); {
		case n == 0:
			d.look = look{}
		case n == 1:
			d.look.bold = true
		case n == 2:
			d.look.dim = true
		case n == 7, n == 27:
			d.look.on = n == 7
		case n == 22:
			d.look.bold, d.look.dim = false, false
		case n >= 30 && n <= 39, n >= 90 && n <= 97:
			if d.look.colour = n; n == 39 {
				d.look.colour = 0
			}
		case n >= 40 && n <= 49, n >= 100:
			d.look.ground = n
			if n == 49 {
				d.look.ground = 0
			}
		}
	}
}

// The size of a character, and the colours of a dark terminal.
const (
	wide, high = 8.4, 18.0
	paper, ink = "#16181d", "#d5d8de"
)

var paints = []string{"#5c6370", "#e06c75", "#8fc379", "#d9b36c", "#61afef", "#c678dd", "#56b6c2", "#d5d8de"}

func (l look) paints() (letters, ground string) {
	letters = ink
	if l.colour > 0 {
		letters = paints[l.colour%10]
	}
	if l.ground > 0 {
		ground = paints[l.ground%10]
	}
	if l.on {
		letters, ground = cmp.Or(ground, paper), letters
	}
	return letters, ground
}

// picture returns the drawing as an SVG with this many rows. If played, rows appear when they were written, and earlier ones scroll away; a
// viewer without animation shows the first rows.
func (d *drawing) picture(rows int, about string, played bool) string {
	width, height := float64(d.width)*wide+24, float64(rows)*high+24
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" role=\"img\" aria-label=\"%s\">\n", width, height, width, html.EscapeString(about))
	fmt.Fprintf(&b, "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"%s\"/>\n<svg x=\"12\" y=\"12\" width=\"%.0f\" height=\"%.0f\">\n", paper, width-24, height-24)
	fmt.Fprintf(&b, "<g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"14\" fill=\"%s\">\n", ink)
	if played {
		b.WriteString(d.scrolls(rows))
	}
	for i, row := range d.rows {
		if len(row) == 0 {
			continue
		}
		b.WriteString("<g>")
		if played {
			fmt.Fprintf(&b, "<set attributeName=\"visibility\" to=\"hidden\" begin=\"0s\" end=\"%.2fs\"/>", d.at[i])
		}
		paintRow(&b, row, float64(i)*high)
		b.WriteString("</g>\n")
	}
	for _, g := range d.gone {
		if played && g.to > g.from {
			fmt.Fprintf(&b, "<g visibility=\"hidden\"><set attributeName=\"visibility\" to=\"visible\" begin=\"%.2fs\" end=\"%.2fs\"/>", g.from, g.to)
			paintRow(&b, g.cells, float64(g.at)*high)
			b.WriteString("</g>\n")
		}
	}
	b.WriteString("</g>\n</svg>\n</svg>\n")
	return b.String()
}

// scrolls moves the rows up when there are more than fit.
func (d *drawing) scrolls(rows int) string {
	written := slices.Clone(d.gone)
	for i, at := range d.at {
		written = append(written, overwritten{at: i, from: at})
	}
	slices.SortFunc(written, func(a, b overwritten) int { return cmp.Or(cmp.Compare(a.from, b.from), a.at-b.at) })
	end := written[len(written)-1].from + 0.1
	values, times, top := []string{"0 0"}, []string{"0"}, 0
	for _, w := range written {
		if w.at-rows+1 <= top {
			continue
		}
		top = w.at - rows + 1
		value, at := fmt.Sprintf("0 %.0f", -float64(top)*high), fmt.Sprintf("%.4f", w.from/end)
		if n := len(times) - 1; times[n] == at {
			values[n] = value
		} else {
			values, times = append(values, value), append(times, at)
		}
	}
	return fmt.Sprintf("<animateTransform attributeName=\"transform\" type=\"translate\" calcMode=\"discrete\" dur=\"%.2fs\" fill=\"freeze\" values=\"%s\" keyTimes=\"%s\"/>\n",
		end, strings.Join(values, ";"), strings.Join(times, ";"))
}

// paintRow draws a row. Neighbouring characters with the same look are one text.
func paintRow(b *strings.Builder, row []cell, top float64) {
	for from := 0; from < len(row); {
		to, text := from, strings.Builder{}
		for ; to < len(row) && row[to].look == row[from].look; to++ {
			text.WriteRune(row[to].letter)
		}
		letters, ground := row[from].look.paints()
		x, w := float64(from)*wide, float64(to-from)*wide
		if ground != "" {
			fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\"/>", x, top, w, high, ground)
		}
		if strings.TrimSpace(text.String()) != "" {
			fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" textLength=\"%.1f\"", x, top+13.5, w)
			if letters != ink {
				fmt.Fprintf(b, " fill=\"%s\"", letters)
			}
			if row[from].look.bold {
				b.WriteString(" font-weight=\"bold\"")
			}
			if row[from].look.dim {
				b.WriteString(" opacity=\"0.6\"")
			}
			fmt.Fprintf(b, ">%s</text>", strings.ReplaceAll(html.EscapeString(text.String()), " ", "\u00a0")) // browsers collapse other spaces
		}
		from = to
	}
}

// keepPicture compares a picture with the one in docs. TRELLIS_UPDATE_DOCS=1 writes it.
func keepPicture(t *testing.T, path, picture string) {
	t.Helper()
	if os.Getenv("TRELLIS_UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff.Diff("docs", was, "now", []byte(picture)); d != nil {
		t.Errorf("%s is not what is shown now; TRELLIS_UPDATE_DOCS=1 makes another:\n%s", filepath.Base(path), d)
	}
}

// A drawing has no overwritten text, keeps scrolled lines, and knows when each row was last changed.
func TestDrawing(t *testing.T) {
	d := &drawing{width: 10}
	d.write("one\r\n\x1b[32mworks 1\x1b[0m\r\n", 1)
	d.write("\x1b[1A\x1b[Jdone: a long <line>\r\n", 2)
	var rows []string
	for _, row := range d.rows {
		text := ""
		for _, c := range row {
			text += string(c.letter)
		}
		rows = append(rows, text)
	}
	if got, want := fmt.Sprintf("%q %v", rows, d.at), `["one" "done: a lo" "ng <line>"] [1 2 2]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	picture := d.picture(2, "a test", true)
	for _, want := range []string{"ng\u00a0&lt;line&gt;</text>", `begin="0s" end="2.00s"`, `values="0 0;0 -18"`} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture has no %s:\n%s", want, picture)
		}
	}
}
