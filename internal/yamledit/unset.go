package yamledit

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

func (d *document) unset(path []string) ([]byte, error) {
	var way []*yaml.Node // the mappings on the path to the key
	m := d.root
	for _, key := range path {
		if m == nil || m.Kind != yaml.MappingNode {
			return nil, ErrLayout
		}
		way = append(way, m)
		at := field(m, key)
		if at < 0 {
			return nil, ErrLayout
		}
		m = m.Content[at+1]
	}
	n := len(path) - 1
	for n > 0 && len(way[n].Content) == 2 && !d.commented(way[n-1], field(way[n-1], path[n-1])) {
		n--
	}
	at := field(way[n], path[n])
	if flow(way[n]) {
		return d.removeFlow(way[n], at)
	}
	if _, err := d.margin(way[n].Content[at]); err != nil {
		return nil, err
	}
	to, err := d.entryEnd(way[n], at)
	if err != nil {
		return nil, err
	}
	return d.with(nil, d.without(way[n].Content[at].Line, d.lineOf(to)))
}

// commented reports whether there are comments on lines of their own inside a value, or below it and belonging to it.
func (d *document) commented(m *yaml.Node, at int) bool {
	key := m.Content[at]
	to, err := d.entryEnd(m, at)
	if err != nil {
		return true
	}
	last := d.lineOf(to)
	for n := key.Line + 1; n <= len(d.lines); n++ {
		line := bytes.TrimLeft(d.line(n), " ")
		comment := bytes.HasPrefix(line, []byte("#"))
		switch {
		case comment && (n <= last || len(d.line(n))-len(line) >= key.Column):
			return true
		case n > last && len(bytes.TrimSpace(line)) > 0:
			return false
		}
	}
	return false
}

func (d *document) removeFlow(m *yaml.Node, at int) ([]byte, error) {
	from, err := d.start(m.Content[at])
	if err != nil {
		return nil, err
	}
	if at+2 < len(m.Content) {
		to, err := d.start(m.Content[at+2])
		return d.with(err, splice{from, to, ""})
	}
	to, err := d.entryEnd(m, at)
	if err == nil && at > 0 {
		from, err = d.entryEnd(m, at-2)
	}
	return d.with(err, splice{from, to, ""})
}
