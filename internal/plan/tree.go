package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxDepth is the maximum nesting of lists and objects.
const maxDepth = 60

// node is a JSON value with everything that its text shows: the order of its members, the spelling of each part, and its
// position.
type node struct {
	open    byte   // '{', '[', or 0 for a scalar
	text    string // text of a scalar
	members []member
	items   []*node
	line    int
	plain   string // text of a YAML scalar without quotes
	block   bool   // a YAML scalar that begins with | or >
	origin  string // JSON pointer in the file of another tool that it comes from
}

type member struct {
	key  string
	text string // the key as written
	line int
	*node
}

// member returns the member with a key, nil if there is none.
func (n *node) member(key string) *member {
	for i := range n.members {
		if n.members[i].key == key {
			return &n.members[i]
		}
	}
	return nil
}

var errDeep = errors.New("lists and objects are nested too deep")

// treeOf parses valid JSON.
func treeOf(text string) (*node, error) {
	r := treeReader{dec: json.NewDecoder(strings.NewReader(text)), text: text, line: 1}
	r.dec.UseNumber()
	return r.value(0)
}

type treeReader struct {
	dec          *json.Decoder
	text         string
	offset, line int
}

// token reads the next token and sets line to the line of its first byte.
func (r *treeReader) token() (json.Token, string, error) {
	from := int(r.dec.InputOffset())
	t, err := r.dec.Token()
	if err != nil {
		return nil, "", fmt.Errorf("reading JSON: %w", err)
	}
	to := int(r.dec.InputOffset())
	from = to - len(strings.TrimLeft(r.text[from:to], " \t\r\n,:"))
	r.line += strings.Count(r.text[r.offset:from], "\n")
	r.offset = from
	return t, r.text[from:to], nil
}

func (r *treeReader) value(depth int) (*node, error) {
	t, text, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{line: r.line, text: text}
	delim, ok := t.(json.Delim)
	if !ok {
		return n, nil
	}
	if depth == maxDepth {
		return n, errDeep
	}
	n.open = byte(delim)
	for r.dec.More() {
		m := member{}
		if n.open == '{' {
			key, text, err := r.token()
			if err != nil {
				return n, err
			}
			m = member{key: key.(string), text: text, line: r.line}
		}
		if m.node, err = r.value(depth + 1); err != nil {
			return n, err
		}
		if n.open == '{' {
			n.members = append(n.members, m)
		} else {
			n.items = append(n.items, m.node)
		}
	}
	_, _, err = r.token()
	return n, err
}

// visit calls see with the pointer and line of every value below n; again reports that its key occurred before.
func (n *node) visit(at string, see func(pointer string, value *node, line int, again bool)) {
	seen := map[string]bool{}
	for _, m := range n.members {
		inner := at + "/" + escape(m.key)
		see(inner, m.node, m.line, seen[m.key])
		seen[m.key] = true
		m.visit(inner, see)
	}
	for i, item := range n.items {
		inner := fmt.Sprintf("%s/%d", at, i)
		see(inner, item, item.line, false)
		item.visit(inner, see)
	}
}

// find returns the value at a pointer, nil if there is none.
func (n *node) find(pointer string) *node {
	for _, part := range strings.Split(pointer, "/")[1:] {
		i, err := strconv.Atoi(part)
		switch m := n.member(strings.NewReplacer("~1", "/", "~0", "~").Replace(part)); {
		case m != nil:
			n = m.node
		case err == nil && i >= 0 && i < len(n.items):
			n = n.items[i]
		default:
			return nil
		}
	}
	return n
}

// escape escapes a key for a JSON pointer.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
