package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// proofRequirement is the proof that a tasc requires.
type proofRequirement struct {
	typ     string
	codes   []string // exit codes that mean success; none: 0
	files   []*node  // proofs by files
	timeout *node
}

// requiredProof returns the proof that a tasc requires: its own, or the one that the plan has for it.
func (t *tascer) requiredProof(n *node) *proofRequirement {
	r := &proofRequirement{typ: "script"}
	from := n.value("proof_required")
	if id := n.value("id").trimmedText(); from.empty() && id != "" {
		from = t.root.value("proof_requirements").value(id)
	}
	switch s, isText := from.str(); {
	case from.empty():
	case isText:
		r.typ = t.proofType(from, s)
	case from.open != '{':
		t.addProblem(from, "", "must be a type of proof, or an object")
	default:
		t.readRequirement(r, from)
	}
	return r
}

func (t *tascer) readRequirement(r *proofRequirement, from *node) {
	criteria := (*node)(nil)
	for _, m := range from.members {
		switch m.key {
		case "proof_type":
			if s, ok := m.node.str(); ok {
				r.typ = t.proofType(m.node, s)
			} else {
				t.addProblem(m.node, "", "must be a string")
			}
		case "criteria":
			criteria = m.node
		case "timeout_seconds":
			if !m.node.empty() {
				r.timeout = m.node
			}
			if f, err := strconv.ParseFloat(m.node.text, 64); err == nil && f <= 0 {
				t.addProblem(m.node, "", "must be more than 0, not %s", m.node.text)
			}
		case "required_evidence", "allow_retry", "max_retries":
			t.skip(m.node)
		default:
			t.warnUnknown(m, []string{"proof_type", "criteria", "timeout_seconds", "required_evidence", "allow_retry", "max_retries"})
		}
	}
	if criteria != nil {
		t.readCriteria(r, criteria)
	}
}

// proofType maps tascer's type of a proof to the one here.
func (t *tascer) proofType(at *node, typ string) string {
	types := []string{"script", "test", "lint", "file", "manual", "composite"}
	learning := []string{"learning_session", "experiment", "exploration", "confidence", "review"}
	switch {
	case slices.Contains(types, typ):
		return typ
	case slices.Contains(learning, typ):
		t.warn(at, "", "a proof of type %s is one of its command here: it exits with 0", typ)
	default:
		t.addProblem(at, "", "must be one of %s, not %q", strings.Join(slices.Concat(types, learning), ", "), typ).Hint = trellis.NearestHint(typ, types)
	}
	return "script"
}

// readCriteria reads the criteria that can be proven here.
func (t *tascer) readCriteria(r *proofRequirement, from *node) {
	if from.open != '{' {
		t.addProblem(from, "", "must be an object")
		return
	}
	path, rest := (*node)(nil), object(from)
	for _, m := range from.members {
		switch m.key {
		case "expected_exit_codes":
			t.readExitCodes(r, m.node)
		case "expected_output_files", "files", "paths":
			for _, item := range append(slices.Clone(m.node.items), single(m.node)...) {
				r.files = append(r.files, fileProof(item))
			}
		case "path", "file":
			path = m.node
		case "contains", "sha256":
			rest.put(m.key, m.node)
		case "required_approvals":
			if f, err := strconv.ParseFloat(m.node.text, 64); err != nil || f < 1 {
				t.addProblem(m.node, "", "must be at least 1, not %s", m.node.flat())
			} else {
				t.warn(m.node, "", "how many people have to approve is set by planning.approvers, not by a plan")
			}
		default:
			t.warn(m.node, "", "Trellis does not check this criterion, and ignores it")
		}
	}
	if path != nil {
		r.files = append(r.files, fileProof(path, rest.members...))
	} else if len(rest.members) > 0 {
		t.warn(rest.members[0].node, "add path", "there is no file to look into: it is ignored")
	}
}

// single returns a text as a list of one.
func single(n *node) []*node {
	if _, ok := n.str(); ok {
		return []*node{n}
	}
	return nil
}

// readExitCodes reads the exit codes that mean success.
func (t *tascer) readExitCodes(r *proofRequirement, from *node) {
	if from.open != '[' || len(from.items) == 0 {
		t.addProblem(from, "", "must be a list of exit codes")
		return
	}
	for _, item := range from.items {
		if n, err := strconv.Atoi(item.text); err != nil || n < 0 || n > 255 {
			t.addProblem(item, "", "must be an exit code, 0 to 255")
			return
		}
		r.codes = append(r.codes, item.text)
	}
}

// withExitCodes returns a command that exits with 0 if the given one exits with an expected code.
func (r *proofRequirement) withExitCodes(command string) string {
	if len(r.codes) == 0 || len(r.codes) == 1 && r.codes[0] == "0" {
		return command
	}
	other := ""
	if !slices.Contains(r.codes, "0") {
		other = " 0) exit 1;;"
	}
	return fmt.Sprintf("(%s\n); code=$?; case $code in %s) exit 0;;%s esac; exit $code", command, strings.Join(r.codes, "|"), other)
}

func fileProof(path *node, more ...member) *node {
	out := object(path)
	out.put("type", textAt("file", path))
	out.put("path", path)
	out.members = append(out.members, more...)
	return out
}

// proofNode returns the proof for a plan: the command, and the files if there are any.
func (r *proofRequirement) proofNode(at *node) *node {
	typ := r.typ
	if typ == "file" || typ == "composite" {
		typ = "script"
	}
	out := object(at)
	out.put("type", textAt(typ, at))
	if len(r.files) == 0 {
		return out
	}
	whole := object(at)
	whole.put("type", textAt("composite", at))
	whole.put("all", array(at, append([]*node{out}, r.files...)...))
	return whole
}
