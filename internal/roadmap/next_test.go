package roadmap_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// written returns a roadmap of rows "id depends status pr", where _ is an empty cell.
func written(t *testing.T, rows ...string) *roadmap.Roadmap {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Step | Depends On | Status | PR |\n|-|-|-|-|\n")
	for _, row := range rows {
		cells := append(strings.SplitN(row, " ", 4), "_", "_", "_")
		fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(strings.Join(cells[:4], " | "), "_", ""))
	}
	r, err := roadmap.Parse("x", []byte(b.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return r
}

func tasks(task string) (trellis.Status, bool) {
	status, ok := map[string]trellis.Status{
		"running": trellis.InProgress, "reviewed": trellis.Review, "over": trellis.Completed, "failed": trellis.Failed,
		"cancelled": trellis.Cancelled, "rejected": trellis.Rejected, "planning": trellis.Planning,
	}[task]
	return status, ok
}

func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		rows        []string
		code        roadmap.Code
		step, ready string
		on, plan    string
		why         string
	}{
		"the first":             {rows: []string{"1", "2"}, code: roadmap.Next, step: "1", ready: "1", why: "depends on none"},
		"the one after":         {rows: []string{"1 _ _ #1", "2"}, code: roadmap.Next, step: "2", ready: "2", why: "1 (done)"},
		"after a skipped one":   {rows: []string{"1 _ skipped", "2"}, code: roadmap.Next, step: "2", ready: "2", why: "1 (skipped)"},
		"done without PR":       {rows: []string{"1 _ done", "2"}, code: roadmap.Next, step: "2", ready: "2", why: "1 (done)"},
		"behind a blocked one":  {rows: []string{"1 _ blocked", "2", "3"}, code: roadmap.Stuck, on: "1", why: "step 1 is blocked"},
		"beside a blocked one":  {rows: []string{"1 _ blocked", "2", "3 none"}, code: roadmap.Next, step: "3", ready: "3", why: "depends on none"},
		"several":               {rows: []string{"1 _ _ #1", "2 1", "3 1", "4 2,3"}, code: roadmap.Next, step: "2", ready: "2 3", why: "1 (done)"},
		"not all of them":       {rows: []string{"1 _ _ #1", "2 none _ plan running", "3 1,2"}, code: roadmap.Waiting, on: "2", plan: "running", why: "step 2 is in progress (plan running, in_progress)"},
		"implied beside stated": {rows: []string{"1", "2 1", "3"}, code: roadmap.Next, step: "1", ready: "1"},
		"waiting":               {rows: []string{"1 _ _ plan running", "2"}, code: roadmap.Waiting, on: "1", plan: "running", why: "step 1 is in progress"},
		"waiting for an issue":  {rows: []string{"1 _ _ plan #7", "2"}, code: roadmap.Waiting, on: "1", plan: "#7", why: "step 1 is in progress (plan #7)"},
		"waiting for somebody":  {rows: []string{"1 _ in-progress", "2"}, code: roadmap.Waiting, on: "1", why: "step 1 is in progress"},
		"only in progress":      {rows: []string{"1 _ _ #1", "2 _ _ plan #7"}, code: roadmap.Waiting, on: "2", plan: "#7", why: "step 2 is in progress (plan #7)"},
		"planning":              {rows: []string{"1 _ _ plan planning", "2"}, code: roadmap.Waiting, on: "1", plan: "planning"},
		"in review":             {rows: []string{"1 _ _ plan reviewed", "2"}, code: roadmap.Next, step: "2", ready: "2", why: "1 (delivered)"},
		"merged":                {rows: []string{"1 _ _ plan over", "2"}, code: roadmap.Next, step: "2", ready: "2"},
		"failed":                {rows: []string{"1 _ _ plan failed", "2"}, code: roadmap.Stuck, on: "1", why: "step 1 is planned as failed, which is failed"},
		"cancelled":             {rows: []string{"1 _ _ plan cancelled", "2"}, code: roadmap.Stuck, on: "1"},
		"rejected":              {rows: []string{"1 _ _ plan rejected", "2"}, code: roadmap.Stuck, on: "1"},
		"gone":                  {rows: []string{"1 _ _ plan gone", "2"}, code: roadmap.Stuck, on: "1", why: "there is no such task"},
		"blocked and running":   {rows: []string{"1 _ blocked", "2", "3 none _ plan running"}, code: roadmap.Waiting, on: "3", plan: "running"},
		"complete":              {rows: []string{"1 _ _ #1", "2 _ skipped", "3 _ done"}, code: roadmap.Complete, why: "every step"},
		"complete when merged":  {rows: []string{"1 _ _ #1", "2 _ _ plan over"}, code: roadmap.Complete},
		"nothing but a blocked": {rows: []string{"1 _ blocked"}, code: roadmap.Stuck, on: "1"},
		"later dependency":      {rows: []string{"1 2", "2 none"}, code: roadmap.Next, step: "2", ready: "2"},
	} {
		r := written(t, c.rows...)
		d := r.Next(tasks)
		step := ""
		if d.Step != nil {
			step = d.Step.ID
		}
		var ready []string
		for _, s := range r.Ready(tasks) {
			ready = append(ready, s.ID)
		}
		if d.Code != c.code || step != c.step || strings.Join(d.On, " ") != c.on || d.Plan != c.plan || !strings.Contains(d.Why, c.why) {
			t.Errorf("%s: got %+v, want %+v", name, d, c)
		}
		if got := strings.Join(ready, " "); got != c.ready {
			t.Errorf("%s: got ready %q, want %q", name, got, c.ready)
		}
		if again := written(t, c.rows...).Next(tasks); again.Code != d.Code || again.Why != d.Why {
			t.Errorf("%s: got %+v, then %+v", name, d, again)
		}
	}
}

// If the tasks are not known, a step with a plan is under way.
func TestNextWithoutTasks(t *testing.T) {
	if d := written(t, "1 _ _ plan gone", "2").Next(nil); d.Code != roadmap.Waiting || d.Plan != "gone" {
		t.Errorf("got %+v", d)
	}
}

func TestCheck(t *testing.T) {
	const head = "| Step | Depends On | PR |\n|-|-|-|\n"
	for name, c := range map[string]struct {
		src  string
		want []string
		hint string
	}{
		"fine":         {src: head + "|1|||\n|2|1||\n|3|1, 2||\n"},
		"itself":       {src: head + "|1|1||\n", want: []string{":3: step 1 depends on itself"}},
		"not itself":   {src: head + "|1.1|1.l||\n", want: []string{":3: step 1.1 depends on 1.l, which is not a step"}},
		"unknown":      {src: head + "|1.1|||\n|1.2|1.l||\n", want: []string{":4: step 1.2 depends on 1.l, which is not a step"}, hint: "did you mean 1.1"},
		"twice":        {src: head + "|1|||\n|2|||\n|1|||\n", want: []string{":3: step 1 appears 2 times, in lines 3, 5"}},
		"a circle":     {src: head + "|1|3||\n|2|1||\n|3|2||\n", want: []string{":3: steps wait for each other: 1 → 3 → 2 → 1 (lines 3, 5, 4)"}},
		"implied":      {src: head + "|1|2||\n|2|||\n", want: []string{":3: steps wait for each other: 1 → 2 → 1 (lines 3, 4)"}, hint: "step 2 states no dependencies"},
		"two circles":  {src: head + "|1|2||\n|2|1||\n|3|4||\n|4|3||\n", want: []string{":3: steps wait", ":5: steps wait"}},
		"case matters": {src: head + "|a|||\n|b|A||\n", want: []string{":4: step b depends on A, which is not a step"}},
		"other words":  {src: head + "|1|none||\n|2|Step 1||\n|3|**1** and `2`||\n"},
	} {
		got := problems(t, c.src)
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			ok = ok && strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if r, _ := roadmap.Parse("x", []byte(c.src)); name == "not itself" && r.Check()[0].Hint != "" {
			t.Errorf("%s: got hint %q", name, r.Check()[0].Hint)
		} else if c.hint != "" && !strings.Contains(r.Check()[0].Hint, c.hint) {
			t.Errorf("%s: got hint %q, want %q", name, r.Check()[0].Hint, c.hint)
		}
	}
}

// Checking a chain of many steps, or steps that all depend on each other, takes no noticeable time.
func TestCheckLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Step | Depends On | PR |\n|-|-|-|\n")
	all := strings.Repeat("s0, ", 200)
	for i := range 5000 {
		deps := fmt.Sprintf("s%d", i+1)
		if i < 100 {
			deps = all
		}
		fmt.Fprintf(&b, "| s%d | %s | |\n", i, deps)
	}
	r, err := roadmap.Parse("x", []byte(b.String()))
	if err == nil || len(r.Check()) < 2 {
		t.Errorf("got %v", err)
	}
}

func TestDependencies(t *testing.T) {
	r := written(t, "1", "2", "3 none", "4 ✅1;✅2✔", "5 -")
	for id, want := range map[string][]string{"1": nil, "Step 2": {"1"}, "3": nil, "4": {"1", "2"}, "5": {"4"}} {
		if s := r.Step(id); !slices.Equal(s.DependsOn, want) || s.Stated != (id == "3" || id == "4") {
			t.Errorf("step %s: got %v, stated %t, want %v", id, s.DependsOn, s.Stated, want)
		}
	}
}
