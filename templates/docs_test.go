package templates_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/templates"
)

// The description of each prompt in docs/reference/prompts.md is made from the templates; TRELLIS_UPDATE_PROMPTS=1 writes it.
func TestPromptsAreDocumented(t *testing.T) {
	const page, mark = "../docs/reference/prompts.md", "<!-- made from the templates: TRELLIS_UPDATE_PROMPTS=1 go test ./templates -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), mark)
	want := head + mark + described(t)
	if os.Getenv("TRELLIS_UPDATE_PROMPTS") != "" && found {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is not what the templates are; after %s it should go on\n%s", page, mark, firstDifference(string(text), want))
	}
}

// described returns the description of all prompts: the purpose, the slots, and what each prompt must contain.
func described(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, name := range templates.Names() {
		slots, err := templates.Slots(name)
		if err != nil {
			t.Fatal(err)
		}
		said := templates.Purpose(name)
		if said == "" || !strings.Contains(said, "\nUsed ") {
			t.Errorf("the header of %s does not say what for and when it is used: %q", name, said)
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s%s\n\n| slot | | | what |\n| --- | --- | --- | --- |\n", name, strings.ToUpper(said[:1]), said[1:])
		for _, s := range slots {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, word(s.Required, "required", "optional"), word(s.Data, "data", "text"), s.Meaning)
		}
		var list []string
		for _, block := range blocks {
			if block.template == name {
				list = append(list, block.name)
			}
		}
		fmt.Fprintf(&b, "\nHolds: %s.\n", strings.Join(list, "; "))
	}
	return b.String()
}

func word(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}
