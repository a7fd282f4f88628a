package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// Parsing and checking a plan of a usual size takes little more than a millisecond; watchers check many plans.
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

// A run loads its plan some twenty times, and prompts can be long.
func BenchmarkLoad(b *testing.B) {
	var steps []string
	for i := range 8 {
		prompt := strings.Repeat("Change the handler of the shop so that it says what it sold, and have a test for it in shop_test.go. ", 15)
		steps = append(steps, fmt.Sprintf(`{"id": "step%c", "prompt": %q, "verify": "go test ./..."}`, 'a'+i, prompt))
	}
	data := []byte(doc("", strings.Join(steps, ",\n")))
	read := func(string) ([]byte, error) { return data, nil }
	for b.Loop() {
		if loaded, problems := plan.Load(plan.LoadOptions{File: "plan.json", Task: true, Read: read}); loaded == nil {
			b.Fatal(problems)
		}
	}
}
