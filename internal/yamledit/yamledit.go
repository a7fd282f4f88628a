// Package yamledit changes one value in the text of a YAML document: what it was not asked about stays to the byte, comments,
// order, quotes, indentation and line ends with it.
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

// ErrLayout says that a document is laid out in a way that is not written to, such as a key behind a question mark.
var ErrLayout = errors.New("the YAML is laid out in a way that no command writes to: change it by hand")

// Set gives a key a value: path are the keys that lead to it through mappings, which are made where they are missing. Keys
// that were made by Set go again with Unset to the byte.
func Set(src []byte, path []string, v Value) ([]byte, error) {
	want, err := parse(src)
	if err != nil {
		return nil, err
	}
	tree := want.plain()
	if !tree.set(path, v.plain()) {
		return nil, ErrLayout // something on the way is no mapping
	}
	for _, beside := range []bool{true, false} { // a comment that shows the key; the end of the mapping
		d, err := parse(src)
		if err != nil {
			return nil, err
		}
		d.beside = beside
		now, err := d.set(path, v)
		if err == nil && says(now, tree) {
			return now, nil
		}
	}
	return nil, ErrLayout
}

// Unset removes a key, and mappings that hold nothing more without it. A key that is not there changes nothing.
func Unset(src []byte, path []string) ([]byte, error) {
	d, err := parse(src)
	if err != nil {
		return nil, err
	}
	tree := d.plain()
	if !tree.unset(path) {
		return src, nil
	}
	now, err := d.unset(path)
	if err == nil && !says(now, tree) {
		err = ErrLayout
	}
	return now, err
}

// says reports whether a text is a document of what tree holds. Mappings that hold nothing are as good as none.
func says(src []byte, tree *node) bool {
	d, err := parse(src)
	return err == nil && d.plain().pruned().equal(tree.pruned())
}

// document is a YAML text, and what it says.
type document struct {
	src    []byte
	root   *yaml.Node // nil: it says nothing
	lines  []int      // where each begins
	eol    string
	step   int  // columns that a mapping stands right of the one around it
	beside bool // what is new goes below a comment that shows it
}

func parse(src []byte) (*document, error) {
	if !utf8.Valid(src) {
		return nil, ErrLayout
	}
	d := &document{src: src, lines: starts(src), eol: "\n", step: 2}
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
	if len(doc.Content) > 0 && !nothing(doc.Content[0]) {
		d.root = doc.Content[0]
	}
	if left := mostNodes; !within(d.root, &left) {
		return nil, ErrLayout
	}
	if step := indentation(d.root); step > 0 {
		d.step = step
	}
	return d, nil
}

// mostNodes is how many values a document may have, those that aliases repeat counted again.
const mostNodes = 100_000

func within(n *yaml.Node, left *int) bool {
	if n == nil {
		return true
	}
	*left--
	return *left >= 0 && within(n.Alias, left) && !slices.ContainsFunc(n.Content, func(e *yaml.Node) bool { return !within(e, left) })
}

var bom = []byte("\ufeff")

// starts are the bytes at which lines begin, as YAML counts them.
func starts(src []byte) []int {
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

// indentation is how far the first mapping within another is indented, 0 when there is none.
func indentation(n *yaml.Node) int {
	if n == nil || n.Kind != yaml.MappingNode || flow(n) {
		return 0
	}
	for i := 1; i < len(n.Content); i += 2 {
		if v := n.Content[i]; v.Kind == yaml.MappingNode && !flow(v) {
			return v.Column - n.Column
		}
	}
	return 0
}

func flow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// nothing reports whether a value is left empty.
func nothing(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Tag == "!!null" && n.Anchor == ""
}

// field is the place of a key in a mapping, -1 when it is not there.
func field(m *yaml.Node, name string) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if k := m.Content[i]; k.Kind == yaml.ScalarNode && k.Value == name {
			return i
		}
	}
	return -1
}

// splice is a part of the text that another takes the place of.
type splice struct {
	from, to int
	text     string
}

// with is the text with splices made, which don't overlap, unless looking for their places failed.
func (d *document) with(err error, list ...splice) ([]byte, error) {
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
