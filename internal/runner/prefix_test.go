package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// alike returns how many bytes of fenced texts are in both prompts, and how many of these are in their common beginning.
func alike(a, b string) (both, begin int) {
	common := 0
	for common < min(len(a), len(b)) && a[common] == b[common] {
		common++
	}
	for _, text := range fenced.FindAllStringIndex(a, -1) {
		if block := a[text[0]:text[1]]; strings.Contains(b, block) {
			both += len(block)
			if text[1] <= common {
				begin += len(block)
			}
		}
	}
	return both, begin
}

// fenced matches a text in a prompt. Its fence has a nonce made from the text, so equal texts are equal with their fences.
var fenced = regexp.MustCompile(`(?s)<data name="\w+" nonce="[^"]+">\n.*?\n</data nonce="[^"]+">`)

// beginAlike checks that any two prompts have at least four fifths of their common texts in their common beginning.
func beginAlike(t *testing.T, prompts map[string]string) {
	t.Helper()
	for name, a := range prompts {
		for other, b := range prompts {
			both, begin := alike(a, b)
			if name < other {
				t.Logf("%s and %s: %d of %d bytes", name, other, begin, both)
			}
			if both == 0 || float64(begin) < 0.8*float64(both) {
				t.Errorf("%s and %s have %d bytes of texts in common, of which %d are at the beginning", name, other, both, begin)
			}
		}
	}
}

const twoSteps = `{"title": "Say bye", "summary": "greet.sh says bye.", "requirements": ["bye"], "design_decisions": ["a flag, no program of its own"],
 "files": [{"path": "greet.sh", "change": "edit"}], "steps": [
 {"id": "look", "type": "prompt", "prompt": "Read greet.sh and say what it does.", "llm_as_judge": true},
 {"id": "add_flag", "type": "prompt", "prompt": "Let the program take --bye.", "verify": "test -s greet.sh"},
 {"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}, {"criterion": "it is friendly"}]}`

// Texts that prompts of a run share come first, where a provider's cache can serve them.
func TestPromptsOfARunBeginAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{answer: done}]\n  grade: [{answer: {reasoning: fine, feedback: \"\", pass: true}}]\n  check: [{answer: fine}]\n  debug: "+runnertest.Mend+
		"\n  accept: [{answer: {criteria: [{id: A2, verdict: met, evidence: \"it smiles\"}]}}]\n")
	dir := w.Hand("02-01-bye", runnertest.ByePRD+"- [ ] it is friendly\n")
	w.Write(".trellis/spec/index.md", "# Guidelines\n\n"+strings.Repeat("Keep it short.\n", 200))
	shared := `{"file": ".trellis/spec/index.md", "reason": "guidelines"}` + "\n"
	for name, text := range map[string]string{"plan.json": twoSteps, "implement.jsonl": shared + `{"file": "greet.sh", "reason": "the program"}` + "\n", "check.jsonl": shared} {
		w.Write(".trellis/tasks/02-01-bye/"+name, text)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	prompts := map[string]string{}
	part := regexp.MustCompile(`(?m)^# Your part: (.*)$`)
	for _, text := range w.heard("# Your part: ") {
		role := part.FindStringSubmatch(text)[1]
		prompts[fmt.Sprintf("%s %d", role, strings.Count(text, "Yours is add_flag"))] = text
	}
	if len(prompts) != 5 { // two steps, check, debug, accept
		t.Fatalf("got prompts of %d kinds", len(prompts))
	}
	beginAlike(t, prompts)
}

// The same holds with the context files of other projects.
func TestPromptsOfOthersTasksBeginAlike(t *testing.T) {
	corpus := os.Getenv("TRELLIS_CORPUS")
	if corpus == "" {
		t.Skip("TRELLIS_CORPUS does not name a folder with tasks of other projects")
	}
	lists, err := filepath.Glob(filepath.Join(corpus, "tasks", "*", "implement.jsonl"))
	if err != nil || len(lists) == 0 {
		t.Fatalf("got %q, %v", lists, err)
	}
	named := regexp.MustCompile(`"file": "([^"<]+)"`)
	for i, list := range lists {
		w := newWorld(t, runnertest.Working)
		id := fmt.Sprintf("02-%02d-other", i+1)
		dir := w.Hand(id, runnertest.ByePRD+"- [ ] it is friendly\n")
		w.Write(".trellis/tasks/"+id+"/plan.json", twoSteps)
		for _, name := range []string{"implement.jsonl", "check.jsonl", "debug.jsonl"} {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(list), name))
			if err != nil {
				continue
			}
			w.Write(".trellis/tasks/"+id+"/"+name, string(text))
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				if filepath.IsLocal(m[1]) && !strings.HasSuffix(m[1], "/") {
					w.Write(m[1], strings.Repeat("A line of "+m[1]+".\n", 100))
				}
			}
		}
		prompts := map[string]string{}
		for _, role := range []trellis.Role{trellis.Implement, trellis.Check, trellis.Debug, trellis.Accept} {
			p, _, _, err := w.Site.TaskRunner().Prompt(t.Context(), dir, role)
			if err != nil {
				t.Fatalf("%s: %v", list, err)
			}
			prompts[string(role)] = sameNonce(p.Text)
		}
		t.Log(filepath.Base(filepath.Dir(list)), slices.Max([]int{len(prompts["implement"]), len(prompts["check"])}))
		beginAlike(t, prompts)
	}
}

// sameNonce returns a prompt that is only shown as it would be in a run, where all fences begin with the same word.
func sameNonce(text string) string {
	word := regexp.MustCompile(`nonce="([^"-]+)-[^"]+"`).FindStringSubmatch(text)[1]
	return regexp.MustCompile(`nonce="`+word+`-[^"]+"`).ReplaceAllString(text, `nonce="n"`)
}
