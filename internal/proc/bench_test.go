package proc_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// What the marker costs: the end of a command looks for processes that carry it.
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
