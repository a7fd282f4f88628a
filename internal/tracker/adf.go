package tracker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// node is a node of a text in the Atlassian Document Format, which is a tree.
type node struct {
	Type    string
	Text    string
	Content []node
	Marks   []struct {
		Type  string
		Attrs struct{ Href string }
	}
	Attrs struct {
		Level     int
		Language  string
		Text, URL string
		ShortName string
		State     string
		Order     int
	}
}

// maxDepth is the depth to which a document is read: what people write isn't nested deeper.
const maxDepth = 50

// toMarkdown converts a text from Jira to Markdown. The text is a document tree or, from old servers, a string, which is
// returned unchanged. Of unknown nodes the texts are kept.
func toMarkdown(raw json.RawMessage) string {
	var plain string
	if json.Unmarshal(raw, &plain) == nil {
		return plain
	}
	var doc node
	if json.Unmarshal(raw, &doc) != nil {
		return ""
	}
	return strings.TrimRight(doc.blocks(0), "\n")
}

// blocks returns the block-level content of a node.
func (n node) blocks(depth int) string {
	if depth > maxDepth {
		return ""
	}
	var b strings.Builder
	for i, c := range n.Content {
		s := c.block(i, n, depth+1)
		if s == "" {
			continue
		}
		b.WriteString(s)
		if !strings.HasSuffix(s, "\n") {
			b.WriteString("\n")
		}
		if c.Type != "listItem" && c.Type != "taskItem" && c.Type != "tableRow" {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (n node) block(index int, parent node, depth int) string {
	switch n.Type {
	case "paragraph":
		return n.inline(depth)
	case "heading":
		return strings.Repeat("#", min(max(n.Attrs.Level, 1), 6)) + " " + n.inline(depth)
	case "codeBlock":
		code := n.inline(depth)
		fence := "```"
		for strings.Contains(code, fence) {
			fence += "`"
		}
		return fence + n.Attrs.Language + "\n" + code + "\n" + fence
	case "blockquote", "panel":
		return prefixLines("> ", "> ", n.blocks(depth))
	case "rule":
		return "---"
	case "listItem":
		mark := "- "
		if parent.Type == "orderedList" {
			mark = fmt.Sprintf("%d. ", max(parent.Attrs.Order, 1)+index)
		}
		return prefixLines(mark, strings.Repeat(" ", len(mark)), n.blocks(depth))
	case "taskItem":
		return map[bool]string{true: "- [x] ", false: "- [ ] "}[n.Attrs.State == "DONE"] + n.inline(depth)
	case "tableRow":
		var cells []string
		for _, c := range n.Content {
			cells = append(cells, strings.Join(strings.Fields(c.blocks(depth)), " "))
		}
		row := "| " + strings.Join(cells, " | ") + " |"
		if index == 0 {
			row += "\n|" + strings.Repeat(" --- |", len(cells))
		}
		return row
	case "bulletList", "orderedList", "taskList", "table":
		return strings.TrimRight(n.blocks(depth), "\n") + "\n"
	case "mediaSingle", "mediaGroup", "media":
		return "(an attachment)"
	}
	if len(n.Content) > 0 && n.Text == "" {
		return strings.TrimRight(n.blocks(depth), "\n")
	}
	return n.span(depth)
}

// inline returns the inline content of a node.
func (n node) inline(depth int) string {
	if depth > maxDepth {
		return ""
	}
	var b strings.Builder
	for _, c := range n.Content {
		b.WriteString(c.span(depth + 1))
	}
	return b.String()
}

func (n node) span(depth int) string {
	switch n.Type {
	case "text":
		s := n.Text
		for _, m := range n.Marks {
			switch m.Type {
			case "code":
				s = "`" + s + "`"
			case "strong":
				s = "**" + s + "**"
			case "em":
				s = "*" + s + "*"
			case "strike":
				s = "~~" + s + "~~"
			case "link":
				if m.Attrs.Href != "" && m.Attrs.Href != n.Text {
					s = "[" + s + "](" + m.Attrs.Href + ")"
				}
			}
		}
		return s
	case "hardBreak":
		return "\n"
	case "emoji", "mention", "status", "date":
		return cmp.Or(n.Attrs.Text, n.Attrs.ShortName)
	case "inlineCard", "blockCard", "embedCard":
		return n.Attrs.URL
	}
	return n.inline(depth)
}

// prefixLines puts first before the first line of s and rest before the others.
func prefixLines(first, rest, s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		switch {
		case i == 0:
			lines[i] = first + l
		case l == "":
			lines[i] = strings.TrimRight(rest, " ")
		default:
			lines[i] = rest + l
		}
	}
	return strings.Join(lines, "\n")
}

// toDocument converts plain text to a document tree, with a paragraph for each paragraph and links for addresses.
func toDocument(text string) map[string]any {
	var list []any
	for _, p := range strings.Split(text, "\n\n") {
		var spans []any
		for i, word := range strings.Split(p, " ") {
			if i > 0 {
				spans = append(spans, map[string]any{"type": "text", "text": " "})
			}
			span := map[string]any{"type": "text", "text": word}
			if strings.HasPrefix(word, "https://") || strings.HasPrefix(word, "http://") {
				span["marks"] = []any{map[string]any{"type": "link", "attrs": map[string]any{"href": word}}}
			}
			if word != "" { // Jira rejects empty texts
				spans = append(spans, span)
			}
		}
		list = append(list, map[string]any{"type": "paragraph", "content": spans})
	}
	return map[string]any{"type": "doc", "version": 1, "content": list}
}
