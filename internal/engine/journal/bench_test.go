package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// chain begins a run of n activities that do nothing, with about 300 bytes in and out, and returns options and flow. The flow parks.
func chain(b *testing.B, n int) (journal.Options, func(flow.Flow, int) (string, error)) {
	pad := fmt.Sprintf("%0300d", 1)
	o := journal.Options{Dir: b.TempDir(), Activities: []flow.Activity{
		one.With(func(context.Context, flow.Call, string) (string, error) { return pad, nil })}}
	begin(b, o, n)
	return o, func(f flow.Flow, n int) (string, error) {
		for range n {
			if _, err := one.Do(f, pad); err != nil {
				return "", err
			}
		}
		return await(f, "")
	}
}

func park(b *testing.B, o journal.Options, fn func(flow.Flow, int) (string, error)) {
	var parked *journal.Parked
	if _, err := execute(b, context.Background(), o, fn); !errors.As(err, &parked) {
		b.Fatal(err)
	}
}

func BenchmarkActivity(b *testing.B) {
	const n = 1000
	for b.Loop() {
		o, fn := chain(b, n)
		park(b, o, fn)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/activity")
}

func BenchmarkReplay(b *testing.B) {
	for _, n := range []int{50, 1000, 4999} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o, fn := chain(b, n)
			park(b, o, fn)
			for b.Loop() {
				park(b, o, fn)
			}
			st, err := os.Stat(filepath.Join(o.Dir, "journal.jsonl"))
			must(err)
			b.ReportMetric(float64(st.Size())/1e3, "kB")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	o, fn := chain(b, 1000)
	park(b, o, fn)
	for b.Loop() {
		if _, err := journal.Read(o.Dir); err != nil {
			b.Fatal(err)
		}
	}
}
