package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

const benchSteps = 1000

// BenchmarkSteps measures steps whose commands do nothing. BenchmarkShell measures the shell of such a step alone.
func BenchmarkSteps(b *testing.B) {
	var chain, parallel []string
	for i := range benchSteps {
		chain = append(chain, fmt.Sprintf(`{"id": "s%d", "command": "true"}`, i))
		parallel = append(parallel, fmt.Sprintf(`{"id": "s%d", "command": "true", "depends_on": []}`, i))
	}
	var groups []string
	for g := range 20 {
		groups = append(groups, fmt.Sprintf(`{"id": "g%d", "parallel": true, "steps": [%s]}`, g, strings.Join(parallel[g*50:(g+1)*50], ",")))
	}
	for name, steps := range map[string][]string{"chain": chain, "groups": groups} {
		b.Run(name, func(b *testing.B) { benchRun(b, strings.Join(steps, ",")) })
	}
}

func benchRun(b *testing.B, steps string) {
	p, problems := plan.Parse([]byte(`{"schema_version": 1, "title": "t", "steps": [` + steps + `]}`))
	if p == nil {
		b.Fatal(problems)
	}
	bundle := &plan.Bundle{Hash: "h", Main: "p", Plans: map[string]*plan.Plan{"p": p}}
	raw, err := json.Marshal(workflow.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		dir := b.TempDir()
		acts := &workflow.Effects{Dir: dir, RunDir: filepath.Join(dir, "run"), Env: os.Environ(), Marker: "bench", Bundle: func(string) (*plan.Bundle, error) { return bundle, nil }}
		j, err := journal.Open(journal.Options{Dir: acts.RunDir, Activities: acts.Activities()})
		if err == nil {
			err = j.Begin(journal.Spec{Run: "t/1", Flow: "t", Code: 1, Input: raw})
		}
		if err != nil {
			b.Fatal(err)
		}
		rep, err := journal.Execute(context.Background(), j, func(f flow.Flow, o workflow.Options) (workflow.Report, error) {
			return workflow.Run(f, bundle, workflow.Host{}, o)
		})
		if err != nil || rep.Failure() != nil || rep.Done < benchSteps {
			b.Fatal(rep, err)
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchSteps), "µs/step")
}

// BenchmarkShell measures a shell that does nothing, with the marker that a step's shell has, and without.
func BenchmarkShell(b *testing.B) {
	for name, marker := range map[string]string{"marked": "bench", "bare": ""} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := proc.Run(context.Background(), proc.Command{Argv: proc.Shell("true"), Env: os.Environ(), Marker: marker}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
