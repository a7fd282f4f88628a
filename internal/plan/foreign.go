package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// tools are the programs whose files are read too, by the key that tells them.
func tools() [][2]string { return [][2]string{{"goal", "executant"}, {"tascs", "tascer"}} }

// foreign is the key by which this is a file of another tool, and that tool; nil when it is ours.
func (d *document) foreign() (key *member, tool string) {
	if d.root.member("schema_version") != nil || d.root.stepsHaveIDs() {
		return nil, ""
	}
	for _, t := range tools() {
		if m := d.root.member(t[0]); m != nil {
			return m, t[1]
		}
	}
	return nil, ""
}

// stepsHaveIDs reports whether a step has an id, as ours have, and none a name, as executant's must.
func (n *node) stepsHaveIDs() bool {
	steps := n.value("steps")
	has := func(key string) bool {
		return steps != nil && slices.ContainsFunc(steps.items, func(step *node) bool { return step.member(key) != nil })
	}
	return has("id") && !has("name")
}

// converted is the plan that a file of another tool stands for. Its values stand where they did: problems that
// are found later name those places.
func (d *document) converted(task bool) (*document, []Problem) {
	d.root.locate("")
	_, tool := d.foreign()
	c := &converter{tool: tool, task: task, ids: map[string]bool{}, next: map[string]int{}}
	var root *node
	if c.tool == "executant" {
		root = c.executant(d.root)
	} else {
		root = c.tascer(d.root)
	}
	c.tellSkipped()
	out := documentOf(root.flat(), root)
	out.tool, out.own = c.tool, map[string]string{"": ""}
	root.visit("", func(pointer string, n *node, _ int, _ bool) { out.own[pointer] = n.at })
	return out, c.problems
}

// locate notes where values stand, those of keys in the line of the key.
func (n *node) locate(at string) {
	n.at = at
	for _, m := range n.members {
		m.node.line = m.line
		m.node.locate(at + "/" + escape(m.key))
	}
	for i, item := range n.items {
		item.locate(fmt.Sprintf("%s/%d", at, i))
	}
}

// converter makes a plan of a file of another tool.
type converter struct {
	tool     string
	task     bool
	problems []Problem
	ids      map[string]bool // that steps have
	next     map[string]int  // number for the next step that would have this one
	skipped  []*node         // whose keys the tool knows and that say nothing here
}

func (c *converter) wrong(n *node, key, format string, args ...any) *Problem {
	p := Problem{Pointer: n.at, Line: n.line, Message: fmt.Sprintf(format, args...)}
	if key != "" {
		p.Pointer += "/" + escape(key)
	}
	c.problems = append(c.problems, p)
	return &c.problems[len(c.problems)-1]
}

func (c *converter) warn(n *node, hint, format string, args ...any) {
	c.wrong(n, "", format, args...).mild(hint)
}

// unknown warns of a key that the tool does not have, unless it has no value.
func (c *converter) unknown(m member, known []string) {
	hint := trellis.Meant(strings.ToLower(strings.ReplaceAll(m.key, "_", "")), known)
	c.warn(m.node, hint, "is not known as a key of %s, and passed over", c.tool)
}

// skip passes over a value that says something to the tool and nothing here.
func (c *converter) skip(n *node) {
	if !n.empty() {
		c.skipped = append(c.skipped, n)
	}
}

// tellSkipped names the keys that were passed over, each once.
func (c *converter) tellSkipped() {
	var keys []string
	for _, n := range c.skipped {
		if key := n.at[strings.LastIndexByte(n.at, '/')+1:]; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		c.problems = append(c.problems, Problem{Line: c.skipped[0].line, Warning: true,
			Message: "keys of " + c.tool + " that say nothing here, passed over: " + strings.Join(keys, ", ")})
	}
}

// id is a name as the id of a step that no other step has. A name without letters and digits becomes otherwise.
func (c *converter) id(name, otherwise string) string {
	id := slug(name)
	switch {
	case id == "":
		id = otherwise
	case id[0] < 'a':
		id = "step_" + id
	}
	id = strings.TrimRight(id[:min(len(id), maxID)], "_")
	for n := max(1, c.next[id]); ; n++ {
		try := id
		if n > 1 {
			end := fmt.Sprintf("_%d", n)
			try = id[:min(len(id), maxID-len(end))] + end
		}
		if !c.ids[try] {
			c.ids[try], c.next[id] = true, n+1
			return try
		}
	}
}

// maxID is how long an id may be.
const maxID = 60

// slug is what a name has in small letters and digits, with _ between.
func slug(name string) string {
	return strings.Join(trellis.Words(name), "_")
}

// object is one that stands where from does.
func object(from *node) *node { return &node{open: '{', text: "{", line: from.line, at: from.at} }

// array is a list that stands where from does.
func array(from *node, items ...*node) *node {
	return &node{open: '[', text: "[", line: from.line, at: from.at, items: items}
}

// textAt is a text that stands where from does.
func textAt(s string, from *node) *node {
	return &node{text: jsonText(s), line: from.line, at: from.at}
}

// put adds a member, unless there is no value.
func (n *node) put(key string, value *node) {
	if value != nil {
		n.members = append(n.members, member{key: key, text: jsonText(key), line: value.line, node: value})
	}
}

// value is that of a key, nil where there is none.
func (n *node) value(key string) *node {
	if n != nil {
		if m := n.member(key); m != nil {
			return m.node
		}
	}
	return nil
}

// str is the text that a value is. ok: it is one.
func (n *node) str() (s string, ok bool) {
	if n == nil || !strings.HasPrefix(n.text, `"`) || n.open != 0 {
		return "", false
	}
	return s, json.Unmarshal([]byte(n.text), &s) == nil
}

// said is the text that a value is, "" when it is blank or none.
func (n *node) said() string {
	s, _ := n.str()
	return strings.TrimSpace(s)
}

// empty reports whether a value says nothing: null, false, an empty text, list or object.
func (n *node) empty() bool {
	s, isText := n.str()
	return n == nil || n.open != 0 && len(n.items)+len(n.members) == 0 || n.text == "null" || n.text == "false" || isText && strings.TrimSpace(s) == ""
}

// firstLine is the first line of a text that says something.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(s)
}

// headed puts a text of any length into a title of one line, and the whole of it into another field when there is
// more.
func headed(out, from *node, whole string) {
	s, isText := from.str()
	switch head := firstLine(s); {
	case !isText || head == "" || head == s:
		out.put("title", from)
	default:
		out.put("title", textAt(head, from))
		if whole != "" && head != strings.TrimSpace(s) {
			out.put(whole, textAt(strings.TrimSpace(s), from))
		}
	}
}
