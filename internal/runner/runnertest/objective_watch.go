package runnertest

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// Auto makes text a roadmap whose steps are planned without a person asking for it.
func Auto(text string) string { return "---\nauto_advance: true\n---\n" + text }

func (w *World) Reconcile(o runner.ReconcileOptions) []runner.ReconcileResult {
	w.Helper()
	all, err := w.Site.Objectives().Reconcile(context.Background(), o)
	if err != nil {
		w.Fatal(err)
	}
	return all
}
