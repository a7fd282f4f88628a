package plan

import (
	"slices"

	"github.com/trellis-tasks/trellis/internal/research"
)

// ConvertTascer converts a plan that a model wrote in the format of tascer to a plan.json: tascs become work for agents, their outcomes
// the criteria and requirements, and the verification that f asks for is added at the end. warnings are about what was
// skipped. An answer in another format, or one that can't be converted, is returned unchanged, with adopted false.
func ConvertTascer(answer []byte, f Facts) (planJSON []byte, warnings []Problem, adopted bool) {
	d, broken := parseDocument(answer)
	if broken != nil {
		return answer, nil, false
	}
	if _, tool := d.foreignKey(); tool != "tascer" || len(d.duplicates) > 0 {
		return answer, nil, false
	}
	d, problems := d.convert(true)
	p, more := d.plan()
	problems = append(problems, more...)
	if p == nil || slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
		return answer, nil, false
	}
	d.root.complete(f)
	return []byte(d.root.flat()), problems, true
}

// complete adds to a converted plan what tascer's format lacks: the title also becomes the summary, and its criteria become the
// requirements and cover the acceptance items with the same text.
func (n *node) complete(f Facts) {
	if n.value("summary") == nil {
		n.put("summary", n.value("title"))
	}
	criteria := n.value("acceptance")
	requirements := array(criteria)
	for _, c := range criteria.items {
		requirements.items = append(requirements.items, c.value("criterion"))
		if item := f.acceptanceItem(c.value("criterion").trimmedText()); item != "" {
			c.put("covers", array(c, textAt(item, c)))
		}
	}
	n.put("requirements", requirements)
	if steps := n.value("steps"); f.Confirmed != nil {
		steps.items = append(steps.items, verificationSteps(steps, *f.Confirmed)...)
	}
}

// acceptanceItem returns the acceptance item of the TaskSpec with the same text, "" if there is none.
func (f Facts) acceptanceItem(text string) string {
	if f.Spec == nil {
		return ""
	}
	for _, item := range f.Spec.Acceptance {
		if normalizeSentence(item) == normalizeSentence(text) {
			return item
		}
	}
	return ""
}

// verificationSteps returns the steps for the end of a plan: the confirmed commands, or a review if there are none.
func verificationSteps(steps *node, confirmed []string) (list []*node) {
	c := &converter{ids: map[string]bool{}, next: map[string]int{}}
	for _, s := range steps.items {
		c.ids[s.value("id").trimmedText()] = true
	}
	add := func(id string, members ...string) {
		s := object(steps)
		s.put("id", textAt(c.uniqueID(id, id), steps))
		for i := 0; i < len(members); i += 2 {
			s.put(members[i], textAt(members[i+1], steps))
		}
		list = append(list, s)
	}
	for _, command := range confirmed {
		kind := research.Kind(command)
		add("verify_"+kind, "type", Script, "command", command)
		proof := object(steps)
		proof.put("type", textAt(kind, steps))
		list[len(list)-1].put("proof", proof)
	}
	if len(confirmed) == 0 {
		add("review", "type", Prompt, "prompt", "Review the whole change against the requirement and prd.md, and fix what is wrong or missing.",
			"desired_outcome", "every requirement and every acceptance criterion of prd.md is met by the change, and nothing else was changed")
		list[0].put("llm_as_judge", &node{text: "true", line: steps.line, origin: steps.origin})
	}
	return list
}
