package planner

import (
	"strings"
	"testing"
)

func TestTitle(t *testing.T) {
	for s, want := range map[string]string{
		"Add paging": "Add paging", "# Plan: **Add** `limit`": "Add limit", "Plan: x\ny": "x y", "Planning the plan": "Planning the plan", "Title: plan: Fix it": "Fix it", "# Plan:": "",
		strings.Repeat("ab ", 60): strings.TrimSpace(strings.Repeat("ab ", 33)) + "…",
	} {
		if got := title(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
