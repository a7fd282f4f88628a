package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// A run loads its plan some twenty times.
func BenchmarkLoad(b *testing.B) {
	var steps []string
	for i := range 8 {
		prompt := strings.Repeat("Change the handler of the shop so that it says what it sold, and have a test for it in shop_test.go. ", 15)
		steps = append(steps, fmt.Sprintf(`{"id": "s%d", "prompt": %q, "verify": "go test ./..."}`, i, prompt))
	}
	text := []byte(`{"schema_version": 1, "title": "Sell", "steps": [` + strings.Join(steps, ",") + `], "acceptance": [{"criterion": "it sells", "verify": "go test ./..."}]}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if loaded, problems := plan.Load(plan.LoadOptions{File: "plan.json", Task: true, Read: func(string) ([]byte, error) { return text, nil }}); loaded == nil {
			b.Fatal(problems)
		}
	}
}
