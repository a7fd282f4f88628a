package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// An approval is for the plan that was shown: it is refused if the plan was edited since, and does not approve the current one.
func TestApprovalOfWhatWasShown(t *testing.T) {
	t.Parallel()
	w := runnertest.NewWorld(t, runnertest.Careful("large").String())
	planned, err := w.Plan("bye", "say bye")
	if err != nil || planned.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", planned, err)
	}
	p, err := (&Env{Vars: append(os.Environ(), "TRELLIS_TRUST=checkout"), Dir: w.Dir, Now: time.Now}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	review := func() status.Review {
		t.Helper()
		r, err := p.Review(t.Context(), planned.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := review()
	if !first.Asked || first.Approvers != 1 || len(first.Steps) == 0 || len(first.Criteria) == 0 || first.Estimate.Size != trellis.Large || strings.Join(first.Why, "") != "the work is large" {
		t.Fatalf("got %+v", first)
	}
	prd := filepath.Join(".trellis", "tasks", filepath.Base(planned.Dir), "prd.md")
	w.Write(prd, w.Read(prd)+"\n## Open questions\n\n- Who says it?\n\n## Notes\n\n- none\n")
	if _, err := p.Orders().Approve(t.Context(), planned.Dir, Decision{By: "ann", Shown: first.Hash}); !errors.Is(err, runner.ErrPlanChanged) {
		t.Fatalf("of a plan that was edited: %v", err)
	}
	second := review()
	if second.Hash == first.Hash || !second.Asked || strings.Join(second.Questions, "") != "Who says it?" {
		t.Fatalf("got %+v", second)
	}
	said := filepath.Join(".trellis", "tasks", filepath.Base(planned.Dir), "approvals.jsonl")
	w.Write(said, `{"decision": "reject", "by": "Ada", "reason": "too risky"}`+"\n")
	if no := review(); no.Asked || len(no.Agreed) > 0 || no.Rejected != "rejected by Ada: too risky" {
		t.Errorf("rejected by hand: %+v", no)
	}
	w.Write(said, "")
	w.Write(".trellis/config.yaml", "planning: {approval: plan}\n")
	if every := review(); strings.Join(every.Why, "; ") != "the work is large; planning.approval wants a person's approval of every plan" {
		t.Errorf("it waits for %q", every.Why)
	}
	done, err := p.Orders().Approve(t.Context(), planned.Dir, Decision{By: "ann", Shown: second.Hash})
	if err != nil || done.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", done, err)
	}
	if third := review(); third.Asked || strings.Join(third.Agreed, "") != "ann" || third.Hash != second.Hash {
		t.Errorf("got %+v", third)
	}
}
