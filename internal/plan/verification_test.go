package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// perPackage is a step that verifies packages in a loop, as a planner writes it for a repository of several packages.
const perPackage = `{"id": "verify_each", "for_each": ["api", "{{site}}"], "as": "pkg", "steps": [
  {"id": "lint", "command": "go vet ./{{pkg}}/...", "proof": {"type": "lint"}},
  {"id": "test", "command": "go test ./{{pkg}}/...", "proof": {"type": "test"}}]}`

// Edge C3: verification may be in a loop whose items are known, behind the work or as the whole plan. Its commands are those
// of every round.
func TestVerificationInALoop(t *testing.T) {
	commands := []string{"go vet ./api/...", "go test ./api/...", "go vet ./web/...", "go test ./web/..."}
	confirmed := []string{"go vet ./api/...", "go vet ./web/...", "go test ./api/...", "go test ./web/..."} // lint before test
	more := append(slices.Clone(confirmed), "go build ./...")
	for name, steps := range map[string]string{"behind the work": step + ",\n" + perPackage, "all there is": perPackage} {
		text := doc(`"vars": {"site": "web"},`+"\n", steps)
		check(t, name, text, plan.Facts{Confirmed: &confirmed}, "")
		p, problems := plan.Parse([]byte(text))
		if p == nil {
			t.Fatal(told(problems))
		}
		if got := p.Verification(); !slices.Equal(got, commands) {
			t.Errorf("%s: got %q", name, got)
		}
		if got := p.VerificationAt(); got != len(p.Steps)-1 {
			t.Errorf("%s: verification begins at %d", name, got)
		}
		if problems := told(p.Check(plan.Facts{Confirmed: &more})); !strings.Contains(problems, "leave out these commands, which must be among them to the letter, the items of loops put in: `go build ./...`") {
			t.Errorf("%s, a command left out: %s", name, problems)
		}
	}
}

// The verification of each round has the path that a run gives it, and sets the variable of its loop if the command uses that.
func TestVerificationsOfRounds(t *testing.T) {
	const each = `{"id": "each", "for_each": ["it's"], "steps": [{"id": "t", "repeat": 2, "as": "n", "command": "go test \"$item\" -count={{n}}", "proof": {"type": "test"}}]}`
	p, problems := plan.Parse([]byte(doc("", step+",\n"+each)))
	if p == nil {
		t.Fatal(told(problems))
	}
	var got []string
	for _, v := range p.Verifications() {
		got = append(got, v.Path+" "+v.Command)
	}
	want := []string{`each.1.t.1 item='it'\''s'; export item; go test "$item" -count=1`, `each.1.t.2 item='it'\''s'; export item; go test "$item" -count=2`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A group is a step like others if only a run can tell its items, if it may fail, if it also works, or if it is too large.
func TestGroupsThatDoNotVerify(t *testing.T) {
	const test = `{"id": "t", "command": "go test ./api", "proof": {"type": "test"}}`
	for name, last := range map[string]string{
		"items of a command": `{"id": "g", "for_each": "git ls-files", "steps": [` + test + `]}`,
		"may fail":           `{"id": "g", "continue_on_error": true, "steps": [` + test + `]}`,
		"one works":          `{"id": "g", "steps": [{"id": "w", "prompt": "p", "verify": "go vet"}, ` + test + `]}`,
		"too many":           `{"id": "g", "repeat": 60, "steps": [` + test + `]}`,
		"endless":            `{"id": "g", "repeat": 5000, "steps": [{"id": "h", "repeat": 5000, "steps": [` + test + `]}]}`,
	} {
		p, problems := plan.Parse([]byte(doc("", step+",\n"+last)))
		if p == nil {
			t.Fatal(told(problems))
		}
		if got := p.Verification(); len(got) > 0 || p.VerificationAt() != 2 {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// The commands of a loop are checked with each of its items.
func TestChecksOfRounds(t *testing.T) {
	gone := func(line string) string {
		if strings.Contains(line, "web") {
			return "web has no tests"
		}
		return missing(line)
	}
	text := doc("", `{"id": "each", "for_each": ["api", "web"], "steps": [{"id": "t", "command": "go test ./{{item}}", "proof": {"type": "test"}}]}`)
	check(t, "the second", text, plan.Facts{Missing: gone}, "3 /steps/0/steps/0/command: step t: `go test ./web`: web has no tests")
}

// Edge C3: files of executant that check each package in a loop, behind the work or as the whole file, are accepted as they
// are, like a file that checks at the top level.
func TestExecutantVerifiesInALoop(t *testing.T) {
	each := []string{"- name: check each", "  forEach: [libs/core, apps/site]", "  steps:", "  - {name: 'lint {{item}}', type: script, command: 'go vet ./{{item}}'}", "  - {name: 'test {{item}}', type: script, command: 'go test ./{{item}}'}"}
	work := []string{"- {name: add a package, prompt: Add a package that logs., llm_as_judge: true}"}
	top := []string{"- {name: lint, command: go vet ./...}", "- {name: test, command: go test ./...}"}
	for name, lines := range map[string][]string{"all there is": each, "behind the work": append(slices.Clone(work), each...), "at the top": append(slices.Clone(work), top...)} {
		loads(t, name, plan.LoadOptions{}, "", "e.yaml", goal(lines...))
	}
}
