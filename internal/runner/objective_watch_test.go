package runner_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

// A dry reconcile decides the same as a real one, and writes nothing.
func TestReconcileObjectives(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Auto(runnertest.Short))
	w.Write(".trellis/objectives/quiet.md", runnertest.Short)
	w.Write(".trellis/objectives/broken.md", runnertest.Auto(runnertest.Short)+"| 1 | Again | none | | |\n")
	steps := func(o runner.ReconcileOptions) string {
		said := ""
		for _, r := range w.Reconcile(o) {
			said += fmt.Sprintf("%s %v:", r.Name, r.Err != nil)
			for _, s := range r.Steps {
				said += " " + s.ID
			}
			for _, c := range r.Changes {
				said += fmt.Sprintf(" %s=%s", c.Step, c.Value)
			}
			if !o.Dry && len(r.Planned) != len(r.Steps) {
				t.Errorf("planned %+v of %+v", r.Planned, r.Steps)
			}
			said += "; "
		}
		return said
	}
	before := w.Git("status", "--porcelain", "-uall")
	for want, o := range map[string]runner.ReconcileOptions{
		"broken true:; farewells false: 1; ":   {Dry: true},
		"broken true:; farewells false: 1 3; ": {Dry: true, All: true},
		"quiet false: 1; ":                     {Dry: true, Names: []string{"quiet"}},
		"none true:; ":                         {Dry: true, Names: []string{"none"}},
	} {
		if got := steps(o); got != want {
			t.Errorf("%+v: got %q, want %q", o, got, want)
		}
	}
	if got := w.Git("status", "--porcelain", "-uall"); got != before || len(w.Tasks()) > 0 {
		t.Errorf("a dry run left\n%s, was\n%s", got, before)
	}
	if got := steps(runner.ReconcileOptions{All: true}); got != "broken true:; farewells false: 1 3; " {
		t.Errorf("got %q", got)
	}
	w.WantRow("1", "| 1 | First | | | plan "+runnertest.Today("first")+" |")
	w.Edit(filepath.Join(w.Site.Store.Tasks(), runnertest.Today("first")), `"ready"`, `"completed"`)
	for range 2 {
		if got := steps(runner.ReconcileOptions{Dry: true, Names: []string{"farewells"}}); got != "farewells false: 2 1=done; " {
			t.Errorf("got %q", got)
		}
	}
	if got := steps(runner.ReconcileOptions{Names: []string{"farewells"}}); got != "farewells false: 2 1=done; " {
		t.Errorf("got %q", got)
	}
}
