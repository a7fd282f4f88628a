package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// tools returns the other programs whose files are also read, each after the key that identifies its files.
func tools() [][2]string { return [][2]string{{"goal", "executant"}, {"tascs", "tascer"}} }

// foreignKey returns the key that identifies this as a file of another tool, and the tool; nil if it is a plan.json.
func (d *document) foreignKey() (key *member, tool string) {
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

// stepsHaveIDs reports whether a step has an id, as in a plan.json, and none a name, which executant requires.
func (n *node) stepsHaveIDs() bool {
	steps := n.value("steps")
	has := func(key string) bool {
		return steps != nil && slices.ContainsFunc(steps.items, func(step *node) bool { return step.member(key) != nil })
	}
	return has("id") && !has("name")
}

// convert converts a file of another tool to the plan that it stands for. Its values keep their positions in that file, so that
// later problems refer to them.
func (d *document) convert(task bool) (*document, []Problem) {
	d.root.locate("")
	_, tool := d.foreignKey()
	c := &converter{tool: tool, task: task, ids: map[string]bool{}, next: map[string]int{}}
	var root *node
	if c.tool == "executant" {
		root = c.executant(d.root)
	} else {
		root = c.tascer(d.root)
	}
	c.warnSkipped()
	out := documentOf(root.flat(), root)
	out.tool, out.originals = c.tool, map[string]string{"": ""}
	root.visit("", func(pointer string, n *node, _ int, _ bool) { out.originals[pointer] = n.origin })
	return out, c.problems
}

// locate records the positions of values; the value of a key gets the line of the key.
func (n *node) locate(at string) {
	n.origin = at
	for _, m := range n.members {
		m.node.line = m.line
		m.node.locate(at + "/" + escape(m.key))
	}
	for i, item := range n.items {
		item.locate(fmt.Sprintf("%s/%d", at, i))
	}
}

// converter converts a file of another tool to a plan.
type converter struct {
	tool     string
	task     bool
	problems []Problem
	ids      map[string]bool // ids of the steps so far
	next     map[string]int  // suffix for the next step that would get this id
	skipped  []*node         // values of keys that the tool knows but that have no meaning here
}

func (c *converter) addProblem(n *node, key, format string, args ...any) *Problem {
	p := Problem{Pointer: n.origin, Line: n.line, Message: fmt.Sprintf(format, args...)}
	if key != "" {
		p.Pointer += "/" + escape(key)
	}
	c.problems = append(c.problems, p)
	return &c.problems[len(c.problems)-1]
}

func (c *converter) warn(n *node, hint, format string, args ...any) {
	c.addProblem(n, "", format, args...).asWarning(hint)
}

// warnUnknown warns of a key that the tool does not have, unless its value is empty.
func (c *converter) warnUnknown(m member, known []string) {
	if m.node.empty() {
		return
	}
	hint := trellis.NearestHint(strings.ToLower(strings.ReplaceAll(m.key, "_", "")), known)
	c.warn(m.node, hint, "is not known as a key of %s, and ignored", c.tool)
}

// skip skips a value that has a meaning only for the tool.
func (c *converter) skip(n *node) {
	if !n.empty() {
		c.skipped = append(c.skipped, n)
	}
}

// warnSkipped adds a warning that names the skipped keys, each once.
func (c *converter) warnSkipped() {
	var keys []string
	for _, n := range c.skipped {
		if key := n.origin[strings.LastIndexByte(n.origin, '/')+1:]; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		c.problems = append(c.problems, Problem{Line: c.skipped[0].line, Warning: true,
			Message: "keys of " + c.tool + " that mean nothing here, ignored: " + strings.Join(keys, ", ")})
	}
}

// uniqueID makes a unique step id from a name. A name without letters and digits becomes otherwise.
func (c *converter) uniqueID(name, otherwise string) string {
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

// maxID is the maximum length of an id.
const maxID = 60

// slug returns the small letters and digits of a name, with _ in between.
func slug(name string) string {
	return strings.Join(trellis.Words(name), "_")
}

// object returns an empty object at the position of at.
func object(at *node) *node { return &node{open: '{', text: "{", line: at.line, origin: at.origin} }

// array returns a list at the position of from.
func array(from *node, items ...*node) *node {
	return &node{open: '[', text: "[", line: from.line, origin: from.origin, items: items}
}

// textAt returns a text at the position of from.
func textAt(s string, from *node) *node {
	return &node{text: jsonText(s), line: from.line, origin: from.origin}
}

// put adds a member, unless value is nil.
func (n *node) put(key string, value *node) {
	if value != nil {
		n.members = append(n.members, member{key: key, text: jsonText(key), line: value.line, node: value})
	}
}

// value returns the value of a key, nil if there is none.
func (n *node) value(key string) *node {
	if n != nil {
		if m := n.member(key); m != nil {
			return m.node
		}
	}
	return nil
}

// str returns a value as text. ok reports whether it is text.
func (n *node) str() (s string, ok bool) {
	if n == nil || !strings.HasPrefix(n.text, `"`) || n.open != 0 {
		return "", false
	}
	return s, json.Unmarshal([]byte(n.text), &s) == nil
}

// trimmedText returns a value as trimmed text, "" if it is blank or not text.
func (n *node) trimmedText() string {
	s, _ := n.str()
	return strings.TrimSpace(s)
}

// empty reports whether a value is missing, null, false, or an empty text, list or object.
func (n *node) empty() bool {
	s, isText := n.str()
	return n == nil || n.open != 0 && len(n.items)+len(n.members) == 0 || n.text == "null" || n.text == "false" || isText && strings.TrimSpace(s) == ""
}

// firstLine returns the first line of a text that is not blank.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(s)
}

// putTitle makes the first line of a text the title and, if there is more, puts the whole text into the field whole ("":
// nowhere).
func putTitle(out, from *node, whole string) {
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
