package planner

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// What is cut takes no more of a record than it may.
func TestWithin(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("<", 1000), strings.Repeat("ü\"\\\n\x01\u2028", 200), strings.Repeat("a\xff", 500), strings.Repeat("😀", 300)} {
		got := within(s, 100)
		raw, err := json.Marshal(got)
		if err != nil || len(raw) > 100+len(`"…"`) || !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) || utf8.ValidString(s) != utf8.ValidString(got) && got == s {
			t.Errorf("%.20q: got %d bytes, %v: %q", s, len(raw), err, got)
		}
		if len(s) < 15 && got != s {
			t.Errorf("got %q of %q", got, s)
		}
	}
}

func TestTitle(t *testing.T) {
	for s, want := range map[string]string{
		"Add paging": "Add paging", "# Plan: **Add** `limit`": "Add limit", "Plan: x\ny": "x y", "Planning the plan": "Planning the plan", "Title: plan: Fix it": "Fix it",
		strings.Repeat("ab ", 60): strings.TrimSpace(strings.Repeat("ab ", 33)) + "…",
	} {
		if got := title(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
