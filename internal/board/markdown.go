package board

import (
	"bytes"
	"html/template"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// renderer makes HTML of Markdown. HTML in it is left out, and so are addresses that would run something.
var renderer = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList))
})

// maxMarkdown is the longest text that is laid out; what is longer is shown as it is.
const maxMarkdown = 512 << 10

// markdown lays out what agents and people wrote.
func markdown(source string) template.HTML {
	var b bytes.Buffer
	source = trellis.Visible(source)
	if len(source) > maxMarkdown || renderer().Convert([]byte(source), &b) != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(source) + "</pre>")
	}
	return template.HTML(b.String())
}
