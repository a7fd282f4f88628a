package planner

import (
	"strings"
	"testing"
)

func TestTitle(t *testing.T) {
	for s, want := range map[string]string{
		"Add paging": "Add paging", "# Plan: **Add** `limit`": "Add limit", "Plan: x\ny": "x y", "Planning the plan": "Planning the plan", "Title: plan: Fix it": "Fix it", "# Plan:": "", "** **": "", "__": "",
		"Load `__init__` of **snake__case**": "Load __init__ of snake__case", "Split __init__.py and a__b__c": "Split __init__.py and a__b__c", "__Split the parser__": "Split the parser",
		"Plan: __Split__ it": "__Split__ it", "Pass *args and **kwargs": "Pass *args and **kwargs", "**Split `x`** now": "Split x now", "Read `**/*.go`": "Read **/*.go",
		strings.Repeat("ab ", 60): strings.TrimSpace(strings.Repeat("ab ", 33)) + "…",
	} {
		if got := title(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
