package yamledit

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

func (d *document) unset(path []string) ([]byte, error) {
	var mappings []*yaml.Node // the mappings on the path to the key
	m := d.root
	for _, key := range path {
		if m == nil || m.Kind != yaml.MappingNode {
			return nil, ErrLayout
		}
		mappings = append(mappings, m)
		at := field(m, key)
		if at < 0 {
			return nil, ErrLayout
		}
		m = m.Content[at+1]
	}
	n := len(path) - 1
	for n > 0 && len(mappings[n].Content) == 2 && !d.hasComments(mappings[n-1], field(mappings[n-1], path[n-1])) {
		n--
	}
	at := field(mappings[n], path[n])
	if isFlow(mappings[n]) {
		return d.removeFlowKey(mappings[n], at)
	}
	if _, err := d.margin(mappings[n].Content[at]); err != nil {
		return nil, err
	}
	to, err := d.entryEnd(mappings[n], at)
	if err != nil {
		return nil, err
	}
	return d.apply(nil, d.removeLines(mappings[n].Content[at].Line, d.lineOf(to)))
}

// hasComments reports whether there are comments on lines of their own inside a value, or below it and belonging to it.
func (d *document) hasComments(m *yaml.Node, at int) bool {
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

func (d *document) removeFlowKey(m *yaml.Node, at int) ([]byte, error) {
	from, err := d.start(m.Content[at])
	if err != nil {
		return nil, err
	}
	if at+2 < len(m.Content) {
		to, err := d.start(m.Content[at+2])
		return d.apply(err, splice{from, to, ""})
	}
	to, err := d.entryEnd(m, at)
	if err == nil && at > 0 {
		from, err = d.entryEnd(m, at-2)
	}
	return d.apply(err, splice{from, to, ""})
}
