package yamledit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is the new value of a key: a text, a list of texts, or a word that YAML itself interprets, such as a number or true.
type Value struct {
	text   string
	list   []string
	isList bool
	isWord bool
}

// Text returns a value that is a text, whatever it looks like.
func Text(s string) Value { return Value{text: s} }

// List returns a value that is a list of texts.
func List(list []string) Value { return Value{list: list, isList: true} }

// Items returns the items of a list written on one line, [a, b] or ["a"]. It returns nil for anything else, such as a command
// that begins with a bracket and a space, [ -e a ], or a pattern of paths, [Mm]akefile or [ab].
func Items(s string) (items []string) {
	if !strings.HasPrefix(s, "[") || !strings.HasSuffix(s, "]") || strings.HasPrefix(s, "[ ") || !strings.ContainsAny(s, `,"'`) || yaml.Unmarshal([]byte(s), &items) != nil {
		return nil
	}
	return items
}

// Word returns a value that is a number, true, false or a duration. Anything else becomes a text.
func Word(s string) Value { return Value{text: s, isWord: isPlainWord(s)} }

// isPlainWord reports whether a word needs no quotes in YAML, as it has no special characters.
func isPlainWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-") == "" && s != "-" && s != "---" && s != "..."
}

func (v Value) content() *node {
	if !v.isList {
		if v.isWord {
			var n yaml.Node
			if yaml.Unmarshal([]byte(v.text), &n) == nil && len(n.Content) == 1 && n.Content[0].Kind == yaml.ScalarNode {
				return &node{kind: yaml.ScalarNode, tag: n.Content[0].ShortTag(), text: n.Content[0].Value}
			}
		}
		return &node{kind: yaml.ScalarNode, tag: "!!str", text: v.text}
	}
	list := &node{kind: yaml.SequenceNode}
	for _, s := range v.list {
		list.items = append(list.items, Text(s).content())
	}
	return list
}

// formatInline formats a value for the line of its key, or for brackets, in the quotes of the old value.
func (v Value) formatInline(style yaml.Style, inFlow bool) string {
	switch {
	case v.isWord:
		return v.text
	case !v.isList:
		return quoteText(v.text, style, inFlow)
	}
	var items []string
	for _, s := range v.list {
		items = append(items, quoteText(s, 0, true))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func quoteText(s string, style yaml.Style, inFlow bool) string {
	switch {
	case strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff
	}), style == yaml.DoubleQuotedStyle:
		return doubleQuote(s)
	case style != yaml.SingleQuotedStyle && readsUnquoted(s, inFlow):
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// doubleQuote returns a text in double quotes. YAML accepts what JSON writes.
func doubleQuote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil { // texts can always be encoded
		return `""`
	}
	return strings.NewReplacer("\x7f", `\x7f`, "\u0085", `\N`, "\ufeff", `\uFEFF`).Replace(strings.TrimSuffix(b.String(), "\n"))
}

// readsUnquoted reports whether a text needs no quotes.
func readsUnquoted(s string, inFlow bool) bool {
	form := "k: " + s + "\n"
	if inFlow {
		form = "k: [" + s + ", x]\n"
	}
	var doc yaml.Node
	if yaml.Unmarshal([]byte(form), &doc) != nil || len(doc.Content) != 1 || len(doc.Content[0].Content) != 2 {
		return false
	}
	n := doc.Content[0].Content[1]
	if inFlow {
		if len(n.Content) != 2 {
			return false
		}
		n = n.Content[0]
	}
	return n.Kind == yaml.ScalarNode && n.Style == 0 && n.ShortTag() == "!!str" && n.Value == s && n.Anchor == "" &&
		n.HeadComment+n.LineComment+n.FootComment+doc.Content[0].Content[0].LineComment == "" && !isOldBoolean(s)
}

// isOldBoolean reports whether older readers of YAML interpret a text as true or false.
func isOldBoolean(s string) bool {
	return slices.Contains([]string{"y", "n", "yes", "no", "on"}, strings.ToLower(s))
}

// node is the content of a document without its formatting.
type node struct {
	kind  yaml.Kind
	tag   string
	text  string
	keys  []string // keys of a mapping, in order
	items []*node
}

// content returns the content of a document. An empty document is a mapping without keys.
func (d *document) content() *node {
	if d.root == nil {
		return &node{kind: yaml.MappingNode}
	}
	return contentOf(d.root)
}

func contentOf(n *yaml.Node) *node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	p := &node{kind: n.Kind}
	switch n.Kind {
	case yaml.ScalarNode:
		p.tag, p.text = n.ShortTag(), n.Value
		if p.tag == "!!null" {
			p.text = ""
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			p.keys, p.items = append(p.keys, n.Content[i].Value), append(p.items, contentOf(n.Content[i+1]))
		}
	default:
		for _, e := range n.Content {
			p.items = append(p.items, contentOf(e))
		}
	}
	return p
}

func (n *node) null() bool { return n.kind == yaml.ScalarNode && n.tag == "!!null" }

// set sets a key to a value, and reports whether only mappings lead to it.
func (n *node) set(path []string, v *node) bool {
	if n.null() {
		*n = node{kind: yaml.MappingNode}
	}
	if n.kind != yaml.MappingNode {
		return false
	}
	at := slices.Index(n.keys, path[0])
	if at < 0 {
		at = len(n.keys)
		n.keys, n.items = append(n.keys, path[0]), append(n.items, &node{kind: yaml.MappingNode})
	}
	if len(path) == 1 {
		n.items[at] = v
		return true
	}
	return n.items[at].set(path[1:], v)
}

// unset removes a key, and reports whether it existed.
func (n *node) unset(path []string) bool {
	at := slices.Index(n.keys, path[0])
	if at < 0 || n.kind != yaml.MappingNode {
		return false
	}
	if len(path) > 1 {
		return n.items[at].unset(path[1:])
	}
	n.keys, n.items = slices.Delete(n.keys, at, at+1), slices.Delete(n.items, at, at+1)
	return true
}

// prune returns a node without keys that have empty values, and with sorted keys: their order has no meaning.
func (n *node) prune() *node {
	p := &node{kind: n.kind, tag: n.tag, text: n.text}
	if n.kind != yaml.MappingNode {
		for _, e := range n.items {
			p.items = append(p.items, e.prune())
		}
		return p
	}
	type entry struct {
		key  string
		item *node
	}
	var all []entry
	for i, k := range n.keys {
		if e := n.items[i].prune(); !e.null() && (e.kind != yaml.MappingNode || len(e.keys) > 0) {
			all = append(all, entry{k, e})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	for _, e := range all {
		p.keys, p.items = append(p.keys, e.key), append(p.items, e.item)
	}
	return p
}

func (n *node) equal(o *node) bool {
	return n.kind == o.kind && n.tag == o.tag && n.text == o.text && slices.Equal(n.keys, o.keys) && slices.EqualFunc(n.items, o.items, (*node).equal)
}
