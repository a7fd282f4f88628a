package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// tascer converts a file of tascer: tascs, each with the command that tells whether it was done. For `trellis run` that command
// is the step; in a task an agent does the tasc first.
func (c *converter) tascer(root *node) *node {
	t := &tascer{converter: c, root: root, renamed: map[string]string{}}
	out := object(root)
	out.put("schema_version", &node{text: "1", line: root.line})
	if title := root.value("title"); title != nil {
		putTitle(out, title, "")
	}
	if about := root.value("description"); !about.empty() {
		out.put("summary", about)
	}
	for _, m := range root.members {
		switch m.key {
		case "title", "description", "tascs", "proof_requirements":
		case "id", "status", "created_at", "proof_hash", "validations", "validation_requirements", "metadata", "reasoning", "confidence", "citations":
			c.skip(m.node)
		default:
			c.warnUnknown(m, []string{"title", "description", "tascs", "proof_requirements"})
		}
	}
	tascs := root.value("tascs")
	if tascs.open != '[' {
		out.put("steps", tascs)
		return out
	}
	t.assignIDs(tascs)
	steps := array(tascs)
	for i, n := range tascs.items {
		if n.open == '{' {
			n = t.step(n, i)
		}
		steps.items = append(steps.items, n)
	}
	out.put("steps", steps)
	if c.task && len(steps.items) > 0 {
		out.put("acceptance", t.acceptance(tascs))
	}
	return out
}

type tascer struct {
	*converter
	root    *node
	renamed map[string]string // step ids by tasc ids
}

// tascID returns the id of a tasc in the file, or the one that tascer would assign. ok reports whether it is text.
func tascID(n *node, i int) (id string, ok bool) {
	if n.value("id") == nil {
		return "tasc_" + strconv.Itoa(i+1), true
	}
	return n.value("id").str()
}

// assignIDs assigns each tasc a valid step id. Ids that are valid already are kept.
func (t *tascer) assignIDs(tascs *node) {
	for _, fits := range []bool{true, false} {
		for i, n := range tascs.items {
			id, ok := tascID(n, i)
			_, again := t.renamed[id]
			if !ok || again || (slug(id) == id && id != "") != fits { // invalid and repeated ids are reported later
				continue
			}
			t.renamed[id] = t.uniqueID(id, "tasc_"+strconv.Itoa(i+1))
			if at := n.value("id"); strings.TrimSpace(id) == "" {
				t.addProblem(at, "", "is blank")
			} else if t.renamed[id] != id {
				t.warn(at, "", "%q is the step %s here: ids are small letters, digits and _", id, t.renamed[id])
			}
		}
	}
}

func (t *tascer) step(n *node, i int) *node {
	out, id := object(n), n.value("id")
	if name, ok := tascID(n, i); ok {
		from := n
		if id != nil {
			from = id
		}
		id = textAt(t.renamed[name], from)
	}
	out.put("id", id)
	proof := t.requiredProof(n)
	title := n.value("title")
	if title == nil || title.trimmedText() == "" && title.text == `""` {
		title = textAt(id.trimmedText(), n)
	}
	putTitle(out, title, "")
	notes := firstValue(n, "additional_notes", "description")
	if !notes.empty() {
		out.put("description", notes)
	}
	if outcome := n.value("desired_outcome"); !outcome.empty() {
		out.put("desired_outcome", outcome)
	}
	out.put("depends_on", t.dependencies(n, i))
	t.putWork(n, out, title, notes, proof)
	for _, m := range n.members {
		t.checkKey(m)
	}
	return out
}

func firstValue(n *node, keys ...string) *node {
	for _, key := range keys {
		if v := n.value(key); !v.empty() {
			return v
		}
	}
	return nil
}

// checkKey reports a key that is not converted.
func (t *tascer) checkKey(m member) {
	known := []string{"id", "title", "testing_instructions", "command", "additional_notes", "description", "desired_outcome", "dependencies", "proof_required"}
	switch {
	case slices.Contains(known, m.key):
	case slices.Contains([]string{"status", "proof_hash", "validated_at", "created_at", "updated_at", "metadata", "citations"}, m.key):
		t.skip(m.node)
	default:
		t.warnUnknown(m, known)
	}
}

// dependencies returns the steps that the tasc at i waits for, which the file states completely.
func (t *tascer) dependencies(n *node, i int) *node {
	from := n.value("dependencies")
	if from == nil || from.text == "null" {
		return array(n)
	}
	if from.open != '[' {
		return from
	}
	out := array(from)
	for _, item := range from.items {
		s, isText := item.str()
		switch id, there := t.renamed[s]; {
		case there:
			out.items = append(out.items, textAt(id, item))
		case !isText:
			out.items = append(out.items, item)
		default:
			t.addProblem(item, "", "depends on %q, which is not a tasc", s).Hint = trellis.NearestHint(s, t.otherIDs(n, i))
		}
	}
	return out
}

// otherIDs returns the ids of the tascs that the one at i can wait for.
func (t *tascer) otherIDs(n *node, i int) []string {
	own, _ := tascID(n, i)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.renamed)), func(id string) bool { return id == own })
}

// putWork sets what a step does and what proves it.
func (t *tascer) putWork(n, out, title, notes *node, proof *proofRequirement) {
	command := firstValue(n, "testing_instructions", "command")
	if s, ok := command.str(); ok {
		command = textAt(proof.withExitCodes(s), command)
	}
	switch {
	case command == nil && proof.typ == "manual":
		out.put("type", textAt(Approval, n))
		return
	case command == nil:
		t.addProblem(n, "testing_instructions", "is missing, and the proof is not manual: nothing would tell whether it was done").Hint = "give a command that exits with 0 when it was, or proof_required: manual"
		out.put("type", textAt(Approval, n)) // avoids errors about other missing fields
	case t.task:
		said := []string{title.trimmedText()}
		if s := notes.trimmedText(); s != "" {
			said = append(said, s)
		}
		out.put("prompt", textAt(strings.Join(said, "\n\n"), title))
		out.put("verify", command)
		if proof.timeout != nil {
			t.skip(proof.timeout)
		}
	default:
		out.put("command", command)
		out.put("timeout_seconds", proof.timeout)
	}
	if command != nil && (!t.task || proof.typ != "script" || len(proof.files) > 0) {
		out.put("proof", proof.proofNode(n))
	}
}

// acceptance returns the outcomes of all tascs, each once.
func (t *tascer) acceptance(tascs *node) *node {
	out, seen := array(tascs), map[string]bool{}
	for _, n := range tascs.items {
		from := firstValue(n, "desired_outcome", "title")
		if s := normalizeSentence(firstLine(from.trimmedText())); s != "" && !seen[s] {
			seen[s] = true
			out.items = append(out.items, singleCriterion(from, from).items[0])
		}
	}
	if len(out.items) == 0 {
		out.items = singleCriterion(textAt(fmt.Sprintf("all %d tascs are done", len(tascs.items)), tascs), tascs).items
	}
	return out
}
