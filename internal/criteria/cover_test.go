package criteria_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/criteria"
)

// uncovered returns the number, from 1, of the first line of a prd.md with text that neither an item nor a problem
// covers, or 0 if there is none. It checks lines first to last, which are in one section. One problem covers all
// adjacent lines that no item covers.
func uncovered(prd string, first, last int) int {
	items, problems := criteria.Parse("prd.md", []byte(prd))
	lines := strings.Split(prd, "\n")
	covered, told := make([]bool, len(lines)+2), make([]bool, len(lines)+2)
	for _, it := range items {
		for n := it.First; n <= it.End; n++ {
			covered[n] = true
		}
	}
	empty := false // a whole item was reported as a problem, which covers its verify lines too
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

// All text of a section ends up in an item or in a problem (edge C1).
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

// FuzzCriteria parses arbitrary sections: no text is dropped, and the text of each item is a single line (edge S12).
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
				last-- // the line above may be a heading that this one underlines
				break
			}
			last++
		}
		if n := uncovered(prd, 2, last); n > 0 {
			t.Fatalf("line %d is dropped: %q, got %q", n, prd, read(prd))
		}
	})
}

// shapes returns documents of at least n bytes that are designed to be slow to parse, by name.
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

// Parse takes time in proportion to the length of a document: quadratic code would take minutes, and the test would time out
// (edge S12). BenchmarkParse measures the speed.
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
