package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/templates"
)

// width is the maximum width of a list or object on one line.
const width = 80

// Format formats a plan.json for people: keys in the order of the schema, vars before steps, indented by two spaces. Values
// keep their spelling. If [Parse] does not accept the plan, Format returns an error.
func Format(raw []byte) ([]byte, error) {
	if p, problems := Parse(raw); p == nil {
		var errs []error
		for _, found := range problems {
			if wrong := found.ForFile("plan.json"); !found.Warning {
				errs = append(errs, &wrong)
			}
		}
		return nil, fmt.Errorf("laying out a plan: %w", errors.Join(errs...))
	}
	d, _ := parseDocument(raw)
	schema, err := schemaTree("plan")
	if err != nil {
		return nil, err
	}
	arrange(d.root, schema, schema)
	var b strings.Builder
	d.root.write(&b, "", true)
	b.WriteByte('\n')
	return []byte(b.String()), nil
}

func schemaTree(name string) (*node, error) {
	raw, err := templates.Schema(name)
	if err != nil {
		return nil, err
	}
	return treeOf(string(raw))
}

// resolveRef follows the references of a schema.
func resolveRef(schema, root *node) *node {
	for ref := schema.member("$ref"); ref != nil; ref = schema.member("$ref") {
		name, _ := strings.CutPrefix(strings.Trim(ref.node.text, `"`), "#/$defs/")
		schema = root.member("$defs").member(name).node
	}
	return schema
}

// arrange sorts members in the order of the schema's properties.
func arrange(n, schema, root *node) {
	schema = resolveRef(schema, root)
	if items := schema.member("items"); items != nil {
		for _, item := range n.items {
			arrange(item, items.node, root)
		}
	}
	properties := schema.member("properties")
	if properties == nil || n.open != '{' {
		return
	}
	rank := func(m member) int {
		return slices.IndexFunc(properties.members, func(p member) bool { return p.key == m.key })
	}
	slices.SortStableFunc(n.members, func(a, b member) int { return rank(a) - rank(b) })
	for _, m := range n.members {
		if at := rank(m); at >= 0 {
			arrange(m.node, properties.members[at].node, root)
		}
	}
}

// write writes a value, on one line if it fits and tall is false.
func (n *node) write(b *strings.Builder, indent string, tall bool) {
	if n.open == 0 {
		b.WriteString(n.text)
		return
	}
	if flat := n.flat(); !tall && len(indent)+len(flat) <= width || len(n.members)+len(n.items) == 0 {
		b.WriteString(flat)
		return
	}
	deeper, sep := indent+"  ", "\n"
	b.WriteByte(n.open)
	for _, m := range n.members {
		b.WriteString(sep + deeper + m.text + ": ")
		m.write(b, deeper, m.key == "steps" || m.key == "acceptance")
		sep = ",\n"
	}
	for _, item := range n.items {
		b.WriteString(sep + deeper)
		item.write(b, deeper, item.member("id") != nil)
		sep = ",\n"
	}
	b.WriteString("\n" + indent + string(n.open+2)) // { and }, [ and ]
}

// flat returns a value on one line.
func (n *node) flat() string {
	if n.open == 0 {
		return n.text
	}
	var parts []string
	for _, m := range n.members {
		parts = append(parts, m.text+": "+m.flat())
	}
	for _, item := range n.items {
		parts = append(parts, item.flat())
	}
	return string(n.open) + strings.Join(parts, ", ") + string(n.open+2)
}
