// Package yamledit changes one value in the text of a YAML document: everything else stays unchanged to the byte, including
// comments, order, quotes, indentation and line ends.
package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// ErrLayout means that the layout of a document is not supported, such as a key after a question mark.
var ErrLayout = errors.New("the YAML is laid out in a way that no command writes to: change it by hand")

// Set sets a key to a value: path is the keys that lead to it through mappings, which are created if they are missing. If Set
// created the key, Unset restores the text to the byte.
func Set(src []byte, path []string, v Value) ([]byte, error) {
	want, err := parse(src)
	if err != nil {
		return nil, err
	}
	tree := want.content()
	if !tree.set(path, v.content()) {
		return nil, ErrLayout // something in the path is not a mapping
	}
	for _, beside := range []bool{true, false} { // below a comment that shows the key; at the end of the mapping
		d, err := parse(src)
		if err != nil {
			return nil, err
		}
		d.belowComment = beside
		now, err := d.set(path, v)
		if err == nil && hasContent(now, tree) {
			return now, nil
		}
	}
	return nil, ErrLayout
}

// Unset removes a key, and mappings that are empty without it. If the key does not exist, nothing changes.
func Unset(src []byte, path []string) ([]byte, error) {
	d, err := parse(src)
	if err != nil {
		return nil, err
	}
	tree := d.content()
	if !tree.unset(path) {
		return src, nil
	}
	now, err := d.unset(path)
	if err == nil && !hasContent(now, tree) {
		err = ErrLayout
	}
	return now, err
}

// hasContent reports whether a text is a document with the content of tree. Empty mappings count as missing.
func hasContent(src []byte, tree *node) bool {
	d, err := parse(src)
	return err == nil && d.content().prune().equal(tree.prune())
}

// document is a YAML text with its parsed content.
type document struct {
	src          []byte
	root         *yaml.Node // nil: it is empty
	lines        []int      // offsets of the beginnings of lines
	eol          string
	step         int  // columns by which a mapping is indented relative to the one around it
	belowComment bool // new keys go below a comment that shows them
}

func parse(src []byte) (*document, error) {
	if !utf8.Valid(src) {
		return nil, ErrLayout
	}
	d := &document{src: src, lines: lineStarts(src), eol: "\n", step: 2}
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		d.eol = "\r\n"
	}
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(src))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return d, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the YAML: %w", err)
	}
	if !errors.Is(dec.Decode(&more), io.EOF) {
		return nil, ErrLayout
	}
	if len(doc.Content) > 0 && !isEmpty(doc.Content[0]) {
		d.root = doc.Content[0]
	}
	if left := maxNodes; !withinLimit(d.root, &left) {
		return nil, ErrLayout
	}
	if step := indentation(d.root); step > 0 {
		d.step = step
	}
	return d, nil
}

// maxNodes is the maximum number of values in a document, counting those that aliases repeat each time.
const maxNodes = 100_000

func withinLimit(n *yaml.Node, left *int) bool {
	if n == nil {
		return true
	}
	*left--
	return *left >= 0 && withinLimit(n.Alias, left) && !slices.ContainsFunc(n.Content, func(e *yaml.Node) bool { return !withinLimit(e, left) })
}

var bom = []byte("\ufeff")

// lineStarts returns the offsets at which lines begin, by the rules of YAML.
func lineStarts(src []byte) []int {
	list := []int{0}
	if bytes.HasPrefix(src, bom) {
		list[0] = len(bom)
	}
	for i := list[0]; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		i += size
		switch r {
		case '\r':
			if i < len(src) && src[i] == '\n' {
				i++
			}
			list = append(list, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			list = append(list, i)
		}
	}
	return list
}

// indentation returns the indentation of the first mapping inside another, 0 if there is none.
func indentation(n *yaml.Node) int {
	if n == nil || n.Kind != yaml.MappingNode || isFlow(n) {
		return 0
	}
	for i := 1; i < len(n.Content); i += 2 {
		if v := n.Content[i]; v.Kind == yaml.MappingNode && !isFlow(v) {
			return v.Column - n.Column
		}
	}
	return 0
}

func isFlow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// isEmpty reports whether a value is empty.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Tag == "!!null" && n.Anchor == ""
}

// field returns the index of a key in a mapping, -1 if it does not exist.
func field(m *yaml.Node, name string) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if k := m.Content[i]; k.Kind == yaml.ScalarNode && k.Value == name {
			return i
		}
	}
	return -1
}

// splice replaces a part of the text.
type splice struct {
	from, to int
	text     string
}

// apply returns the text with non-overlapping splices applied, unless err, from finding their positions, is not nil.
func (d *document) apply(err error, list ...splice) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b splice) int { return b.from - a.from })
	src := slices.Clone(d.src)
	for _, s := range list {
		src = slices.Replace(src, s.from, s.to, []byte(s.text)...)
	}
	return src, nil
}
