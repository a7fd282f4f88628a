package roadmap_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
)

// The state of a step follows from its two cells; cells that are unclear cause an error or a warning.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		status, pr string
		want       roadmap.State
		plan       string
		prs        string
		say        string // the expected problem; "" for none
	}{
		{"", "", roadmap.Pending, "", "", ""},
		{"", "-", roadmap.Pending, "", "", ""},
		{"", "—", roadmap.Pending, "", "", ""},
		{"", "\u00a0", roadmap.Pending, "", "", ""},
		{"pending", "–", roadmap.Pending, "", "", ""},
		{"Pending", "", roadmap.Pending, "", "", ""},
		{"", "#12", roadmap.Done, "", "#12", ""},
		{"pending", "#12", roadmap.Done, "", "#12", ""},
		{"", "[#12](https://h/o/r/pull/12)", roadmap.Done, "", "#12", ""},
		{"", "[the change](https://h/o/r/pull/12)", roadmap.Done, "", "#12", ""},
		{"", "[PR 3](https://h/o/r/pull/3/files)", roadmap.Done, "", "#3", ""},
		{"", "https://github.com/o/r/pull/12", roadmap.Done, "", "https://github.com/o/r/pull/12", ""},
		{"", "#12, #13", roadmap.Done, "", "#12 #13", ""},
		{"", "[#12](u), [#13](u)", roadmap.Done, "", "#12 #13", ""},
		{"", "**#12** and o/r#13", roadmap.Done, "", "#12 o/r#13", ""},
		{"", "PR #12", roadmap.Done, "", "#12", ""},
		{"", "plan #12", roadmap.InProgress, "#12", "", ""},
		{"", "Plan #12", roadmap.InProgress, "#12", "", ""},
		{"pending", "PLAN [#12](u)", roadmap.InProgress, "#12", "", ""},
		{"", "plan 02-03-port-tests", roadmap.InProgress, "02-03-port-tests", "", ""},
		{"", "`plan 02-03-port-tests`", roadmap.InProgress, "02-03-port-tests", "", ""},
		{"", "plan `02-03-port-tests`", roadmap.InProgress, "02-03-port-tests", "", ""},
		{"done", "plan 02-03-port-tests", roadmap.Done, "02-03-port-tests", "", ""},
		{"blocked", "#12", roadmap.Blocked, "", "#12", ""},
		{"Blocked", "plan #1", roadmap.Blocked, "#1", "", ""},
		{"**skipped**", "", roadmap.Skipped, "", "", ""},
		{"blocked", "<!-- on #400 -->", roadmap.Blocked, "", "", ""},
		{"", "<!-- on #400 -->", roadmap.Pending, "", "", ""},
		{"done", "", roadmap.Done, "", "", "warning: step 1 is done, and no pull request says how"},
		{"✅ done", "", roadmap.Done, "", "", "warning: step 1 is done"},
		{"Done ✔️", "", roadmap.Done, "", "", "warning: step 1 is done"},
		{"", "#12 ✅", roadmap.Done, "", "#12", ""},
		{"", "[#12](u) (merged)", roadmap.Done, "", "#12", ""},
		{"✅", "", roadmap.Done, "", "", "warning: step 1 is done"},
		{"in-progress", "", roadmap.InProgress, "", "", "warning: step 1 is in progress, and no plan says where"},
		{"planning", "-", roadmap.Planning, "", "", "warning: step 1 is planning"}, // edge C8
		{"planning", "plan 02-01-a", roadmap.Planning, "02-01-a", "", ""},
		{"in_progress", "-", roadmap.InProgress, "", "", "warning: step 1 is in progress"},
		{"in progress", "#12", roadmap.Done, "", "#12", "warning: step 1 is done by its pull request"},
		{"soon", "#12", roadmap.Done, "", "#12", `warning: the status "soon" of step 1 is unknown, so its PR cell decides`},
		{"soon", "", roadmap.Pending, "", "", `error: the status "soon" of step 1 is unknown`},
		{"", "TBD", roadmap.Pending, "", "", `error: the PR cell of step 1 says "TBD"`},
		{"", "plan", roadmap.Pending, "", "", `error: the PR cell of step 1 says "plan"`},
		{"", "planned soon", roadmap.Pending, "", "", `error: the PR cell of step 1 says "planned soon"`},
		{"", "#12 not merged", roadmap.Pending, "", "", "error: the PR cell of step 1"},
		{"blocked", "wait for Bob", roadmap.Blocked, "", "", "warning: the PR cell of step 1"},
	} {
		r, _ := roadmap.Parse("x", []byte("| Step | Status | PR |\n| --- | --- | --- |\n| 1 | "+c.status+" | "+c.pr+" |\n"))
		if len(r.Steps) != 1 {
			t.Fatalf("%q %q: %d steps, %v", c.status, c.pr, len(r.Steps), r.Check())
		}
		s := r.Steps[0]
		if s.State != c.want || s.Plan != c.plan || strings.Join(s.PRs, " ") != c.prs {
			t.Errorf("%q, %q: got %s, plan %q, %v, want %s, %q, %s", c.status, c.pr, s.State, s.Plan, s.PRs, c.want, c.plan, c.prs)
		}
		var said []string
		for _, p := range r.Check() {
			kind := "error: "
			if p.Warning {
				kind = "warning: "
			}
			said = append(said, kind+p.Message)
		}
		if got := strings.Join(said, "\n"); c.say == "" && got != "" || !strings.HasPrefix(got, c.say) {
			t.Errorf("%q, %q: got problems %q, want %q", c.status, c.pr, got, c.say)
		}
	}
}

// problems returns the problems that Check finds, and fails the test unless Parse has an error exactly if one of them is an error.
func problems(t *testing.T, src string) (list []string) {
	t.Helper()
	r, err := roadmap.Parse("x", []byte(src))
	bad := false
	for _, p := range r.Check() {
		list = append(list, p.Error())
		bad = bad || !p.Warning
	}
	if bad != (err != nil) {
		t.Errorf("%q: problems %q and error %v", src, list, err)
	}
	return list
}

func ids(r *roadmap.Roadmap) (list []string) {
	for _, s := range r.Steps {
		list = append(list, s.ID)
	}
	return list
}

const head = "| Step | Description | Status | PR |\n| --- | --- | --- | --- |\n"

// Tables are read as people write them.
func TestTables(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"two phases":         {"## Phase 1\n" + head + "|1.1|a|||\n|1.2|b|||\n\n### Phase 2\n\n" + head + "|2.1|c|||\n", "1.1 1.2 2.1"},
		"no heading":         {head + "|1|a|||\n", "1"},
		"no status":          {"| Step | Description | PR |\n|-|-|-|\n| 2.1a | x | |\n", "2.1a"},
		"no description":     {"| Node | PR |\n|-|-|\n| n | |\n", "n"},
		"no trailing bars":   {"Step | Description | Status | PR\n--- | --- | --- | ---\n1 | a | |\n2 | b\n", "1 2"},
		"alignment":          {"| Step | Description | Status | PR |\n| :-- | :-: | --: | - |\n| 1 | a | | |\n", "1"},
		"CRLF":               {strings.ReplaceAll(head+"| 1 | a | | |\n| 2 | a | | |\n", "\n", "\r\n"), "1 2"},
		"words and marks":    {head + "| Step 1.1 | a | | |\n| ✅ **1.2** | a | | #1 |\n| ~~1.3~~ | a | | #2 |\n", "1.1 1.2 1.3"},
		"a comment of a row": {"<!--\n" + head + "| 1 | a | | |\n-->\n\n" + head + "| 2 | a | | |\n", "2"},
		"byte order mark":    {"\ufeff" + head + "| 1 | a | | |\n", "1"},
		"no final newline":   {head + "| 1 | a | | |", "1"},
		"bold, code, links":  {head + "| **1.1** | a | | |\n| `1.2` | a | | |\n| [1.3](#x) | a | | |\n| ~~1.4~~ | a | skipped | |\n", "1.1 1.2 1.3 1.4"},
		"bold columns":       {"| **Step** | *PR* |\n|-|-|\n| 1 | |\n", "1"},
		"escaped bar":        {head + "| 1 | `a\\|b` \\| c | | #1 |\n| 2 | x\\| | | |\n", "1 2"},
		"comment after":      {head + "| 1 | a | blocked | | <!-- Blocked on #400 -->\n| 2 | b | | |\n", "1 2"},
		"comment with bars":  {head + "| 1 | a | blocked | <!-- a | b -->\n| 2 | b | | | <!-- | -->\n", "1 2"},
		"comment in a cell":  {head + "| 1 <!-- x --> | a | blocked | <!-- on #400 --> |\n", "1"},
		"empty extra cells":  {head + "| 1 | a | | | | |\n", "1"},
		"blank rows":         {head + "| 1 | a | | |\n| | | | |\n| 2 | b | | |\n", "1 2"},
		"text below":         {head + "| 1 | a | | |\n\n**Test:** all green\n", "1"},
		"rule below":         {head + "| 1 | a | | |\n---\n\n" + head + "| 2 | a | | |\n", "1 2"},
		"unrelated tables":   {"| Property | Value |\n|-|-|\n| Step | 1 |\n\n| Step | Command |\n|-|-|\n| 9 | ls |\n\n" + head + "| 1 | a | | |\n\n| a | b |\n|-|-|\n| 8 | x |\n", "1"},
		"in a fence":         {"```\n" + head + "| 9 | a | | |\n```\n\n~~~md\n" + head + "| 8 | a | | |\n~~~\n\n" + head + "| 1 | a | | |\n", "1"},
		"in a comment":       {"<!--\n" + head + "| 9 | a | | |\n-->\n\n" + head + "| 1 | a | | |\n", "1"},
		"indented as code":   {"    " + strings.ReplaceAll(head, "\n", "\n    ") + "| 9 | a | | |\n\n" + head + "| 1 | a | | |\n", "1"},
		"quoted":             {"> " + strings.ReplaceAll(head, "\n", "\n> ") + "| 9 | a | | |\n\n" + head + "| 1 | a | | |\n", "1"},
		"in details":         {"<details>\n\n" + head + "| 1 | a | | |\n\n</details>\n", "1"},
		"in a list":          {"- Phase 1\n\n  | Step | PR |\n  |-|-|\n  | 1 | |\n", "1"},
		"text right above":   {"Prose\n" + head + "| 1 | a | | |\n", "1"},
		"not ASCII":          {"| Step | Описание | Status | PR |\n|-|-|-|-|\n| 第一 | 你好 🎉 | | |\n", "第一"},
		"order of lines":     {head + "| 1.10 | a | | |\n| 1.2 | a | | |\n", "1.10 1.2"},
		"later columns":      {"| Node | Description | Depends On | Status | Plan | PR |\n|-|-|-|-|-|-|\n| 1 | a | - | pending | #3 | |\n| 2 | b | 1 | pending | | |\n", "1 2"},
		"front matter":       {"---\nauto_advance: true\nx: 1\n---\n" + head + "| 1 | a | | |\n", "1"},
		"a rule, no setting": {"---\n\n" + head + "| 1 | a | | |\n", "1"},
	} {
		r, err := roadmap.Parse("x", []byte(c.src))
		if got := strings.Join(ids(r), " "); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, c.want)
		}
	}
}

// An objective that is not to be planned automatically may be prose alone. It does not count as complete (edge C8).
func TestProseAlone(t *testing.T) {
	r, err := roadmap.Parse("x", []byte("# Be kind\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Check(); len(got) != 1 || !got[0].Warning || got[0].Line != 1 || r.Next(nil).Code != roadmap.Stuck || !strings.Contains(r.Next(nil).Why, "x.md:1: there is no roadmap") {
		t.Errorf("got %+v, %+v", got, r.Next(nil))
	}
}

// What can't be read is reported with its line, and never silently left out.
func TestMalformedTables(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		want []string
	}{
		"nothing to go on with":      {"---\nauto_advance: true\n---\n# X\n", []string{"1: there is no roadmap: no table with the columns Step and PR"}},
		"a table without PR":         {"# X\n\n| Step | Command |\n|-|-|\n| 1 | ls |\n", []string{"3: this table has no column PR, so it is not a roadmap"}},
		"no PR column":               {"| Step | Status |\n|-|-|\n| 1 | |\n", []string{"1: there is no PR column, so that no plan can be written to these steps"}},
		"bar in code":                {head + "| 1 | `a|b` | | #1 |\n| 2 | c | | |\n", []string{"3: a bar ends a cell inside of code"}},
		"bar in a comment":           {head + "| 1 | a <!-- x | y --> | | #1 |\n", []string{"3: a bar ends a cell inside of a comment"}},
		"bar in text":                {head + "| 1 | a | b | | #1 |\n", []string{"3: the row has 5 cells, and the table 4 columns"}},
		"no id":                      {head + "| | a | | |\n", []string{"3: this row has no step id"}},
		"a comment between the rows": {head + "| 1 | a | | |\n<!-- x -->\n| 2 | b | | |\n", []string{"5: this row belongs to no table"}},
		"a blank line between":       {head + "| 1 | a | | |\n\n| 2 | b | | |\n", []string{"5: this row belongs to no table"}},
		"no dashes":                  {"| Step | PR |\n| 1 | |\n", []string{"1: these columns of a roadmap have no line of dashes below them", "1: there is no roadmap"}},
		"too few dashes":             {"| Step | PR |\n| --- |\n| 1 | |\n", []string{"1: these are 2 columns of a roadmap, and the line of dashes below them has 1 cells"}},
		"in HTML":                    {head + "| 1 | a | | |\n\n<details>\n" + head + "| 2 | b | | |\n</details>\n", []string{"6: this roadmap is in HTML, and is not a table there"}},
		"a row on two lines":         {head + "| 1 | a long\ndescription | | |\n| 2 | b | | |\n", []string{"4: this line continues the row above it"}},
		"struck out":                 {head + "| ~~1~~ | ~~a~~ | | |\n", []string{"3: step 1 is struck out, and still to be done"}},
		"settings without an end":    {"---\nauto_advance: true\n" + head + "| 1 | a | | |\n", []string{"1: the front matter has no end"}},
		"settings below a line":      {"\n---\nauto_advance: true\n---\n" + head + "| 1 | a | | |\n", []string{"2: this is not read as front matter"}},
		"settings twice":             {"---\nauto_advance: true\nauto_advance: true\n---\n" + head + "| 1 | a | | |\n", []string{"3: front matter: mapping key \"auto_advance\" already defined at line 2"}},
		"a misspelt key":             {"---\nx: 1\nauto_advnce: true\n---\n" + head + "| 1 | a | | |\n", []string{"3: auto_advnce in the front matter is not read: the key is auto_advance"}},
		"misspelt columns":           {"\n| Step | Description | Depend On | Statsu | PR |\n|-|-|-|-|-|\n| 1 | a | | done | |\n", []string{"2: the column Depend On is not read", "2: the column Statsu is not read"}},
		"columns of other words":     {"| Step | Depends | Notes | PR |\n|-|-|-|-|\n| 1 | | | |\n\n# More\n| Step | Blocked By | PR |\n|-|-|-|\n| 2 | | |\n", []string{"1: the column Depends is not read", "6: the column Blocked By is not read"}},
		"a roadmap without its step": {head + "| 1 | a | | |\n\n# More\n| Setp | PR |\n|-|-|\n| 2 | |\n", []string{"6: the column Setp is not read"}},
		"misspelt keys in YAML":      {"```yaml\nschema_version: 4\nsteps:\n- id: '1'\n  stauts: done\n  notes: x\n- id: '2'\n  dependson: ['1']\n  Status: done\n```\n", []string{"5: stauts is not a key of a step, and is not read", "8: dependson is not a key of a step, and is not read", "9: Status is not a key of a step"}},
		"another key":                {"---\nauto-advance: true\n---\n" + head + "| 1 | a | | |\n", []string{"2: auto-advance in the front matter is not read: the key is auto_advance"}},
		"text in the table":          {head + "| 1 | a | | |\n**Test:** all green\n", []string{"4: this line has no bar and is not read as a step"}},
		"column twice":               {"| Step | PR | PR |\n|-|-|-|\n| 1 | | |\n", []string{"1: the column PR appears twice"}},
		"settings":                   {"---\nauto_advance: maybe\n---\n" + head + "| 1 | a | | |\n", []string{"2: front matter: cannot unmarshal !!str `maybe` into bool"}},
		"broken settings":            {"---\na: [\n---\n" + head + "| 1 | a | | |\n", []string{"front matter: "}},
		"nested":                     {head + strings.Repeat("> ", 300) + "x\n", []string{"3: begins more than 200 quotations and lists"}},
		"not UTF-8":                  {head + "| 1 | \xff | | |\n", []string{"3: is not UTF-8 text"}},
	} {
		got := problems(t, c.src)
		if len(got) < len(c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) || !strings.HasPrefix(got[i], ".trellis/objectives/x.md:") {
				t.Errorf("%s: got %q, want %q", name, got[i], want)
			}
		}
	}
}

func TestPhases(t *testing.T) {
	src := "# Objective: X\n## Roadmap\n" + head + "|0|a|||\n\n### Phase 1A: Infrastructure (1 PR)\n#### Steps\n" + head + "|1A.1|a|||\n\nmore\n\n" +
		head + "|1A.2|a|||\n\n### ✅ Other\n" + head + "|o|a|||\n\n## Phase 2 - Rest ##\n" + head + "|2.1|a|||\n"
	r, err := roadmap.Parse("x", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Phases {
		var steps []string
		for _, i := range p.Steps {
			steps = append(steps, r.Steps[i].ID)
		}
		got = append(got, p.ID+"/"+p.Title+"/"+strings.Join(steps, " "))
	}
	want := []string{"//0", "1A/Phase 1A: Infrastructure (1 PR)/1A.1 1A.2", "/✅ Other/o", "2/Phase 2 - Rest/2.1"}
	if !slices.Equal(got, want) || r.Steps[1].Phase != r.Phases[1].Title {
		t.Errorf("got %q, want %q", got, want)
	}
}
