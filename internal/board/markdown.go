package board

import (
	"bytes"
	"html/template"
	"strings"
	"sync"

	"github.com/yuin/goldmark"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// renderer makes HTML of Markdown. HTML in it is left out, and so are addresses that would run something. Its own extension
// for tables is not used: it makes 2,000 things when a program starts, whatever the command.
var renderer = sync.OnceValue(func() goldmark.Markdown { return goldmark.New() })

// maxMarkdown is the longest text that is laid out; what is longer is shown as it is.
const maxMarkdown = 512 << 10

// markdown lays out what agents and people wrote.
func markdown(source string) template.HTML {
	var out, text bytes.Buffer
	source = trellis.Visible(source)
	if len(source) > maxMarkdown {
		return template.HTML("<pre>" + template.HTMLEscapeString(source) + "</pre>")
	}
	lines := strings.SplitAfter(source, "\n")
	fenced := false
	for i := 0; i < len(lines); {
		rows := 0
		if !fenced {
			rows = tableRows(lines[i:])
		}
		if rows > 0 {
			convert(&out, text.Bytes())
			text.Reset()
			table(&out, lines[i:i+rows])
			i += rows
			continue
		}
		if start := strings.TrimSpace(lines[i]); strings.HasPrefix(start, "```") || strings.HasPrefix(start, "~~~") {
			fenced = !fenced
		}
		text.WriteString(lines[i])
		i++
	}
	convert(&out, text.Bytes())
	return template.HTML(out.String())
}

// convert lays out text without tables, or shows it as it is when that fails.
func convert(out *bytes.Buffer, source []byte) {
	var b bytes.Buffer
	if renderer().Convert(source, &b) != nil {
		b.Reset()
		b.WriteString("<pre>" + template.HTMLEscapeString(string(source)) + "</pre>")
	}
	out.Write(b.Bytes())
}

// ruler is the line below the head of a table.
var ruler = trellis.Pattern(`^\s*\|(\s*:?-+:?\s*\|)+\s*$`)

// tableRows is how many lines of a table, as GitHub has them, lines begin with.
func tableRows(lines []string) (n int) {
	if len(lines) < 2 || !isRow(lines[0]) || !ruler().MatchString(lines[1]) {
		return 0
	}
	for n < len(lines) && isRow(lines[n]) {
		n++
	}
	return n
}

func isRow(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "|") }

// table lays out the lines of a table, the second of which is its ruler.
func table(out *bytes.Buffer, lines []string) {
	out.WriteString("<table>")
	for i, line := range lines {
		if i == 1 {
			continue
		}
		tag := "td"
		if i == 0 {
			tag = "th"
		}
		out.WriteString("<tr>")
		for _, cell := range cells(line) {
			var b bytes.Buffer
			convert(&b, []byte(cell))
			out.WriteString("<" + tag + ">" + strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), "<p>"), "</p>") + "</" + tag + ">")
		}
		out.WriteString("</tr>")
	}
	out.WriteString("</table>\n")
}

// cells are those of a row. A bar behind a backslash is part of its cell.
func cells(line string) []string {
	const bar = "\x00" // which no visible text has
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	list := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i, cell := range list {
		list[i] = strings.TrimSpace(strings.ReplaceAll(cell, bar, "|"))
	}
	return list
}
