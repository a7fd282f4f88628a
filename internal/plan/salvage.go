package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// RepairTaskSpec repairs harmless mistakes in a TaskSpec: it cuts lists that are too long, drops optional items that are blank or
// null, and returns a warning for each. Everything else stays unchanged, in particular user_intent and unknown keys. Data that
// needs no repair, or is not a JSON object with an unambiguous meaning, is returned unchanged.
func RepairTaskSpec(data []byte) (mended []byte, warnings []string) {
	d, broken := parseDocument(data)
	if broken != nil || d.root.open != '{' || len(d.duplicates) > 0 {
		return data, nil
	}
	schema, err := schemaTree("taskspec")
	if err != nil {
		return data, nil
	}
	s := &salvager{}
	for _, property := range schema.member("properties").members {
		if m := d.root.member(property.key); m != nil && property.key != "user_intent" {
			s.salvageProperty(d.root, m, maxItems(property.node, schema))
		}
	}
	if len(s.warnings) == 0 {
		return data, nil
	}
	return []byte(d.root.flat()), s.warnings
}

// maxItems returns the maximum number of items of a list in the schema, 0 if it is not a list.
func maxItems(property, schema *node) (most int) {
	if m := resolveRef(property, schema).member("maxItems"); m != nil {
		_ = json.Unmarshal([]byte(m.node.text), &most) // our own schema has a number here
	}
	return most
}

type salvager struct{ warnings []string }

func (s *salvager) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// salvageProperty repairs one property of the TaskSpec, a list of at most most items unless most is 0.
func (s *salvager) salvageProperty(root *node, m *member, most int) {
	at := "/" + m.key
	switch {
	case most == 0:
		if m.blank() {
			s.drop(root, m.key, at)
		}
	case m.null():
		s.warn("%s: is null, taken for an empty list", at)
		m.node = &node{open: '[', line: m.line}
	case m.open == '[':
		s.salvageItems(m.node, at, most)
	}
}

func (s *salvager) salvageItems(list *node, at string, most int) {
	kept := list.items[:0:0]
	for i, item := range list.items {
		if item.blank() {
			s.warn("%s/%d: is blank, left out", at, i)
			continue
		}
		for _, key := range []string{"params", "description", "reason"} {
			if m := item.member(key); m != nil && m.blank() {
				s.drop(item, key, fmt.Sprintf("%s/%d/%s", at, i, key))
			}
		}
		kept = append(kept, item)
	}
	if len(kept) > most {
		s.warn("%s: has %d items, those after the first %d are left out", at, len(kept), most)
		kept = kept[:most]
	}
	list.items = kept
}

// drop removes a member from an object.
func (s *salvager) drop(object *node, key, at string) {
	s.warn("%s: is blank, left out", at)
	object.members = slices.DeleteFunc(object.members, func(m member) bool { return m.key == key })
}

func (n *node) null() bool { return n.text == "null" }

// blank reports whether a value is null, or a blank string.
func (n *node) blank() bool {
	s, isText := n.str()
	return n.null() || isText && strings.TrimSpace(s) == ""
}
