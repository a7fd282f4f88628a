package plan

import (
	"fmt"
	"slices"
	"strings"
)

// checkAcceptance checks the criteria and preconditions.
func (c *checker) checkAcceptance() {
	must := false
	for i, a := range c.p.Acceptance {
		at := fmt.Sprintf("/acceptance/%d", i)
		must = must || a.Level != "should"
		if slices.ContainsFunc(c.p.Acceptance[:i], func(o Criterion) bool { return normalizeSentence(o.Criterion) == normalizeSentence(a.Criterion) }) {
			c.add(at+"/criterion", "is in the list twice")
		}
		c.checkDeclared(at+"/verify", a.Verify)
		if a.Verify != "" {
			c.checkCommand(at+"/verify", "", c.p.fill(a.Verify))
		}
	}
	for i, p := range c.p.Preconditions {
		c.checkDeclared(fmt.Sprintf("/preconditions/%d/command", i), p.Command)
	}
	switch {
	case !c.task:
	case len(c.p.Acceptance) == 0:
		c.add("/acceptance", "there is no criterion: name at least one by which one can tell that the work is done")
	case !must:
		c.add("/acceptance", "no criterion is a must, so nothing could stop the work from being taken as done").Hint = `say "level": "must"`
	}
}

// checkDeclared checks the placeholders of a command outside of loops.
func (c *checker) checkDeclared(at, command string) {
	for _, name := range placeholders(command) {
		if _, there := c.p.Vars[name]; !there {
			c.add(at, "{{%s}} is not one of vars", name).Hint = c.placeholderHint(name, nil)
		}
	}
}

// covering is a reference to an acceptance item.
type covering struct{ pointer, item string }

func (c *checker) coverings() (list []covering) {
	for _, s := range c.steps {
		for i, item := range s.Covers {
			list = append(list, covering{fmt.Sprintf("%s/covers/%d", s.pointer, i), item})
		}
	}
	for i, a := range c.p.Acceptance {
		for j, item := range a.Covers {
			list = append(list, covering{fmt.Sprintf("/acceptance/%d/covers/%d", i, j), item})
		}
	}
	return list
}

// checkCoverage checks that each acceptance item of the TaskSpec is covered or left out, and that what is covered is an item.
func (c *checker) checkCoverage() {
	if c.Spec == nil {
		return
	}
	covered, left, known := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range c.p.Acceptance {
		covered[normalizeSentence(a.Criterion)] = true
	}
	for _, item := range slices.Concat(c.Spec.Acceptance, c.p.Requirements) {
		known[normalizeSentence(item)] = true
	}
	for _, m := range c.coverings() {
		key := normalizeSentence(m.item)
		if !known[key] && !covered[key] {
			c.warn(m.pointer, "%q is not an acceptance item of the TaskSpec", m.item).Hint = c.itemHint(m.item)
		}
	}
	for _, m := range c.coverings() {
		covered[normalizeSentence(m.item)] = true
	}
	for i, u := range c.p.Uncovered {
		at, key := fmt.Sprintf("/uncovered/%d/item", i), normalizeSentence(u.Item)
		left[key] = true
		switch {
		case !known[key]:
			c.warn(at, "%q is not an acceptance item of the TaskSpec", u.Item).Hint = c.itemHint(u.Item)
		case covered[key]:
			c.warn(at, "%q is covered all the same", u.Item)
		}
	}
	for _, item := range c.Spec.Acceptance {
		if key := normalizeSentence(item); !covered[key] && !left[key] {
			c.add("/acceptance", "nothing covers %q", item).Hint = "put it, to the letter, into covers of a criterion or a step, or into uncovered with a reason"
		}
	}
}

// itemHint returns a hint about the acceptance item that may have been meant.
func (c *checker) itemHint(item string) string {
	for _, known := range c.Spec.Acceptance {
		a, b := normalizeSentence(known), normalizeSentence(item)
		if strings.Contains(a, b) || strings.Contains(b, a) {
			return fmt.Sprintf("the item is %q, to the letter", known)
		}
	}
	return ""
}

// normalizeSentence normalizes a sentence for comparison: case, spaces, and periods and semicolons at the end.
func normalizeSentence(s string) string {
	return strings.ToLower(strings.TrimRight(strings.Join(strings.Fields(s), " "), ".;"))
}

// hasCheck reports whether a step has a way to tell that it was done.
func (s Step) hasCheck() bool { return s.Verify != "" || s.LLMAsJudge || s.Proof != nil }

// isChecked reports whether a prompt step is checked: by itself, by a group around it, or by a later step that covers the same.
func (c *checker) isChecked(s *placedStep) bool {
	if s.hasCheck() {
		return true
	}
	for _, o := range c.steps {
		if slices.Contains(s.groups, o.ID) && o.hasCheck() {
			return true
		}
	}
	for i := len(c.steps) - 1; i >= 0 && c.steps[i].pointer != s.pointer; i-- {
		o := c.steps[i]
		if o.hasCheck() && slices.ContainsFunc(o.Covers, func(item string) bool { return slices.Contains(s.Covers, item) }) {
			return true
		}
	}
	return false
}
