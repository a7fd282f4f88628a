package roadmap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
)

// large returns an objective of n steps, in phases of a hundred; all steps but the last are done.
func large(n int) []byte {
	var b strings.Builder
	b.WriteString("# Objective: Everything\n\nProse.\n")
	for i := range n {
		if i%100 == 0 {
			fmt.Fprintf(&b, "\n### Phase %d: Part\n\n| Step | Description | Depends On | Status | PR |\n| --- | --- | --- | --- | --- |\n", i/100+1)
		}
		pr := fmt.Sprintf("#%d", i+1)
		if i == n-1 {
			pr = ""
		}
		fmt.Fprintf(&b, "| %d.%d | Replace `part %d` \\| by **another** | | | %s |\n", i/100+1, i%100+1, i, pr)
	}
	return []byte(b.String())
}

// largeYAML returns an objective as a YAML block, with n steps that are done and one that is pending.
func largeYAML(n int) []byte {
	var b strings.Builder
	b.WriteString("# Objective: Everything\n\n```yaml\nschema_version: '4'\nnodes:\n")
	for i := range n {
		fmt.Fprintf(&b, "- id: '%d.%d'\n  description: Replace part %d\n  status: done\n  pr: '#%d'\n", i/100+1, i%100+1, i, i)
	}
	b.WriteString("- id: 'last'\n  description: x\n  status: pending\n  pr: null\n```\n")
	return []byte(b.String())
}

// BenchmarkObjective reads 10,000 steps and finds the next one, and checks that a plan can be written to it.
func BenchmarkObjective(b *testing.B) {
	for name, src := range map[string][]byte{"tables": large(10_000), "yaml": largeYAML(9_999)} {
		b.Run(name+"/read", func(b *testing.B) {
			for b.Loop() {
				r, err := roadmap.Parse("x", src)
				if err != nil {
					b.Fatal(err)
				}
				if d := r.Next(nil); d.Code != roadmap.Next {
					b.Fatalf("got %+v", d)
				}
			}
		})
		b.Run(name+"/write", func(b *testing.B) {
			r, err := roadmap.Parse("x", src)
			if err != nil {
				b.Fatal(err)
			}
			last := r.Next(nil).Step.ID
			for b.Loop() {
				if err := r.CheckLinkable(last); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
