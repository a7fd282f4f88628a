package journal_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// Outcomes of lazy activities are written at once, and share the sync of the next record that needs one, or that of
// the close.
func TestLazyOutcomesShareASync(t *testing.T) {
	for name, c := range map[string]struct {
		lazy, last bool
		syncs      int // after that of the run record
	}{
		"eager":                {false, true, 12},
		"lazy":                 {true, true, 2}, // those of two and of the end
		"lazy, and then parks": {true, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			syncs, counting := 0, false
			o := journal.Options{Dir: t.TempDir(), Disk: &durable.Disk{Fault: func(step, path string) error {
				if counting && step == "sync" && filepath.Base(path) == "journal.jsonl" {
					syncs++
				}
				return nil
			}}}
			entered := 0
			count := func(context.Context, flow.Call, string) (string, error) { entered++; return "", nil }
			lazy := one.With(count)
			lazy.Lazy = c.lazy
			o.Activities = []flow.Activity{lazy, two.With(echo)}
			begin(t, o, "")
			run := func(f flow.Flow, _ string) (string, error) {
				for range 10 {
					if _, err := one.Do(f, ""); err != nil {
						return "", err
					}
				}
				if !c.last {
					return await(f, "")
				}
				return two.Do(f, "")
			}
			counting = true
			r := open(t, o)
			_, err := journal.Execute(context.Background(), r, run)
			if cerr := r.Close(); cerr != nil || c.last && err != nil {
				t.Fatal(err, cerr)
			}
			if syncs != c.syncs {
				t.Errorf("%d syncs, want %d", syncs, c.syncs)
			}
			if _, err := execute(t, context.Background(), o, run); c.last && err != nil || entered != 10 {
				t.Errorf("again: %v, entered %d times", err, entered)
			}
		})
	}
}

func BenchmarkLazyActivity(b *testing.B) {
	const n = 1000
	for b.Loop() {
		o, fn := chain(b, n)
		o.Activities[0].Lazy = true
		park(b, o, fn)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/activity")
}
