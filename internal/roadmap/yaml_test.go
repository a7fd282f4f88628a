package roadmap_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
)

// issue is the body of a GitHub issue with a YAML block.
const issue = `# Objective: Build X

### Phase 1: Foundation
### Phase 2: Build

<!-- WARNING: Machine-generated. -->
<!-- erk:metadata-block:objective-roadmap -->
<details>
<summary><code>objective-roadmap</code></summary>

` + "```yaml" + `

schema_version: '3'
nodes:
  - id: '1.1'
    slug: a
    description: "Ünïcode: \"x\" | y"
    status: done
    plan: '#3'
    pr: '#100'
    depends_on: []
  - id: "1.2"
    description: Types
    status: "in_progress"   # soon
    plan: '#101'
    pr: null
  - id: 2.1
    description: Flow
    status: pending
    pr:   # none
    depends_on: ['1.1']
  - {id: '2.2', description: 'It''s', status: skipped, pr: ~}
  - id: '2.3'
    description: No keys
` + "```" + `

</details>
<!-- /erk:metadata-block:objective-roadmap -->

| Node | Description | Status | PR |
| --- | --- | --- | --- |
| 1.1 | shown | | |
`

func TestYAML(t *testing.T) {
	r, err := roadmap.Parse("x", []byte(issue))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		id, phase, description, plan, deps string
		state                              roadmap.State
		line                               int
	}{
		{"1.1", "Phase 1: Foundation", `Ünïcode: "x" | y`, "#3", "", roadmap.Done, 15},
		{"1.2", "Phase 1: Foundation", "Types", "#101", "1.1", roadmap.InProgress, 22},
		{"2.1", "Phase 2: Build", "Flow", "", "1.1", roadmap.Pending, 27},
		{"2.2", "Phase 2: Build", "It's", "", "2.1", roadmap.Skipped, 32},
		{"2.3", "Phase 2: Build", "No keys", "", "2.2", roadmap.Pending, 33},
	} {
		s := r.Steps[i]
		if s.ID != want.id || s.Phase != want.phase || s.Description != want.description || s.Plan != want.plan ||
			strings.Join(s.DependsOn, " ") != want.deps || s.State != want.state || s.Line != want.line {
			t.Errorf("got %+v, want %+v", s, want)
		}
	}
	if got := r.Check(); len(got) != 1 || !got[0].Warning || !strings.Contains(got[0].Message, "this table is not read") {
		t.Errorf("got %v", got)
	}
	if got := r.Next(nil); got.Code != roadmap.Next || got.Step.ID != "2.1" {
		t.Errorf("got %+v", got)
	}
}

// Set changes exactly the scalar of the cell.
func TestSetYAML(t *testing.T) {
	for _, c := range []struct {
		step     string
		cell     roadmap.Cell
		value    string
		from, to string // a text of the issue before and after; "" if nothing changes
	}{
		{"1.1", roadmap.PR, "#7", "pr: '#100'", "pr: '#7'"},
		{"1.1", roadmap.PR, "#100", "", ""},
		{"1.1", roadmap.PR, "", "pr: '#100'", "pr: null"},
		{"1.1", roadmap.Status, "blocked", "status: done\n", "status: blocked\n"},
		{"1.2", roadmap.PR, "plan 02-03-x", "pr: null\n", "pr: 'plan 02-03-x'\n"},
		{"1.2", roadmap.Status, "done", `status: "in_progress"   # soon`, `status: "done"   # soon`},
		{"1.2", roadmap.Status, "in-progress", "", ""},
		{"2.1", roadmap.PR, "plan 02-03-x", "pr:   # none", "pr: 'plan 02-03-x'   # none"},
		{"2.1", roadmap.Status, "", "", ""},
		{"2.2", roadmap.PR, "#1", "pr: ~}", "pr: '#1'}"},
		{"2.2", roadmap.Status, "-", "status: skipped", "status: pending"},
		{"2.3", roadmap.Status, "", "", ""},
		{"2.3", roadmap.PR, "#1", "id: '2.3'\n", "id: '2.3'\n    pr: '#1'\n"},
		{"2.3", roadmap.Status, "done", "id: '2.3'\n", "id: '2.3'\n    status: done\n"},
	} {
		for _, eol := range []string{"\n", "\r\n"} {
			src := strings.ReplaceAll(issue, "\n", eol)
			want := strings.Replace(src, strings.ReplaceAll(c.from, "\n", eol), strings.ReplaceAll(c.to, "\n", eol), 1)
			got, err := roadmap.Set([]byte(src), c.step, c.cell, c.value)
			if err != nil || string(got) != want {
				t.Errorf("%+v: got %v\n%s", c, err, got)
			}
			if again, err := roadmap.Set(got, c.step, c.cell, c.value); err != nil || string(again) != string(got) {
				t.Errorf("%+v, again: got %v\n%s", c, err, again)
			}
		}
	}
}

func TestMalformedYAML(t *testing.T) {
	block := func(s string) string { return "text\n\n```yaml\n" + s + "```\n" }
	for name, c := range map[string]struct{ src, want string }{
		"not YAML":       {block("schema_version: '4'\nnodes: [\n"), "the YAML of the roadmap:"},
		"version":        {block("schema_version: '9'\nnodes: []\n"), ":4: schema_version 9 is unknown (known: 2, 3, 4)"},
		"no list":        {block("schema_version: '4'\nnodes: x\n"), ":5: the steps are not a list"},
		"no step":        {block("schema_version: '4'\nsteps:\n- x\n"), ":6: this is not a step"},
		"no id":          {block("schema_version: '4'\nsteps:\n- status: done\n"), ":6: this step has no id"},
		"status":         {block("schema_version: '4'\nsteps:\n- id: '1'\n  status: soon\n"), `:6: the status "soon" of step 1 is unknown`},
		"two":            {block("schema_version: '4'\nsteps:\n- id: '1'\n") + block("schema_version: '4'\nsteps:\n- id: '1'\n"), "this is a second roadmap; the first one is in line 4"},
		"pending and PR": {block("schema_version: '4'\nsteps:\n- id: '1'\n  status: pending\n  pr: '#3'\n"), "step 1 is pending, and has pull request #3"},
	} {
		if got := strings.Join(problems(t, c.src), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	// YAML blocks without a schema_version are not roadmaps.
	if got := problems(t, block("nodes: [1]\n")+head+"|1|a|||\n"); got != nil {
		t.Errorf("got %q", got)
	}
}

// Set returns an error if a value is written in a way that can't be changed in one place.
func TestSetYAMLRefuses(t *testing.T) {
	for _, pr := range []string{"&a '#1'", "!!str '#1'", "|\n    #1", "'#1,\n    #2'"} {
		src := "```yaml\nschema_version: '4'\nnodes:\n- id: '1'\n  pr: " + pr + "\n```\n"
		if got, err := roadmap.Set([]byte(src), "1", roadmap.PR, "#9"); err == nil && !strings.Contains(string(got), "#9") {
			t.Errorf("%q: got %q", pr, got)
		}
	}
}
