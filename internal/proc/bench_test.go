package proc_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// BenchmarkRun measures the cost of a marker: the processes that carry it are searched for when the command has ended.
func BenchmarkRun(b *testing.B) {
	for name, mark := range map[string]string{"plain": "", "marked": marker("bench")} {
		b.Run(name, func(b *testing.B) {
			c := proc.Command{Argv: []string{"/bin/true"}, Env: []string{}, Marker: mark}
			for b.Loop() {
				if r, err := proc.Run(b.Context(), c); err != nil || r.Code != 0 {
					b.Fatalf("got %+v, %v", r, err)
				}
			}
		})
	}
}
