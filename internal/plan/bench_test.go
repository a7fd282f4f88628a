package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// A plan of a usual size is read and checked in little more than a millisecond: watchers look at many.
func BenchmarkParseAndCheck(b *testing.B) {
	var steps []string
	for i := range 20 {
		steps = append(steps, fmt.Sprintf(`{"id": "step%c", "title": "Do it", "prompt": "%s", "verify": "grep -q 'a | b' x%d.go && go test ./...", "covers": ["x"]}`, 'a'+i, strings.Repeat("Some text. ", 20), i))
	}
	data := []byte(doc("", strings.Join(steps, ",\n")))
	for b.Loop() {
		p, problems := plan.Parse(data)
		if p == nil {
			b.Fatal(told(problems))
		}
		p.Check(plan.Facts{MaxSteps: 20, Exists: there, Missing: missing})
	}
}
