package roadmap_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
)

func TestGraph(t *testing.T) {
	src := "# Objective: A \"b\" \\c\n## Phase 1: <x>\n| Step | Description | Depends On | PR |\n|-|-|-|-|\n| a | Say \"hi\" #1 | | #1 |\n| b | | a | |\n| c | x | | |\n"
	r, err := roadmap.Parse("x", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string][]string{
		"mermaid": {"flowchart TD\n", `subgraph p0 ["Phase 1: #lt;x#gt;"]`, `s0["a: Say #quot;hi#quot; #35;1"]:::done`, `s1["b"]:::pending`, "  s0 --> s1\n", "  s1 -.-> s2\n", "classDef done"},
		"dot":     {"digraph {\n", `label="A \"b\" \\c"`, `label="Phase 1: <x>"`, `s0 [label="a: Say \"hi\" #1", fillcolor="#d3f2d3"]`, "  s0 -> s1\n", "  s1 -> s2 [style=dashed]\n"},
	} {
		got, err := r.Graph(format)
		for _, w := range want {
			if err != nil || !strings.Contains(got, w) {
				t.Errorf("%s: got %v\n%s\nwant %s", format, err, got, w)
			}
		}
	}
	if _, err := r.Graph("svg"); err == nil || err.Error() != `unknown graph "svg" (one of mermaid, dot)` {
		t.Errorf("got %v", err)
	}
}
