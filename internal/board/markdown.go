package board

import (
	"bytes"
	"html/template"
	"strings"
	"sync"

	"github.com/yuin/goldmark"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// renderer renders Markdown as HTML. It drops HTML in the source, and addresses that would run something. The extension
// of goldmark for tables is not used: it allocates 2,000 objects at the start of a program, whatever the command.
var renderer = sync.OnceValue(func() goldmark.Markdown { return goldmark.New() })

// maxMarkdown is the size of the longest text that is rendered, in bytes; a longer one is shown as it is.
const maxMarkdown = 512 << 10

// markdown renders what agents and people wrote.
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

// convert renders text without tables, or shows it as it is if that fails.
func convert(out *bytes.Buffer, source []byte) {
	var b bytes.Buffer
	if renderer().Convert(source, &b) != nil {
		b.Reset()
		b.WriteString("<pre>" + template.HTMLEscapeString(string(source)) + "</pre>")
	}
	out.Write(b.Bytes())
}

// ruler matches the line below the head of a table.
var ruler = trellis.Pattern(`^\s*\|(\s*:?-+:?\s*\|)+\s*$`)

// tableRows returns how many of the first lines are a table, in the form that GitHub has.
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

// table renders the lines of a table, the second of which is its ruler.
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

// cells returns the cells of a row. A bar after a backslash is part of its cell.
func cells(line string) []string {
	const bar = "\x00" // which no visible text has
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	list := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i, cell := range list {
		list[i] = strings.TrimSpace(strings.ReplaceAll(cell, bar, "|"))
	}
	return list
}
