package yamledit

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (d *document) set(path []string, v Value) ([]byte, error) {
	if d.root == nil {
		return d.setFirstKey(path, v)
	}
	m := d.root
	for i, key := range path {
		if m.Kind != yaml.MappingNode {
			return nil, ErrLayout
		}
		at := field(m, key)
		if at < 0 {
			return d.addKey(m, path[i:], v)
		}
		k, child := m.Content[at], m.Content[at+1]
		rest := path[i+1:]
		switch {
		case len(rest) == 0:
			return d.replaceValue(m, k, child, v)
		case isEmpty(child) && isFlow(m):
			to, err := d.colonEnd(k)
			return d.apply(err, splice{to, to, " " + d.formatFlow(rest, v)})
		case isEmpty(child):
			return d.insertBelow(k, func(margin string) string { return d.formatBlock(rest, v, margin+d.indent()) })
		case child.Kind == yaml.ScalarNode && child.Tag == "!!null":
			return d.replaceText(m, child, d.formatFlow(rest, v))
		}
		m = child
	}
	return nil, ErrLayout
}

// setFirstKey inserts the first key of a document.
func (d *document) setFirstKey(path []string, v Value) ([]byte, error) {
	text := d.formatBlock(path, v, "")
	if n := d.exampleLine(path[0]); n > 0 {
		return d.apply(nil, splice{d.lineEnd(n), d.lineEnd(n), d.eol + text})
	}
	if len(d.line(len(d.lines))) == 0 { // the last line is terminated
		return d.apply(nil, splice{len(d.src), len(d.src), text + d.eol})
	}
	return d.apply(nil, splice{len(d.src), len(d.src), d.eol + text})
}

// exampleLine returns the last line of a comment that shows a key of the outermost mapping, as in "#limits:"; 0 if there is none.
func (d *document) exampleLine(key string) int {
	if !d.belowComment {
		return 0
	}
	found := 0
	for n := range d.lines {
		line := bytes.TrimRight(d.line(n+1), "\r\n")
		switch {
		case found == 0 && (bytes.HasPrefix(line, []byte("#"+key+":")) || bytes.HasPrefix(line, []byte("# "+key+":"))):
			found = n + 1
		case found == n && found > 0 && bytes.HasPrefix(line, []byte("#  ")):
			found = n + 1
		}
	}
	return found
}

// addKey inserts a key that a mapping does not have.
func (d *document) addKey(m *yaml.Node, path []string, v Value) ([]byte, error) {
	if isFlow(m) {
		return d.addFlowKey(m, path, v)
	}
	margin, err := d.margin(m.Content[0])
	if err != nil {
		return nil, err
	}
	last := 0
	if m == d.root {
		last = d.exampleLine(path[0])
	}
	if last == 0 {
		to, err := d.end(m, m.Column)
		if err != nil {
			return nil, err
		}
		last = d.lineOf(to)
	}
	return d.apply(nil, splice{d.lineEnd(last), d.lineEnd(last), d.eol + d.formatBlock(path, v, margin)})
}

func (d *document) addFlowKey(m *yaml.Node, path []string, v Value) ([]byte, error) {
	text := strings.TrimSuffix(strings.TrimPrefix(d.formatFlow(path, v), "{"), "}")
	if len(m.Content) == 0 {
		at, err := d.start(m)
		return d.apply(err, splice{at + 1, at + 1, text})
	}
	to, err := d.entryEnd(m, len(m.Content)-2)
	return d.apply(err, splice{to, to, ", " + text})
}

// entryEnd returns the offset at which a key and its value end.
func (d *document) entryEnd(m *yaml.Node, at int) (int, error) {
	if !isEmpty(m.Content[at+1]) {
		return d.end(m.Content[at+1], m.Column)
	}
	to, err := d.colonEnd(m.Content[at])
	if err != nil && isFlow(m) { // {key}
		return d.end(m.Content[at], 0)
	}
	return to, err
}

// replaceValue replaces the value of a key.
func (d *document) replaceValue(m, key, old *yaml.Node, v Value) ([]byte, error) {
	inBlock := old.Kind == yaml.SequenceNode && !isFlow(old)
	switch {
	case isEmpty(old) && v.isList && len(v.list) > 0 && !isFlow(m):
		return d.insertBelow(key, func(margin string) string { return d.formatItems(v.list, margin+d.indent()) })
	case isEmpty(old):
		to, err := d.colonEnd(key)
		return d.apply(err, splice{to, to, " " + v.formatInline(0, isFlow(m))})
	case inBlock && v.isList && len(v.list) == 0:
		return d.emptyList(key, old)
	case inBlock && v.isList:
		return d.setItems(blockList{d, key, old}, v.list)
	case old.Kind == yaml.SequenceNode && v.isList && len(v.list) > 0 && len(old.Content) > 0:
		return d.setItems(flowList{d, old}, v.list)
	case old.Kind == yaml.MappingNode && !isFlow(old), inBlock:
		from, err := d.colonEnd(key)
		if err != nil {
			return nil, err
		}
		to, err := d.end(old, m.Column)
		return d.apply(err, splice{from, to, " " + v.formatInline(0, isFlow(m))})
	}
	style := yaml.Style(0)
	if old.Kind == yaml.ScalarNode && old.ShortTag() == "!!str" {
		style = old.Style
	}
	return d.replaceText(m, old, v.formatInline(style, isFlow(m)))
}

// replaceText replaces the text of a value.
func (d *document) replaceText(m, old *yaml.Node, text string) ([]byte, error) {
	from, err := d.start(old)
	if err != nil {
		return nil, err
	}
	to, err := d.end(old, m.Column)
	return d.apply(err, splice{from, to, text})
}

// insertBelow inserts lines below the line of a key.
func (d *document) insertBelow(key *yaml.Node, text func(margin string) string) ([]byte, error) {
	margin, err := d.margin(key)
	if err != nil {
		return nil, err
	}
	to := d.lineEnd(key.Line)
	return d.apply(nil, splice{to, to, d.eol + text(margin)})
}

func (d *document) indent() string { return strings.Repeat(" ", d.step) }

// formatBlock formats a key and its value on lines of their own.
func (d *document) formatBlock(path []string, v Value, margin string) string {
	key := margin + quoteText(path[0], 0, true) + ":"
	switch {
	case len(path) > 1:
		return key + d.eol + d.formatBlock(path[1:], v, margin+d.indent())
	case v.isList && len(v.list) > 0:
		return key + d.eol + d.formatItems(v.list, margin+d.indent())
	}
	return key + " " + v.formatInline(0, false)
}

func (d *document) formatItems(list []string, margin string) string {
	var lines []string
	for _, s := range list {
		lines = append(lines, margin+"- "+quoteText(s, 0, false))
	}
	return strings.Join(lines, d.eol)
}

func (d *document) formatFlow(path []string, v Value) string {
	value := ""
	if len(path) > 1 {
		value = d.formatFlow(path[1:], v)
	} else {
		value = v.formatInline(0, true)
	}
	return "{" + quoteText(path[0], 0, true) + ": " + value + "}"
}
