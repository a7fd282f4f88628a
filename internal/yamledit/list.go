package yamledit

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// layout is the layout of a list's items in a text.
type layout interface {
	node() *yaml.Node
	quote(s string, style yaml.Style) string
	// removeItem removes item n, which follows items that stay or is the first of those that are removed.
	removeItem(n int) (splice, error)
	// insertItems inserts items after item n, or before all if n is -1.
	insertItems(n int, list []string) (splice, error)
}

// setItems sets the items of a list. Items that stay keep their lines, with their comments and quotes.
func (d *document) setItems(l layout, want []string) ([]byte, error) {
	have := l.node().Content
	same := func(i, j int) bool {
		return have[i].Kind == yaml.ScalarNode && have[i].ShortTag() == "!!str" && have[i].Value == want[j]
	}
	head := 0
	for head < len(have) && head < len(want) && same(head, head) {
		head++
	}
	tail := 0
	for tail < len(have)-head && tail < len(want)-head && same(len(have)-1-tail, len(want)-1-tail) {
		tail++
	}
	var list []splice
	at := head
	for ; at < len(have)-tail && at < len(want)-tail; at++ {
		from, err := d.start(have[at])
		if err != nil {
			return nil, err
		}
		to, err := d.end(have[at], l.node().Column)
		if err != nil || have[at].Kind != yaml.ScalarNode {
			return nil, ErrLayout
		}
		list = append(list, splice{from, to, l.quote(want[at], have[at].Style)})
	}
	for n := at; n < len(have)-tail; n++ {
		s, err := l.removeItem(n)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if more := want[at : len(want)-tail]; len(more) > 0 {
		s, err := l.insertItems(at-1, more)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return d.apply(nil, list...)
}

// flowList is a list of the form [a, b].
type flowList struct {
	d    *document
	list *yaml.Node
}

func (b flowList) node() *yaml.Node                        { return b.list }
func (b flowList) quote(s string, style yaml.Style) string { return quoteText(s, style, true) }

func (b flowList) removeItem(n int) (splice, error) {
	from, err := b.d.start(b.list.Content[n])
	if err != nil {
		return splice{}, err
	}
	if n+1 < len(b.list.Content) {
		to, err := b.d.start(b.list.Content[n+1])
		return splice{from, to, ""}, err
	}
	to, err := b.d.end(b.list.Content[n], 0)
	if err == nil && n > 0 {
		from, err = b.d.end(b.list.Content[n-1], 0)
	}
	return splice{from, to, ""}, err
}

func (b flowList) insertItems(n int, list []string) (splice, error) {
	var all []string
	for _, s := range list {
		all = append(all, b.quote(s, 0))
	}
	text := strings.Join(all, ", ")
	if n < 0 {
		at, err := b.d.start(b.list.Content[0])
		return splice{at, at, text + ", "}, err
	}
	at, err := b.d.end(b.list.Content[n], 0)
	return splice{at, at, ", " + text}, err
}

// blockList is a list with one item per line.
type blockList struct {
	d         *document
	key, list *yaml.Node
}

func (l blockList) node() *yaml.Node                        { return l.list }
func (l blockList) quote(s string, style yaml.Style) string { return quoteText(s, style, false) }

func (l blockList) removeItem(n int) (splice, error) {
	item := l.list.Content[n]
	if _, err := l.margin(n); err != nil {
		return splice{}, err
	}
	to, err := l.d.end(item, l.list.Column)
	return l.d.removeLines(item.Line, l.d.lineOf(to)), err
}

// margin returns the text left of the dash of an item.
func (l blockList) margin(n int) (string, error) {
	at, err := l.d.start(l.list.Content[n])
	if err != nil {
		return "", err
	}
	left := string(l.d.src[l.d.lines[l.list.Content[n].Line-1]:at])
	if margin, dash := strings.CutSuffix(strings.TrimRight(left, " "), "-"); dash && strings.Trim(margin, " ") == "" {
		return margin, nil
	}
	return "", ErrLayout
}

func (l blockList) insertItems(n int, list []string) (splice, error) {
	margin, err := l.margin(max(n, 0))
	if err != nil {
		return splice{}, err
	}
	line := l.key.Line
	if n >= 0 {
		to, err := l.d.end(l.list.Content[n], l.list.Column)
		if err != nil {
			return splice{}, err
		}
		line = l.d.lineOf(to)
	}
	at := l.d.lineEnd(line)
	return splice{at, at, l.d.eol + l.d.formatItems(list, margin)}, nil
}

// emptyList removes all items of a list with one item per line.
func (d *document) emptyList(key, list *yaml.Node) ([]byte, error) {
	var all []splice
	for n := range list.Content {
		s, err := blockList{d, key, list}.removeItem(n)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	at, err := d.colonEnd(key)
	return d.apply(err, append(all, splice{at, at, " []"})...) // last, as a removed item may begin at the same offset
}
