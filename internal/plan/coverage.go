package plan

import (
	"fmt"
	"slices"
	"strings"
)

// acceptance checks the criteria and preconditions.
func (c *checker) acceptance() {
	must := false
	for i, a := range c.p.Acceptance {
		at := fmt.Sprintf("/acceptance/%d", i)
		must = must || a.Level != "should"
		if slices.ContainsFunc(c.p.Acceptance[:i], func(o Criterion) bool { return folded(o.Criterion) == folded(a.Criterion) }) {
			c.add(at+"/criterion", "is in the list twice")
		}
		c.oneOfVars(at+"/verify", a.Verify)
		if a.Verify != "" {
			c.command(at+"/verify", "", c.p.fill(a.Verify))
		}
	}
	for i, p := range c.p.Preconditions {
		c.oneOfVars(fmt.Sprintf("/preconditions/%d/command", i), p.Command)
	}
	switch {
	case !c.task:
	case len(c.p.Acceptance) == 0:
		c.add("/acceptance", "there is no criterion: name at least one by which one can tell that the work is done")
	case !must:
		c.add("/acceptance", "no criterion is a must, so nothing could stop the work from being taken as done").Hint = `say "level": "must"`
	}
}

// oneOfVars checks the placeholders of a command outside of loops.
func (c *checker) oneOfVars(at, command string) {
	for _, name := range placeholders(command) {
		if _, there := c.p.Vars[name]; !there {
			c.add(at, "{{%s}} is not one of vars", name).Hint = c.near(name, nil)
		}
	}
}

// covering is a reference to an acceptance item.
type covering struct{ at, item string }

func (c *checker) coverings() (list []covering) {
	for _, s := range c.steps {
		for i, item := range s.Covers {
			list = append(list, covering{fmt.Sprintf("%s/covers/%d", s.at, i), item})
		}
	}
	for i, a := range c.p.Acceptance {
		for j, item := range a.Covers {
			list = append(list, covering{fmt.Sprintf("/acceptance/%d/covers/%d", i, j), item})
		}
	}
	return list
}

// coverage checks that each acceptance item of the TaskSpec is covered or left out, and that what is covered is an item.
func (c *checker) coverage() {
	if c.Spec == nil {
		return
	}
	covered, left, known := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range c.p.Acceptance {
		covered[folded(a.Criterion)] = true
	}
	for _, item := range slices.Concat(c.Spec.Acceptance, c.p.Requirements) {
		known[folded(item)] = true
	}
	for _, m := range c.coverings() {
		key := folded(m.item)
		if !known[key] && !covered[key] {
			c.warn(m.at, "%q is not an acceptance item of the TaskSpec", m.item).Hint = c.nearItem(m.item)
		}
	}
	for _, m := range c.coverings() {
		covered[folded(m.item)] = true
	}
	for i, u := range c.p.Uncovered {
		at, key := fmt.Sprintf("/uncovered/%d/item", i), folded(u.Item)
		left[key] = true
		switch {
		case !known[key]:
			c.warn(at, "%q is not an acceptance item of the TaskSpec", u.Item).Hint = c.nearItem(u.Item)
		case covered[key]:
			c.warn(at, "%q is covered all the same", u.Item)
		}
	}
	for _, item := range c.Spec.Acceptance {
		if key := folded(item); !covered[key] && !left[key] {
			c.add("/acceptance", "nothing covers %q", item).Hint = "put it, to the letter, into covers of a criterion or a step, or into uncovered with a reason"
		}
	}
}

// nearItem returns a hint about the acceptance item that may have been meant.
func (c *checker) nearItem(item string) string {
	for _, known := range c.Spec.Acceptance {
		a, b := folded(known), folded(item)
		if strings.Contains(a, b) || strings.Contains(b, a) {
			return fmt.Sprintf("the item is %q, to the letter", known)
		}
	}
	return ""
}

// folded normalizes a sentence for comparison: case, spaces, and the period at the end.
func folded(s string) string {
	return strings.ToLower(strings.TrimRight(strings.Join(strings.Fields(s), " "), ".;"))
}

// checked reports whether a step has a way to tell that it was done.
func (s Step) checked() bool { return s.Verify != "" || s.LLMAsJudge || s.Proof != nil }

// believed reports whether a prompt step is checked: by itself, by a group around it, or by a later step that covers the same.
func (c *checker) believed(s *placed) bool {
	if s.checked() {
		return true
	}
	for _, o := range c.steps {
		if slices.Contains(s.within, o.ID) && o.checked() {
			return true
		}
	}
	for i := len(c.steps) - 1; i >= 0 && c.steps[i].at != s.at; i-- {
		o := c.steps[i]
		if o.checked() && slices.ContainsFunc(o.Covers, func(item string) bool { return slices.Contains(s.Covers, item) }) {
			return true
		}
	}
	return false
}
