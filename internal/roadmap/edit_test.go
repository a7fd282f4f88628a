package roadmap_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
)

// Set writes a cell of rows in every layout, and changes nothing else.
func TestSet(t *testing.T) {
	for name, c := range map[string]struct {
		head, row string
		cell      roadmap.Cell
		value     string
		want      string // the row afterwards; "" if it is unchanged
	}{
		"empty":               {row: "| 1 | a | | |", value: "plan x", want: "| 1 | a | | plan x |"},
		"kept width":          {row: "| 1 | a |      |         |", value: "plan x", want: "| 1 | a |      | plan x  |"},
		"no space":            {row: "|1|a|||", value: "plan x", want: "|1|a|| plan x |"},
		"replaced":            {row: "| 1 | a | | plan x |", value: "#12", want: "| 1 | a | | #12    |"},
		"replaced, tight":     {row: "|1|a||plan x|", value: "#12", want: "|1|a||#12   |"},
		"longer":              {row: "|1|a||#12|", value: "plan 02-03-x", want: "|1|a||plan 02-03-x|"},
		"a dash":              {row: "| 1 | a | | - |", value: "plan x", want: "| 1 | a | | plan x |"},
		"the same":            {row: "| 1 | a | |  plan x  |", value: "plan x"},
		"status":              {row: "| 1 | a | pending | #1 |", cell: roadmap.Status, value: "done", want: "| 1 | a | done    | #1 |"},
		"taken away":          {row: "| 1 | a | blocked | #1 |", cell: roadmap.Status, value: "", want: "| 1 | a |         | #1 |"},
		"missing cell":        {row: "| 1 | a | |", value: "plan x", want: "| 1 | a | | plan x |"},
		"missing cells":       {row: "| 1 | a |", value: "plan x", want: "| 1 | a | | plan x |"},
		"many missing":        {row: "| 1 |", value: "plan x", want: "| 1 | | | plan x |"},
		"missing status":      {row: "| 1 | a", cell: roadmap.Status, value: "done", want: "| 1 | a | done"},
		"missing, no bar":     {row: "1 | a", value: "plan x", want: "1 | a | | plan x"},
		"nothing into none":   {row: "1 | a", value: ""},
		"no trailing bar":     {row: "1 | a | | #1", value: "plan x", want: "1 | a | | plan x"},
		"bar in the value":    {row: "| 1 | a | | |", value: `[#1](u|v\|w)`, want: `| 1 | a | | [#1](u\|v\\|w) |`},
		"backslash at end":    {row: "|1|a||#1|", cell: roadmap.PR, value: `plan x\`, want: `|1|a||plan x\ |`},
		"escaped bars before": {row: `| 1 | a \| b | | |`, value: "plan x", want: `| 1 | a \| b | | plan x |`},
		"code before":         {row: "| 1 | `a\\|b` | | |", value: "plan x", want: "| 1 | `a\\|b` | | plan x |"},
		"comment after":       {row: "| 1 | a | | | <!-- Blocked on #400 -->", value: "plan x", want: "| 1 | a | | plan x | <!-- Blocked on #400 -->"},
		"comment in the cell": {row: "| 1 | a | | <!-- on #400 --> |", value: "plan x", want: "| 1 | a | | plan x <!-- on #400 --> |"},
		"comment as the cell": {row: "| 1 | a | | <!-- a | b -->", value: "plan x", want: "| 1 | a | | plan x <!-- a | b -->"},
		"bold id":             {row: "| **1** | a | | |", value: "plan x", want: "| **1** | a | | plan x |"},
		"a link":              {row: "| [1](#a) | [a](b) | | [#1](https://x/pull/1) |", value: "plan x", want: "| [1](#a) | [a](b) | | plan x                 |"},
		"not ASCII":           {row: "| 1 | 你好 | ✅ done | 　|", value: "plan x", want: "| 1 | 你好 | ✅ done | plan x |"},
		"tabs":                {row: "|\t1\t|\ta\t|\t\t|\t\t|", value: "plan x", want: "|\t1\t|\ta\t|\t\t| plan x |"},
		"indented":            {row: "  | 1 | a | | |  ", value: "plan x", want: "  | 1 | a | | plan x |  "},
		"plan column":         {head: "| Step | Plan |\n|-|-|\n", row: "| 1 | |", value: "plan x", want: "| 1 | plan x |"},
		"plan and PR columns": {head: "| Step | Plan | PR |\n|-|-|-|\n", row: "| 1 | #3 | |", value: "#4", want: "| 1 | #3 | #4 |"},
	} {
		if c.cell == "" {
			c.cell = roadmap.PR
		}
		if c.head == "" {
			c.head = head
		}
		if c.want == "" {
			c.want = c.row
		}
		for _, eol := range []string{"\n", "\r\n"} {
			text := "\ufeff# X\n" + c.head + c.row + "\n| 2 | |\n\n| a |\n|---|\n| b |\n\n```\n" + head + "| 1 | a | | |\n```\n"
			src := strings.ReplaceAll(text, "\n", eol)
			want := strings.Replace(src, eol+c.row+eol, eol+c.want+eol, 1)
			got, err := roadmap.Set([]byte(src), "1", c.cell, c.value)
			if err != nil || string(got) != want {
				t.Errorf("%s: got %v\n%q, want\n%q", name, err, got, want)
				continue
			}
			again, err := roadmap.Set(got, "1", c.cell, c.value)
			if err != nil || string(again) != string(got) {
				t.Errorf("%s, again: got %v\n%q, want\n%q", name, err, again, got)
			}
		}
	}
}

func TestSetRefuses(t *testing.T) {
	src := head + "| 1 | a | | |\n"
	for _, c := range []struct {
		src, step   string
		cell        roadmap.Cell
		value, want string
		is          error
	}{
		{src, "2", roadmap.PR, "plan x", "no such step", roadmap.ErrNoStep},
		{"| Step | PR |\n|-|-|\n| 1 | |\n", "1", roadmap.Status, "done", "the table has no Status column", roadmap.ErrNoCell},
		{"| Step | Status |\n|-|-|\n| 1 | |\n", "1", roadmap.PR, "plan x", "the table has no PR column", roadmap.ErrNoCell},
		{src, "1", roadmap.PR, "a\nb", "not a line of text", nil},
		{src, "1", roadmap.PR, "a\xff", "not a line of text", nil},
		{src, "1", roadmap.PR, "#1 <!-- x", "would be read as something else", nil},
		{src, "1", roadmap.Status, "soon", `the status "soon" of step 1 is unknown`, nil},
		{src, "1", roadmap.PR, "TBD", "the PR cell of step 1 says", nil},
		{src + "| 1 | b | | |\n", "1", roadmap.PR, "plan x", "step 1 appears 2 times", nil},
	} {
		got, err := roadmap.Set([]byte(c.src), c.step, c.cell, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) || got != nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

// Every cell of a file with several tables can be set, in any order, and the rest stays the same.
func TestSetAnyTable(t *testing.T) {
	src := []byte(whole)
	for _, id := range []string{"2.2", "1A.3", "1A.1", "2.1"} {
		before := string(src)
		changed, err := roadmap.Set(src, id, roadmap.PR, "plan 02-03-"+id)
		if err != nil {
			t.Fatal(err)
		}
		was, is := strings.Split(before, "\n"), strings.Split(string(changed), "\n")
		different := 0
		for i := range was {
			if was[i] != is[i] {
				different++
			}
		}
		if len(was) != len(is) || different != 1 {
			t.Errorf("step %s: %d lines differ\n%s", id, different, changed)
		}
		r, err := roadmap.Parse("x", changed)
		if err != nil || r.Step(id).Plan != "02-03-"+id {
			t.Errorf("step %s: got %+v, %v", id, r.Step(id), err)
		}
		src = changed
	}
}

// After an edit, tables of random cells in random layouts are read as before, except for that cell.
func TestSetRandom(t *testing.T) {
	texts := []string{"", "a", "`x`", "**b**", "a\\|b", "`a\\|b`", "[l](u)", "你好", "é", "<!-- c -->", "a <!-- c --> b", "\\", "\\\\", "x\\", "``a`b``", "1.", "| "}
	values := []string{"", "#12", "plan 02-03-x", "plan #4", "a|b", "|", `\|`, `x\`, "done", "blocked", "[#1](u)", "é 你好", "`a|b`", "-"}
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		pick := func(list []string) string { return list[rnd.IntN(len(list))] }
		src := random(rnd, func() string { return strings.ReplaceAll(pick(texts), "| ", "") })
		checkSet(t, fmt.Sprint("seed ", seed), src, rnd.IntN(4), []roadmap.Cell{roadmap.PR, roadmap.Status}[rnd.IntN(2)], pick(values))
	}
}

// random returns a file in a random layout, with a roadmap of four steps.
func random(rnd *rand.Rand, text func() string) []byte {
	var b strings.Builder
	pad := func() string { return strings.Repeat(" ", rnd.IntN(3)) }
	eol := []string{"\n", "\r\n"}[rnd.IntN(2)]
	lead, trail := rnd.IntN(2) == 0, rnd.IntN(2) == 0
	line := func(cells ...string) {
		if lead {
			b.WriteString("|")
		}
		for i, c := range cells {
			if i > 0 {
				b.WriteString(pad() + "|" + pad())
			}
			b.WriteString(c)
			if strings.HasSuffix(c, `\`) {
				b.WriteString(" ")
			}
		}
		if trail {
			b.WriteString(pad() + "|")
		}
		b.WriteString(pad() + eol)
	}
	b.WriteString("text" + eol + eol)
	line("Step", "Description", "PR", "Status")
	line("---", ":-:", "---", "--:")
	for i := range 4 {
		cells := []string{fmt.Sprintf("s%d", i), text(), []string{"", "-", "#1", "plan x", "[#1](u)"}[rnd.IntN(5)], []string{"", "blocked", "done"}[rnd.IntN(3)]}
		line(cells[:2+rnd.IntN(3)]...)
	}
	b.WriteString(eol + "after" + eol)
	return []byte(b.String())
}

// checkSet sets a cell of the nth step of src and compares what is read before and after it.
func checkSet(t *testing.T, name string, src []byte, n int, c roadmap.Cell, value string) {
	t.Helper()
	before, err := roadmap.Parse("x", src)
	if err != nil || n >= len(before.Steps) {
		return
	}
	id := before.Steps[n].ID
	out, err := roadmap.Set(src, id, c, value)
	if err != nil {
		return // refused, and nothing was changed
	}
	after, _ := roadmap.Parse("x", out)
	if len(after.Steps) != len(before.Steps) {
		t.Fatalf("%s: %d steps of %d in\n%q\nmade of\n%q", name, len(after.Steps), len(before.Steps), out, src)
	}
	for i, was := range before.Steps {
		is := after.Steps[i]
		for _, cell := range []roadmap.Cell{roadmap.PR, roadmap.Status} {
			want := was.Text(cell)
			if i == n && cell == c {
				want = strings.TrimSpace(value)
			}
			if is.Text(cell) != want {
				t.Fatalf("%s: step %s: %s is %q, want %q in\n%q\nmade of\n%q", name, was.ID, cell, is.Text(cell), want, out, src)
			}
		}
		if is.ID != was.ID || is.Description != was.Description || is.Line != was.Line {
			t.Fatalf("%s: got %+v, want %+v", name, is, was)
		}
	}
	if head, tail := common(src, out); strings.ContainsAny(string(src[head:len(src)-tail]), "\n") {
		t.Fatalf("%s: more than a row changed:\n%q\nmade of\n%q", name, out, src)
	}
	again, err := roadmap.Set(out, id, c, value)
	if err == nil && string(again) != string(out) {
		t.Fatalf("%s: again:\n%q\nwant\n%q", name, again, out)
	}
}

// common returns how many bytes two texts have in common at their beginnings and ends.
func common(a, b []byte) (head, tail int) {
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}
