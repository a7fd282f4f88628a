package yamledit

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (d *document) set(path []string, v Value) ([]byte, error) {
	if d.root == nil {
		return d.begin(path, v)
	}
	m := d.root
	for i, key := range path {
		if m.Kind != yaml.MappingNode {
			return nil, ErrLayout
		}
		at := field(m, key)
		if at < 0 {
			return d.add(m, path[i:], v)
		}
		k, child := m.Content[at], m.Content[at+1]
		rest := path[i+1:]
		switch {
		case len(rest) == 0:
			return d.replace(m, k, child, v)
		case nothing(child) && flow(m):
			to, err := d.colon(k)
			return d.with(err, splice{to, to, " " + d.braces(rest, v)})
		case nothing(child):
			return d.below(k, func(margin string) string { return d.block(rest, v, margin+d.space()) })
		case child.Kind == yaml.ScalarNode && child.Tag == "!!null":
			return d.inPlace(m, child, d.braces(rest, v))
		}
		m = child
	}
	return nil, ErrLayout
}

// begin inserts the first key of a document.
func (d *document) begin(path []string, v Value) ([]byte, error) {
	text := d.block(path, v, "")
	if n := d.shown(path[0]); n > 0 {
		return d.with(nil, splice{d.lineEnd(n), d.lineEnd(n), d.eol + text})
	}
	if len(d.line(len(d.lines))) == 0 { // the last line is terminated
		return d.with(nil, splice{len(d.src), len(d.src), text + d.eol})
	}
	return d.with(nil, splice{len(d.src), len(d.src), d.eol + text})
}

// shown returns the last line of a comment that shows a key of the outermost mapping, as in "#limits:"; 0 if there is none.
func (d *document) shown(key string) int {
	if !d.beside {
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

// add inserts a key that a mapping does not have.
func (d *document) add(m *yaml.Node, path []string, v Value) ([]byte, error) {
	if flow(m) {
		return d.addFlow(m, path, v)
	}
	margin, err := d.margin(m.Content[0])
	if err != nil {
		return nil, err
	}
	last := 0
	if m == d.root {
		last = d.shown(path[0])
	}
	if last == 0 {
		to, err := d.end(m, m.Column)
		if err != nil {
			return nil, err
		}
		last = d.lineOf(to)
	}
	return d.with(nil, splice{d.lineEnd(last), d.lineEnd(last), d.eol + d.block(path, v, margin)})
}

func (d *document) addFlow(m *yaml.Node, path []string, v Value) ([]byte, error) {
	text := strings.TrimSuffix(strings.TrimPrefix(d.braces(path, v), "{"), "}")
	if len(m.Content) == 0 {
		at, err := d.start(m)
		return d.with(err, splice{at + 1, at + 1, text})
	}
	to, err := d.entryEnd(m, len(m.Content)-2)
	return d.with(err, splice{to, to, ", " + text})
}

// entryEnd returns the offset at which a key and its value end.
func (d *document) entryEnd(m *yaml.Node, at int) (int, error) {
	if !nothing(m.Content[at+1]) {
		return d.end(m.Content[at+1], m.Column)
	}
	to, err := d.colon(m.Content[at])
	if err != nil && flow(m) { // {key}
		return d.end(m.Content[at], 0)
	}
	return to, err
}

// replace replaces the value of a key.
func (d *document) replace(m, key, old *yaml.Node, v Value) ([]byte, error) {
	inBlock := old.Kind == yaml.SequenceNode && !flow(old)
	switch {
	case nothing(old) && v.many && len(v.list) > 0 && !flow(m):
		return d.below(key, func(margin string) string { return d.items(v.list, margin+d.space()) })
	case nothing(old):
		to, err := d.colon(key)
		return d.with(err, splice{to, to, " " + v.inline(0, flow(m))})
	case inBlock && v.many && len(v.list) == 0:
		return d.emptied(key, old)
	case inBlock && v.many:
		return d.listed(lines{d, key, old}, v.list)
	case old.Kind == yaml.SequenceNode && v.many && len(v.list) > 0 && len(old.Content) > 0:
		return d.listed(brackets{d, old}, v.list)
	case old.Kind == yaml.MappingNode && !flow(old), inBlock:
		from, err := d.colon(key)
		if err != nil {
			return nil, err
		}
		to, err := d.end(old, m.Column)
		return d.with(err, splice{from, to, " " + v.inline(0, flow(m))})
	}
	style := yaml.Style(0)
	if old.Kind == yaml.ScalarNode && old.ShortTag() == "!!str" {
		style = old.Style
	}
	return d.inPlace(m, old, v.inline(style, flow(m)))
}

// inPlace replaces the text of a value.
func (d *document) inPlace(m, old *yaml.Node, text string) ([]byte, error) {
	from, err := d.start(old)
	if err != nil {
		return nil, err
	}
	to, err := d.end(old, m.Column)
	return d.with(err, splice{from, to, text})
}

// below inserts lines below the line of a key.
func (d *document) below(key *yaml.Node, text func(margin string) string) ([]byte, error) {
	margin, err := d.margin(key)
	if err != nil {
		return nil, err
	}
	to := d.lineEnd(key.Line)
	return d.with(nil, splice{to, to, d.eol + text(margin)})
}

func (d *document) space() string { return strings.Repeat(" ", d.step) }

// block formats a key and its value on lines of their own.
func (d *document) block(path []string, v Value, margin string) string {
	key := margin + quoted(path[0], 0, true) + ":"
	switch {
	case len(path) > 1:
		return key + d.eol + d.block(path[1:], v, margin+d.space())
	case v.many && len(v.list) > 0:
		return key + d.eol + d.items(v.list, margin+d.space())
	}
	return key + " " + v.inline(0, false)
}

func (d *document) items(list []string, margin string) string {
	var lines []string
	for _, s := range list {
		lines = append(lines, margin+"- "+quoted(s, 0, false))
	}
	return strings.Join(lines, d.eol)
}

func (d *document) braces(path []string, v Value) string {
	value := ""
	if len(path) > 1 {
		value = d.braces(path[1:], v)
	} else {
		value = v.inline(0, true)
	}
	return "{" + quoted(path[0], 0, true) + ": " + value + "}"
}
