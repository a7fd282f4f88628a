package criteria_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/criteria"
)

// uncovered is the first line of a prd.md, from 1, that says something and that neither an item nor a problem is
// about; 0 when there is none. Lines from first to last stand in one section. Of what no item covers, one problem
// speaks for lines that stand together.
func uncovered(prd string, first, last int) int {
	items, problems := criteria.Parse("prd.md", []byte(prd))
	lines := strings.Split(prd, "\n")
	covered, told := make([]bool, len(lines)+2), make([]bool, len(lines)+2)
	for _, it := range items {
		for n := it.First; n <= it.End; n++ {
			covered[n] = true
		}
	}
	empty := false // an item has a problem as a whole, and its verify lines with it
	for _, p := range problems {
		told[p.Line] = true
		empty = empty || strings.Contains(p.Message, "says nothing yet") || strings.Contains(p.Message, "struck out")
	}
	for from := first; from <= last; from++ {
		to, speaks, said := from, false, 0
		for ; to <= last && !covered[to]; to++ {
			speaks = speaks || told[to]
			if s := strings.TrimFunc(lines[to-1], func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(">-*_=", r) }); s != "" && said == 0 && !(empty && aboutItem.MatchString(s)) {
				said = to
			}
		}
		if said > 0 && !speaks {
			return said
		}
		from = to
	}
	return 0
}

var aboutItem = regexp.MustCompile("(?i)verif|level|^`|make|^x")

var fragments = []string{"- [ ] a", "- b", "  - c", "    - [x] d", "1. e", "(a) f", "prose", "prose of\ntwo lines", "An introduction:", "verify: `x`", "  verify: `x`", "  verify:", "  verify: `x` prints", "level: should", "  level: x",
	"", "", "", "### Part", "#### Part", "**Part**", "**Scenario: x**", "Given a", "When b", "- Then c", "**And** d", "| a | b |", "| Criterion | Verify |\n|---|---|\n| x | `y` |", "|---|---|", "```\n- [ ] no\n```", "  ```sh\n  make\n  ```",
	"```gherkin\nGiven x\n```", "- [ ]", "TBD", "- ~~gone~~", "> quoted", "• dot", "[ ] bare", "AC-1: g", "<b>html</b>", "-x", "***", "\ttabbed", "- verify: `x`", "verify with `y`", "* Level: must", "a | b\n--|--\nc | d | e", "1.5 seconds"}

// Whatever stands in a section is in the list or in the problems (edge C1).
func TestNothingIsDropped(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3_000 {
		var b strings.Builder
		b.WriteString("## Acceptance Criteria\n")
		for range 1 + r.IntN(12) {
			b.WriteString(fragments[r.IntN(len(fragments))] + "\n")
		}
		prd := b.String()
		last := strings.Count(prd, "\n")
		if n := uncovered(prd+"\n## Next\n- no\n", 2, last); n > 0 {
			t.Fatalf("line %d is dropped:\n%s\ngot %q", n, prd, read(prd))
		}
	}
}

// FuzzCriteria reads any section: nothing of it is dropped, and all items are of one line (edge S12).
func FuzzCriteria(f *testing.F) {
	f.Add("- [ ] a\n  verify: `x`\n")
	for _, s := range fragments {
		f.Add(s + "\n" + s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		prd := "## Acceptance Criteria\n" + strings.ReplaceAll(body, "\r", "")
		items, _ := criteria.Parse("prd.md", []byte(prd))
		for i, it := range items {
			if strings.Contains(it.Text+it.Verify, "\n") || it.Text == "" || it.Line < 1 || it.First > it.Line || it.End < it.Line || it.End > strings.Count(prd, "\n")+1 || it.Level != "" && it.Level != "must" && it.Level != "should" {
				t.Fatalf("item %d: %+v", i, it)
			}
		}
		last := 1
		for line := range strings.Lines(prd[strings.Index(prd, "\n")+1:]) {
			bare := strings.TrimLeftFunc(line, func(r rune) bool { return r == '>' || r != '\n' && unicode.IsSpace(r) })
			if strings.HasPrefix(bare, "#") || strings.Contains(line, "<!--") {
				break
			}
			if strings.TrimFunc(bare, func(r rune) bool { return unicode.IsSpace(r) || r == '=' || r == '-' }) == "" && bare != "\n" {
				last-- // what it underlines may be a heading
				break
			}
			last++
		}
		if n := uncovered(prd, 2, last); n > 0 {
			t.Fatalf("line %d is dropped: %q, got %q", n, prd, read(prd))
		}
	})
}

// shapes are documents of n bytes that are laid out to take long.
func shapes(n int) map[string]string {
	list := map[string]string{}
	for name, unit := range map[string]string{"boxes": "- [ ] a criterion of some length\n  verify: `make`\n", "one paragraph": "word\n", "headings": "## Acceptance Criteria\n", "headings below": "### x\n",
		"bold headings": "**Acceptance:** x\n\n", "colons": "a: b\n", "tables": "| a | b |\n|--|--|\n| c | d |\n", "open verify": "- a\n  verify:\n", "comments": "<!-- -->\n", "open comments": "<!-- \n", "fences": "```\n", "rising fences": "````",
		"ticks": "`", "bars": "|", "marks": "- ", "spaces": " ", "quotes": "> ", "Chinese": "验收", "scenario": "Given a\nWhen b\n", "one line": "a ", "verifies": "verify: `x` ", "numbers": "1. ", "brackets": "[ ", "accents": "é", "blank": "\n"} {
		list[name] = strings.Repeat(unit, n/len(unit)+1)
	}
	var nested, ticks strings.Builder
	for i := 0; nested.Len() < n; i++ {
		nested.WriteString(strings.Repeat(" ", i%2000) + "- x\n")
	}
	for i := 1; ticks.Len() < n; i++ {
		ticks.WriteString(strings.Repeat("`", i) + "a ")
	}
	list["nested"], list["rising ticks"] = nested.String(), ticks.String()
	return list
}

// Reading takes time in proportion to the length: what is quadratic takes minutes here, and the test does not end (edge
// S12). BenchmarkParse tells the speed.
func TestLinear(t *testing.T) {
	for name, body := range shapes(1 << 16) {
		if items, problems := criteria.Parse("prd.md", []byte("## Acceptance Criteria\n"+body)); len(items)+len(problems) == 0 {
			t.Errorf("%s: nothing is said of %d bytes", name, len(body))
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for name, body := range shapes(1 << 20) {
		prd := []byte("## Acceptance Criteria\n" + body)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(prd)))
			for b.Loop() {
				criteria.Parse("prd.md", prd)
			}
		})
	}
}
