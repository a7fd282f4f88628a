package mcp

import (
	"fmt"
	"strings"
	"testing"
)

// Lines of a log come from its end, before those that were seen, and after them.
func TestExcerpt(t *testing.T) {
	var lines []string
	for i := range 250 {
		lines = append(lines, fmt.Sprint("line ", i+1))
	}
	for name, c := range map[string]struct {
		in          logsIn
		over        bool
		first, last string
		said        string
	}{
		"the last":     {logsIn{}, true, "line 151\n", "line 250\n", "lines 151 to 250 of 250; earlier ones with before=151\n"},
		"still more":   {logsIn{}, false, "line 151\n", "line 250\n", "lines 151 to 250 of 250; earlier ones with before=151; later ones with after=250\n"},
		"before":       {logsIn{Before: 151}, true, "line 51\n", "line 150\n", "lines 51 to 150 of 250; earlier ones with before=51; later ones with after=150\n"},
		"the first":    {logsIn{Before: 51}, true, "line 1\n", "line 50\n", "lines 1 to 50 of 250; later ones with after=50\n"},
		"after":        {logsIn{After: 200}, true, "line 201\n", "line 250\n", "lines 201 to 250 of 250; earlier ones with before=201\n"},
		"nothing new":  {logsIn{After: 250}, false, "no lines", "", "there are 250\n"},
		"far too many": {logsIn{After: 1 << 40}, false, "no lines", "", "there are 250\n"},
		"less than no": {logsIn{After: -5, Before: -5}, true, "line 151\n", "line 250\n", "lines 151"},
	} {
		got := excerpt(lines, c.in, c.over)
		if !strings.HasPrefix(got, c.first) || !strings.Contains(got, "\n"+c.last) && c.last != "" || !strings.Contains(got, c.said) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := excerpt([]string{strings.Repeat("x", 1<<20)}, logsIn{}, true); len(got) > 3*lineWidth {
		t.Errorf("a long line takes %d bytes", len(got))
	}
}
