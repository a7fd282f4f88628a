package yamledit

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// start returns the offset at which a node begins in the text.
func (d *document) start(n *yaml.Node) (int, error) {
	if n.Line < 1 || n.Line > len(d.lines) || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return 0, ErrLayout
	}
	at := d.lines[n.Line-1]
	for range n.Column - 1 {
		if at >= len(d.src) {
			return 0, ErrLayout
		}
		_, size := utf8.DecodeRune(d.src[at:])
		at += size
	}
	return at, nil
}

// end returns the offset at which a node ends. Block scalars end with their last line that is indented more than column.
func (d *document) end(n *yaml.Node, column int) (int, error) {
	at, err := d.start(n)
	if err != nil {
		return 0, err
	}
	switch {
	case n.Kind == yaml.AliasNode:
		return d.literalEnd(at, "*"+n.Value)
	case n.Kind == yaml.ScalarNode:
		return d.scalarEnd(n, at, column)
	case isFlow(n):
		return d.flowEnd(n, at)
	case len(n.Content) == 0:
		return 0, ErrLayout
	}
	last := n.Content[len(n.Content)-1]
	if isEmpty(last) {
		if n.Kind == yaml.SequenceNode {
			return 0, ErrLayout
		}
		return d.colonEnd(n.Content[len(n.Content)-2])
	}
	return d.end(last, n.Column)
}

func (d *document) literalEnd(at int, text string) (int, error) {
	if !bytes.HasPrefix(d.src[at:], []byte(text)) {
		return 0, ErrLayout
	}
	return at + len(text), nil
}

var (
	doubleQuoted = trellis.Pattern(`^"(?:[^"\\]|\\(?s:.))*"`)
	singleQuoted = trellis.Pattern(`^'(?:[^']|'')*'`)
)

func (d *document) scalarEnd(n *yaml.Node, at, column int) (int, error) {
	size := 0
	switch n.Style {
	case yaml.DoubleQuotedStyle:
		size = len(doubleQuoted().Find(d.src[at:]))
	case yaml.SingleQuotedStyle:
		size = len(singleQuoted().Find(d.src[at:]))
	case yaml.LiteralStyle, yaml.FoldedStyle:
		return d.blockEnd(n, column), nil
	case 0:
		return d.plainEnd(n, at)
	}
	if size == 0 {
		return 0, ErrLayout
	}
	return at + size, nil
}

// plainEnd returns the end of unquoted text, which may span several lines.
func (d *document) plainEnd(n *yaml.Node, at int) (int, error) {
	for _, r := range n.Value {
		if unicode.IsSpace(r) {
			continue
		}
		for at < len(d.src) && strings.ContainsRune(" \t\r\n", rune(d.src[at])) {
			at++
		}
		if got, size := utf8.DecodeRune(d.src[at:]); got != r {
			return 0, ErrLayout
		} else {
			at += size
		}
	}
	return at, nil
}

// blockEnd returns the end of the last line of a literal or folded text.
func (d *document) blockEnd(n *yaml.Node, column int) int {
	last := n.Line
	for l := n.Line + 1; l <= len(d.lines); l++ {
		line := d.line(l)
		words := bytes.TrimLeft(line, " ")
		if len(bytes.TrimSpace(words)) == 0 {
			continue
		}
		if len(line)-len(words) < column {
			break
		}
		last = l
	}
	return d.lineEnd(last)
}

// flowEnd returns the offset at which a value in brackets ends.
func (d *document) flowEnd(n *yaml.Node, at int) (int, error) {
	at++
	if len(n.Content) > 0 {
		last := n.Content[len(n.Content)-1]
		var err error
		if isEmpty(last) && n.Kind == yaml.MappingNode {
			last = n.Content[len(n.Content)-2]
		}
		if at, err = d.end(last, 0); err != nil {
			return 0, err
		}
	}
	for ; at < len(d.src); at++ {
		switch c := d.src[at]; c {
		case ']', '}':
			return at + 1, nil
		case '#':
			if i := bytes.IndexByte(d.src[at:], '\n'); i >= 0 {
				at += i
			}
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return 0, ErrLayout
		}
	}
	return 0, ErrLayout
}

// colonEnd returns the offset after the colon of a key.
func (d *document) colonEnd(key *yaml.Node) (int, error) {
	at, err := d.end(key, 0)
	if err != nil || key.Kind != yaml.ScalarNode {
		return 0, ErrLayout
	}
	for at < len(d.src) && (d.src[at] == ' ' || d.src[at] == '\t') {
		at++
	}
	return d.literalEnd(at, ":")
}

// line returns a line by its number, with its line end.
func (d *document) line(n int) []byte {
	to := len(d.src)
	if n < len(d.lines) {
		to = d.lines[n]
	}
	return d.src[d.lines[n-1]:to]
}

// lineEnd returns the offset at which the text of a line ends, before its line end.
func (d *document) lineEnd(n int) int {
	return d.lines[n-1] + len(bytes.TrimRight(d.line(n), "\r\n"))
}

// lineOf returns the number of the line that contains an offset; the offset after a line's last character belongs to it.
func (d *document) lineOf(at int) int {
	for n := len(d.lines); n > 1; n-- {
		if d.lines[n-1] <= at {
			return n
		}
	}
	return 1
}

// margin returns the text left of a node on its line, which must be white space.
func (d *document) margin(n *yaml.Node) (string, error) {
	at, err := d.start(n)
	if err != nil {
		return "", err
	}
	margin := string(d.src[d.lines[n.Line-1]:at])
	if strings.Trim(margin, " ") != "" {
		return "", ErrLayout
	}
	return margin, nil
}

// removeLines removes lines, and the line end before them, so that exactly what Set inserted is removed.
func (d *document) removeLines(first, last int) splice {
	if first > 1 {
		return splice{d.lineEnd(first - 1), d.lineEnd(last), ""}
	}
	to := len(d.src)
	if last < len(d.lines) {
		to = d.lines[last]
	}
	return splice{d.lines[0], to, ""}
}
