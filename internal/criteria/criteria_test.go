package criteria_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/criteria"
)

// read parses a prd.md and returns one line for each item, then one for each problem.
func read(prd string) (got []string) {
	items, problems := criteria.Parse("prd.md", []byte(prd))
	for _, it := range items {
		s := fmt.Sprintf("%d-%d %s", it.First, it.End, it.Text)
		if it.Verify != "" {
			s += " | " + it.Verify
		}
		if it.Level != "" {
			s += " | " + it.Level
		}
		got = append(got, s)
	}
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		got = append(got, fmt.Sprintf("%s %d %s", kind, p.Line, p.Message))
	}
	return got
}

const unclear = `this verify line names no clear command: it is read as one command, or as several in code with nothing but "and" between them`

// A word that is nearly the name of a key is reported, with that key; a word that is only a little like it is not.
func TestMisspelledKeys(t *testing.T) {
	for item, want := range map[string]string{
		"- a\n  verfy: `x`":                     `2 "verfy" verify`,
		"- a\n  - **Verifiy with:** `x`":        `2 "Verifiy with" verify`,
		"- a\n  veryfy: go test":                `2 "veryfy" verify`,
		"- a\n  verfy `x`":                      `2 "verfy" verify`,
		"- a\n- verifies: `x`":                  `2 "verifies" verify`,
		"- a\n  - verifed by: `x`":              `2 "verifed by" verify`,
		"- a\n  verifcation: `x`":               `2 "verifcation" verify`,
		"- a (verfy: `x`)":                      `1 "verfy" verify`,
		"| Criterion | Verfy |\n|-|-|\n|a|`x`|": `1 "Verfy" verify`,
		"- a\n  levl: should":                   `2 "levl" level`,
		"- a\n  verify: `x`":                    "",
		"- a\n  prüfen: `x`":                    "",
		"- a\n  very: `x` is fine":              "",
		"- a\n  variation: b":                   "",
		"- a\n  with `x`":                       "",
		"- a\n  note: `x`":                      "",
		"- a\n  levels: three of them":          "",
		"- the very `x`":                        "",
		"- Verified users: they see `x`":        "",
		"- verify that the user sees `x`":       "",
	} {
		_, problems := criteria.Parse("prd.md", []byte("## Acceptance Criteria\n"+item+"\n"))
		var got []string
		for _, p := range problems {
			name, _, _ := strings.Cut(p.Message, " is read as a part of the criterion")
			got = append(got, fmt.Sprintf("%d %s %s", p.Line-1, name, strings.TrimPrefix(p.Hint, "did you mean: ")))
			if !p.Warning {
				t.Errorf("%s: %s is an error", item, p.Message)
			}
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s: got %s, want %s", item, got, want)
		}
	}
}

// Every spelling is read as it is meant, or is an error with its line (edge C1).
func TestSpellings(t *testing.T) {
	type list = []string
	for _, c := range []struct {
		name, prd string
		want      list
	}{
		// Headings.
		{"as ever", "## Acceptance Criteria\n\n- [ ] a\n- [x] b\n", list{"3-3 a", "4-4 b"}},
		{"level 1, not the title", "# T\n\n# Acceptance Criteria\n- a\n", list{"4-4 a"}},
		{"level 1, alone in the file", "# Acceptance Criteria\n- a\n", list{"2-2 a"}},
		{"a title that begins with the word", "# Acceptance tests run nightly\n\nBecause.\n", nil},
		{"level 3", "### Acceptance Criteria\n- a\n", list{"2-2 a"}},
		{"level 6, closed", "###### Acceptance Criteria ######\n- a\n", list{"2-2 a"}},
		{"no space after the signs", "##Acceptance Criteria\n- a\n", list{"2-2 a"}},
		{"evolving", "## Acceptance Criteria (evolving)\n- [ ] a\n  verify: `false`\n", list{"2-3 a | false"}},
		{"one word", "## Acceptance\n- a\n", list{"2-2 a"}},
		{"tests", "## Acceptance tests\n- a\n", list{"2-2 a"}},
		{"done", "## Definition of Done (DoD)\n- a\n## Done when\n- b\n## DoD\n- c\n", list{"2-2 a", "4-4 b", "6-6 c"}},
		{"capitals, colon, emoji, number", "## ✅ 5.2. ACCEPTANCE CRITERIA:\n- a\n", list{"2-2 a"}},
		{"bold in a heading", "## **Acceptance Criteria**\n- a\n", list{"2-2 a"}},
		{"an anchor", "## Acceptance Criteria {#ac}\n- a\n", list{"2-2 a"}},
		{"underlined twice", "Acceptance Criteria\n===================\n- a\n", list{"3-3 a"}},
		{"underlined", "Acceptance Criteria\n---\n- a\n\nNext\n----\n- b\n", list{"3-3 a"}},
		{"in bold", "**Acceptance Criteria**\n- a\n\n**Notes**\n- b\n", list{"2-2 a"}},
		{"in bold, colon inside", "text\n\n**Acceptance Criteria:**\n\n- a\n\n## Next\n- b\n", list{"5-5 a"}},
		{"in bold, colon outside", "__Acceptance criteria__:\n1. a\n2. b\n", list{"2-2 a", "3-3 b"}},
		{"in bold, with what it says", "**Definition of done (each step):** moved and\ngreen\n\nMore prose.\n", list{"1-2 moved and green"}},
		{"in bold, in a list", "- **Goal:** g\n- **Acceptance criteria:** it can decline\n- **Tests:** t\n", list{"2-2 it can decline"}},
		{"in bold, in a list, with a list", "- **Acceptance Criteria**:\n    - a\n    - b\n- **Tests**:\n    - c\n", list{"2-2 a", "3-3 b"}},
		{"a line with a colon", "Acceptance criteria:\n- a\n", list{"2-2 a"}},
		{"a line with a colon, at the end of a paragraph", "It is small.\nAcceptance criteria:\n- a\n- b\n", list{"3-3 a", "4-4 b"}},
		{"prose that speaks of them, with a list", "It is small, and the\nacceptance criteria: see\n- a\n", nil},
		{"numbers that are letters", "## IV. Acceptance\n- a\n## B) DoD\n- b\n## 五、验收\n- c\n## （三）验收\n- d\n## 第六章 验收\n- e\n", list{"2-2 a", "4-4 b", "6-6 c", "8-8 d", "10-10 e"}},
		{"prose that speaks of them", "The acceptance criteria: see elsewhere.\n\n**Acceptance criteria are checked** by all.\n", nil},
		{"at the end of a heading", "## Phase 1: Acceptance Criteria\n- a\n", list{"2-2 a"}},
		{"within a heading", "## How acceptance criteria come about\n- a\n", list{`warning 1 "How acceptance criteria come about" is not read as a heading of acceptance criteria`}},
		{"Chinese", "## 验收标准（对应 spec §8）\n- a\n## 七、验收条件\n- b\n## 功能验收标准\n- c\n", list{"2-2 a", "4-4 b", "6-6 c"}},
		{"Chinese, traditional", "## 驗收標準\n1、a\n2、b\n", list{"2-2 a", "3-3 b"}},
		{"Japanese", "## 受け入れ条件（案）\n- a\n## 完了の定義\n- b\n", list{"2-2 a", "4-4 b"}},
		{"Korean", "## 인수 조건\n- a\n## 완료 조건\n- b\n", list{"2-2 a", "4-4 b"}},
		{"German", "## Akzeptanzkriterien\n- a\n## Abnahmekriterien\n- b\n## Fertig, wenn\n- c\n", list{"2-2 a", "4-4 b", "6-6 c"}},
		{"French", "## Critères d’acceptation\n- a\n## CRITERES D'ACCEPTATION\n- b\n", list{"2-2 a", "4-4 b"}},
		{"Spanish", "## Criterios de aceptación\n- a\n## Criterios de aceptacio\u0301n\n- b\n", list{"2-2 a", "4-4 b"}},
		{"Portuguese, Italian", "## Critérios de aceite\n- a\n## Criteri di accettazione\n- b\n", list{"2-2 a", "4-4 b"}},
		{"Russian", "## Критерии приёмки Фазы 0\n- a\n## КРИТЕРИИ ПРИЕМКИ\n- b\n", list{"2-2 a", "4-4 b"}},
		{"Polish, Dutch, Turkish", "## Kryteria akceptacji\n- a\n## Acceptatiecriteria\n- b\n## Kabul kriterleri\n- c\n", list{"2-2 a", "4-4 b", "6-6 c"}},
		{"two sections", "## Acceptance\n- a\n## Plan\n- no\n## Done when\n- b\n", list{"2-2 a", "6-6 b"}},

		// Where a section ends.
		{"a heading of the same level", "### Acceptance\n- a\n### Notes\n- no\n", list{"2-2 a"}},
		{"a heading of a higher level", "### Acceptance\n- a\n# Notes\n- no\n", list{"2-2 a"}},
		{"headings beneath", "## Acceptance\n### API\n- a\n\n#### Errors\n- b\n### UI\n- c\n", list{"2-3 a", "5-6 b", "7-8 c"}},
		{"headings that are criteria", "## Acceptance\n### AC-1: it starts\n### AC-2: it stops\nverify: `make stop`\n", list{"2-2 AC-1: it starts", "3-4 AC-2: it stops | make stop"}},
		{"bold lines beneath", "## Acceptance\n\n**API:**\n- a\n\n**UI**\n- b\n", list{"3-4 a", "6-7 b"}},
		{"a break", "## Acceptance\n- a\n---\n- b\n\n***\n", list{"2-2 a", "4-4 b"}},
		{"a sentence above a break", "## Acceptance\nIt works.\n---\n## Next\n", list{"2-2 It works."}},

		// Lists.
		{"bullets of all kinds", "## Acceptance\n- a\n* b\n+ c\n• d\n– e\n✅ f\n☐ g\n", list{"2-2 a", "3-3 b", "4-4 c", "5-5 d", "6-6 e", "7-7 f", "8-8 g"}},
		{"numbers of all kinds", "## Acceptance\n1. a\n2) b\n(3) c\n(d) d\ne) e\n(iv) f\n① g\n10. h\n", list{"2-2 a", "3-3 b", "4-4 c", "5-5 d", "6-6 e", "7-7 f", "8-8 g", "9-9 h"}},
		{"boxes of all kinds", "## Acceptance\n- [ ] a\n- [x] b\n- [X] c\n- [✓] d\n* [✔] e\n1. [ ] f\n- [-] g\n", list{"2-2 a", "3-3 b", "4-4 c", "5-5 d", "6-6 e", "7-7 f", "8-8 g"}},
		{"boxes with wrong spacing", "## Acceptance\n-[ ] a\n- []b\n- [  ] c\n- [ x] d\n-  [x]e\n[ ] f\n[x] g\n", list{"2-2 a", "3-3 b", "4-4 c", "5-5 d", "6-6 e", "7-7 f", "8-8 g"}},
		{"a link is not a box", "## Acceptance\n- [x](y) works\n- [a](b)\n", list{"2-2 [x](y) works", "3-3 [a](b)"}},
		{"nested", "## Acceptance\n- [ ] a\n  - [ ] b\n    - c\n      1. d\n- e\n", list{"2-2 a", "3-3 b", "4-4 c", "5-5 d", "6-6 e"}},
		{"nested below an introduction", "## Acceptance\n- The API:\n  - a\n  - b\n", list{"2-3 a", "4-4 b"}},
		{"an introduction", "## Acceptance\n\nAll of these hold:\n\n- a\n- b\n", list{"3-5 a", "6-6 b"}},
		{"an introduction to nothing", "## Acceptance\n\nAll of these hold:\n", list{"3-3 All of these hold:"}},
		{"indented", "## Acceptance\n\n    - [ ] a\n\t- b\n", list{"3-3 a", "4-4 b"}},
		{"in a quote", "> ## Acceptance\n> - [ ] a\n>   verify: `x`\n", list{"2-3 a | x"}},
		{"wrapped", "## Acceptance\n- a long\n  story\nof three\n\n  and more\n- b\n", list{"2-6 a long story of three and more", "7-7 b"}},
		{"Windows, old Mac", "## Acceptance\r\n- a\r\n  verify: `x`\r\n", list{"2-3 a | x"}},
		{"old Mac", "## Acceptance\r- a\r- b\r", list{"2-2 a", "3-3 b"}},
		{"a byte order mark and front matter", "\ufeff---\ntitle: x\nacceptance: y\n---\n## Acceptance\n- a\n", list{"6-6 a"}},
		{"dashes without a space", "## Acceptance\n-a\n-b\n", list{"2-2 -a", "3-3 -b"}},
		{"struck out", "## Acceptance\n- ~~a~~\n- b\n", list{"3-3 b", "warning 2 this acceptance criterion is struck out and does not count"}},
		{"numbers of one's own", "## Acceptance\n**AC-001**: a\n**AC-002**: b\nmore\n", list{"2-2 **AC-001**: a", "3-4 **AC-002**: b more"}},

		// Prose.
		{"prose", "## Acceptance\n\nIt starts,\nand stops.\n\nIt says bye.\n", list{"3-4 It starts, and stops.", "6-6 It says bye."}},
		{"prose after a list", "## Acceptance\n- a\n\nAnd b.\n", list{"2-2 a", "4-4 And b."}},
		{"a scenario", "## Acceptance\nGiven a\nWhen b\nThen c\n\nGiven d\nWhen e\nThen f\n", list{"2-4 Given a When b Then c", "6-8 Given d When e Then f"}},
		{"scenarios in one paragraph", "## Acceptance\nGiven a\nWhen b\nThen c\nGiven d\nWhen e\nThen f\n", list{"2-4 Given a When b Then c", "5-7 Given d When e Then f"}},
		{"a scenario in bold, with blank lines", "**Acceptance Criteria:**\n\n**Given** a\n\n**When** b\n\n**Then** c\n**And** d\n", list{"3-8 **Given** a **When** b **Then** c **And** d"}},
		{"a scenario in a list", "## Acceptance\n- Given a\n- When b\n- Then c\n- Given d, when e, then f\n- Given g, when h, then i\n", list{"2-4 Given a When b Then c", "5-5 Given d, when e, then f", "6-6 Given g, when h, then i"}},
		{"scenarios with titles", "## Acceptance\n**Scenario: one**\nGiven a\nThen b\n\nScenario: two\n  Given c\n  Then d\n", list{"2-4 Given a Then b", "6-8 Scenario: two Given c Then d"}},
		{"a block of scenarios", "## Acceptance\n```gherkin\nScenario: one\n  Given a\n  Then b\n```\n", list{"2-6 Scenario: one Given a Then b"}},

		// Commands.
		{"in code", "## Acceptance\n- a\n  verify: `make`\n", list{"2-3 a | make"}},
		{"bare", "## Acceptance\n- a\n  verify: make test\n", list{"2-3 a | make test"}},
		{"not indented", "## Acceptance\n- a\nverify: make test\n", list{"2-3 a | make test"}},
		{"in bold", "## Acceptance\n- a\n  **Verify:** `make`\n- b\n  **Verify**: `ls`\n", list{"2-3 a | make", "4-5 b | ls"}},
		{"verify with", "## Acceptance\n- a\n  verify with `make`\n- b\n  Verified by: `ls`\n- c (verify: `x`)\n- d — verify with `y`.\n", list{"2-3 a | make", "4-5 b | ls", "6-6 c | x", "7-7 d | y"}},
		{"on a bullet below", "## Acceptance\n- a\n  - verify: `make`\n  - level: should\n", list{"2-4 a | make | should"}},
		{"on a bullet beside", "## Acceptance\n- a\n- verify: `make`\n- Verify: it works by hand\n", list{"2-3 a | make", "4-4 Verify: it works by hand"}},
		{"below a nested one", "## Acceptance\n- a\n  - b\n    verify: `x`\n  verify: `y`\n", list{"2-5 a | y", "3-4 b | x"}},
		{"in a block", "## Acceptance\n- a\n  verify:\n  ```sh\n  # both\n  $ make a\n  make b \\\n    --fast\n  ```\n", list{"2-9 a | make a && make b --fast"}},
		{"in a block that is a script", "## Acceptance\n- a\n  verify:\n  ```\n  for x in 1 2; do\n    ls\n  done\n  ```\n", list{"2-8 a", "error 4 this block is not a list of commands, one a line, that can be run one after the other"}},
		{"on the next line", "## Acceptance\n- a\n  verify:\n    make test\n- b\n  verify:\n    - `x`\n    - `y; z`\n", list{"2-4 a | make test", "5-8 b | x && ( y; z )"}},
		{"several", "## Acceptance\n- a\n  verify: `x`\n  verify: `y`\n- b\n  verify: `x` and `y`\n", list{"2-4 a | x && y", "5-6 b | x && y"}},
		{"ticks in code", "## Acceptance\n- a\n  verify: `` echo `date` ``\n", list{"2-3 a | echo `date`"}},
		{"bars and comments in code", "## Acceptance\n- a\n  verify: `grep '<!-- x -->' f | wc -l`\n", list{"2-3 a | grep '<!-- x -->' f | wc -l"}},
		{"with an end", "## Acceptance\n- a\n  verify: run `make` passes.\n", list{"2-3 a | make"}},
		{"with words", "## Acceptance\n- a\n  verify: `make` prints 3\n", list{"2-3 a", "error 3 " + unclear}},
		{"in prose", "## Acceptance\n- a\n  verify: manually, in the browser\n- b\n  - Verify: the page loads\n- c\n  verify: TBD\n- d\n  verify: n/a\n- e\n  **Verify:** -\n", list{"2-3 a", "4-5 b", "6-7 c", "8-9 d", "10-11 e", "error 3 " + unclear, "error 5 " + unclear, "error 7 " + unclear, "error 9 " + unclear, "error 11 " + unclear}},
		{"in code that begins like prose", "## Acceptance\n- a\n  verify: `all --fast`\n", list{"2-3 a | all --fast"}},
		{"at the end, not in code", "## Acceptance\n- a (verify: make a)\n", list{"2-2 a (verify: make a)", "warning 2 what this acceptance criterion is to be verified with is not in code, and is not run"}},
		{"at the end, behind a dash or nothing", "## Acceptance\n- a - verify: make a\n- b verify: make b\n- c re-verify: make c\n- d verify: all of it\n", list{"2-2 a - verify: make a", "3-3 b verify: make b", "4-4 c re-verify: make c", "5-5 d verify: all of it",
			"warning 2 what this acceptance criterion is to be verified with is not in code, and is not run", "warning 3 what this acceptance criterion is to be verified with is not in code, and is not run"}},
		{"without a command", "## Acceptance\n- a\n  verify:\n- b\n", list{"2-3 a", "4-4 b", "error 3 " + unclear}},
		{"below nothing", "## Acceptance\nverify: `make`\n", list{"error 2 this verify line is not below an acceptance criterion"}},
		{"a criterion that says verify", "## Acceptance\n- [ ] Verify that it works\n- [ ] Verify: it stops\n", list{"2-2 Verify that it works", "3-3 Verify: it stops"}},
		{"in Chinese", "## 验收标准\n- 通过\n  验证：`make`\n", list{"2-3 通过 | make"}},
		{"levels", "## Acceptance\n- a\n  level: SHOULD\n- b\n  **Level**: must\n- c\n  level: maybe\n", list{"2-3 a | should", "4-5 b | must", "6-7 c", `error 7 level "maybe" is neither must nor should`}},

		// Tables.
		{"a table", "## Acceptance\n\n| # | Criterion | Verify | Level |\n|---|---|---|---|\n| 1 | a | `x \\| y` | should |\n| 2 | b | | |\n", list{"3-5 a | x | y | should", "6-6 b"}},
		{"a table without a name we know", "## Acceptance\n| Input | Output |\n|:--|--:|\n| 1 | 2 |\n", list{"2-4 Input: 1; Output: 2"}},
		{"a table with prose that verifies", "## Критерии приёмки\n| # | Критерий | Проверка | Статус |\n|--|--|--|--|\n| 1 | a | вручную | да |\n", list{"2-4 a (Проверка: вручную)"}},
		{"a table where people verify", "## Acceptance\n| Criterion | Verify |\n|--|--|\n| a | manual test |\n| b | TBD |\n", list{"2-4 a (Verify: manual test)", "5-5 b (Verify: TBD)"}},
		{"a table without bars around", "## Acceptance\nCriterion | Command\n--- | ---\na | make\n", list{"2-4 a | make"}},
		{"a table with boxes", "## Acceptance\n| | Criterion |\n|---|---|\n| [ ] | a |\n", list{"2-4 a"}},
		{"a table that is none", "## Acceptance\n| a | b |\n| c | d |\n", list{"error 2 this looks like the row of a table, but there is no table here", "error 3 this looks like the row of a table, but there is no table here"}},
		{"a row that is too long", "## Acceptance\n| Criterion |\n|---|\n| a | b |\n", list{"2-4 a", "error 4 this row has 2 cells, the head of the table has 1"}},
		{"a table without rows", "## Acceptance\n| Criterion |\n|---|\n", list{"error 2 this head of a table belongs to no acceptance criterion"}},

		// Text that is not a criterion.
		{"comments", "## Acceptance\n<!-- - [ ] no -->\n- a <!-- no -->\n<!--\n- [ ] no\n## Next\n-->\n- b\n", list{"3-3 a", "8-8 b"}},
		{"a comment that nothing closes", "## Acceptance\n- a\n<!-- note\n- b\n", list{"2-3 a <!-- note", "4-4 b"}},
		{"examples", "## Acceptance\n- a\n  ```\n  - [ ] no\n  ## Next\n  ```\n- b\n\n~~~md\n- [ ] no\n~~~\n", list{"2-6 a", "7-11 b"}},
		{"an example before", "## Acceptance\n```\n- [ ] no\n## Other\n```\n- [ ] yes\n", list{"2-6 yes"}},
		{"an example alone", "## Acceptance\n```\nmake\n```\n", list{"error 2 this code block belongs to no acceptance criterion"}},
		{"a fence that nothing closes", "## Acceptance\n- a\n```\n- b\n", list{"2-4 a", "error 3 this code fence is never closed: what follows is not read as acceptance criteria"}},
		{"a fence that hides the heading", "```\ncode\n\n## Acceptance\n- b\n", list{"error 1 this code fence is never closed, it hides the heading of line 4"}},
		{"a conflict", "## Acceptance\n<<<<<<< HEAD\n- a\n=======\n- b\n>>>>>>> x\n\n<<<<<<< HEAD\n=======\n>>>>>>> x\n", list{"2-2 <<<<<<< HEAD", "3-4 a =======", "5-6 b x", "error 2 git left a merge conflict here"}},
		{"a conflict in a quote", "# One\n\n> <<<<<<< HEAD\n> =======\n> >>>>>>> x\n", nil},
		{"one of its marks", "# One\n\nHow we handle\n<<<<<<< HEAD in files.\n", nil},
		{"a conflict as an example", "```\n<<<<<<< HEAD\n=======\n>>>>>>> x\n```\n    <<<<<<< HEAD\n", list{"warning 2 there is a merge conflict here, in code"}},
		{"a conflict of where code begins", "<<<<<<< HEAD\n```go\n=======\n```\n>>>>>>> x\n```\n", list{"error 1 git left a merge conflict here"}},
		{"a conflict that ends in code", "<<<<<<< HEAD\n```go\n=======\n>>>>>>> x\n```\n", list{"warning 1 there is a merge conflict here, in code"}},
		{"a word of a conflict above an example", "<<<<<<< HEAD in files.\n\n```\n<<<<<<< HEAD\n=======\n>>>>>>> x\n```\n", list{"warning 4 there is a merge conflict here, in code"}},
		{"parts of examples around a heading", "```\n<<<<<<< HEAD\n```\n\nOne\n=======\n\n```\n>>>>>>> x\n```\n", nil},
		{"a conflict below an example", "```\n<<<<<<< HEAD\n=======\n>>>>>>> x\n```\n<<<<<<< HEAD\n=======\n>>>>>>> x\n", list{"warning 2 there is a merge conflict here, in code", "error 6 git left a merge conflict here"}},
		{"empty", "## Acceptance Criteria\n\n## Next\n", list{"warning 1 there is no acceptance criterion under this heading"}},
		{"still to be written", "## Acceptance\n- [ ]\n- TBD\n- ...\n- a\n", list{"5-5 a", `error 2 an acceptance criterion that says nothing yet: ""`, `error 3 an acceptance criterion that says nothing yet: "TBD"`, `error 4 an acceptance criterion that says nothing yet: "..."`}},
		{"later", "## Acceptance\n\nlater\n", list{`error 3 an acceptance criterion that says nothing yet: "later"`}},
		{"elsewhere", "- [ ] no\n## Tasks\n- [ ] no\n", nil},
		{"nothing", "", nil},
	} {
		if got := read(c.prd); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\ngot  %q\nwant %q", c.name, c.prd, got, c.want)
		}
	}
}

// Each real prd.md with a heading for acceptance criteria yields an item or a problem.
func TestCorpus(t *testing.T) {
	root := os.Getenv("TRELLIS_CORPUS")
	if root == "" {
		t.Skip("TRELLIS_CORPUS is not set: no real prd.md to read")
	}
	files, silent := 0, 0
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "prd.md" {
			return err
		}
		prd, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		items, problems := criteria.Parse(path, prd)
		for line := range strings.Lines(strings.ToLower(string(prd))) {
			if strings.HasPrefix(line, "#") && strings.Contains(line, "acceptance criteria") && len(items)+len(problems) == 0 {
				silent++
				t.Errorf("%s: nothing is said of the criteria under %q", path, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d prd.md, %d of them read in silence", files, silent)
}
