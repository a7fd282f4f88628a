package plan

import (
	"slices"

	"github.com/trellis-tasks/trellis/internal/research"
)

// Adopt is a plan that a model gave in the form of tascer as a plan.json: tascs become work for agents, their outcomes
// the criteria and requirements, and the verification that the facts ask for stands at the end. It says what was passed
// over. What is in another form, or can't be taken over, comes back as it is: adopted is false.
func Adopt(answer []byte, f Facts) (ours []byte, passed []Problem, adopted bool) {
	d, broken := open(answer)
	if broken != nil {
		return answer, nil, false
	}
	if _, tool := d.foreign(); tool != "tascer" || len(d.again) > 0 {
		return answer, nil, false
	}
	d, problems := d.converted(true)
	p, more := d.plan()
	problems = append(problems, more...)
	if p == nil || slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
		return answer, nil, false
	}
	d.root.complete(f)
	return []byte(d.root.flat()), problems, true
}

// complete gives a converted plan what ours says and those of tascer don't: its title is the summary too, its criteria
// are the requirements and cover the items that say the same.
func (n *node) complete(f Facts) {
	if n.value("summary") == nil {
		n.put("summary", n.value("title"))
	}
	criteria := n.value("acceptance")
	requirements := array(criteria)
	for _, c := range criteria.items {
		requirements.items = append(requirements.items, c.value("criterion"))
		if item := f.item(c.value("criterion").said()); item != "" {
			c.put("covers", array(c, textAt(item, c)))
		}
	}
	n.put("requirements", requirements)
	if steps := n.value("steps"); f.Confirmed != nil {
		steps.items = append(steps.items, verifying(steps, *f.Confirmed)...)
	}
}

// item is the acceptance item of the TaskSpec that says what a text says, "" when none does.
func (f Facts) item(text string) string {
	if f.Spec == nil {
		return ""
	}
	for _, item := range f.Spec.Acceptance {
		if folded(item) == folded(text) {
			return item
		}
	}
	return ""
}

// verifying are the steps at the end of a plan: the confirmed commands, or where there are none somebody who looks.
func verifying(steps *node, confirmed []string) (list []*node) {
	c := &converter{ids: map[string]bool{}, next: map[string]int{}}
	for _, s := range steps.items {
		c.ids[s.value("id").said()] = true
	}
	add := func(id string, members ...string) {
		s := object(steps)
		s.put("id", textAt(c.id(id, id), steps))
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
		add("review", "type", Prompt, "prompt", "Review the whole change against the requirement and prd.md, and mend what is wrong or missing.",
			"desired_outcome", "every requirement and every acceptance criterion of prd.md is met by the change, and nothing else was changed")
		list[0].put("llm_as_judge", &node{text: "true", line: steps.line, at: steps.at})
	}
	return list
}
