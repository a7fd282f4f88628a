package plan_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/templates"
)

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/reference/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The examples in docs/reference/plan.md are a plan without problems, and the TaskSpec that it covers.
func TestExamplesInDocs(t *testing.T) {
	var examples []string
	for _, part := range strings.Split(page(t), "```json\n")[1:] {
		doc, _, _ := strings.Cut(part, "```")
		examples = append(examples, doc)
	}
	if len(examples) != 2 {
		t.Fatalf("got %d examples, want a plan and a TaskSpec", len(examples))
	}
	spec, wrong := plan.ParseTaskSpec([]byte(examples[1]))
	if spec == nil {
		t.Fatal(wrong)
	}
	p, problems := plan.Parse([]byte(examples[0]))
	if p == nil || len(problems) > 0 {
		t.Fatal(told(problems))
	}
	there := func(path string) (bool, error) { return path == "api/list.go", nil }
	same(t, "docs/reference/plan.md", told(p.Check(plan.Facts{MaxSteps: 20, Exists: there, Missing: missing, Confirmed: &[]string{"go vet ./...", "go test ./..."}, Spec: spec})), "")
}

// The example of a file for trellis run loads, with the files that it calls.
func TestRunExampleInDocs(t *testing.T) {
	_, example, _ := strings.Cut(page(t), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	const deploy = "schema_version: 1\ntitle: D\nvars: {region: }\nsteps: [{id: a, command: 'make {{region}}'}]\n"
	b := loads(t, "docs/reference/plan.md", plan.LoadOptions{Given: map[string]string{"region": "eu"}}, "", "release.yaml", example, "deploy/api.yaml", deploy, "deploy/web.yaml", deploy)
	if len(b.Plans) != 3 {
		t.Errorf("got %d files", len(b.Plans))
	}
}

// fields returns the paths of all values that a schema knows, such as steps[].proof.type. Steps and proofs are expanded once,
// not within themselves.
func fields(t *testing.T, name string) (list []string) {
	t.Helper()
	raw, err := templates.Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(schema map[string]any, path string, within []string)
	walk = func(schema map[string]any, path string, within []string) {
		if ref, ok := schema["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/$defs/")
			if slices.Contains(within, name) {
				list = append(list, strings.TrimSuffix(path, "[]"))
				return
			}
			walk(root["$defs"].(map[string]any)[name].(map[string]any), path, append(within, name))
			return
		}
		properties, object := schema["properties"].(map[string]any)
		items, isList := schema["items"].(map[string]any)
		if branches, ok := schema["oneOf"].([]any); ok && strings.HasSuffix(path, "[]") {
			for _, b := range branches {
				walk(b.(map[string]any), path, within)
			}
			return
		}
		switch {
		case object:
			for key, sub := range properties {
				walk(sub.(map[string]any), strings.TrimPrefix(path+"."+key, "."), within)
			}
		case isList:
			walk(items, path+"[]", within)
		default:
			list = append(list, path)
		}
	}
	walk(root, "", nil)
	slices.Sort(list)
	return slices.Compact(list)
}

// Every field of plan.json and taskspec.json has a reader in the tables of docs/reference/plan.md, which list no other field.
func TestWhoReadsWhat(t *testing.T) {
	_, tables, _ := strings.Cut(page(t), "\n## Who reads what\n")
	for name, heading := range map[string]string{"plan": "| field of plan.json | reader |\n", "taskspec": "| field of taskspec.json | reader |\n"} {
		_, table, _ := strings.Cut(tables, heading)
		table, _, _ = strings.Cut(table+"\n", "\n\n")
		var got []string
		for row := range strings.Lines(table) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
			if strings.HasPrefix(row, "| `") && len(cells) == 2 && strings.TrimSpace(cells[1]) != "" {
				got = append(got, strings.Trim(cells[0], " `"))
			}
		}
		slices.Sort(got)
		if want := fields(t, name); !slices.Equal(got, want) {
			t.Errorf("%s: docs/reference/plan.md has\n%s\nthe schema has\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The tables of fields list every key once.
func TestFieldsInDocs(t *testing.T) {
	for heading, want := range map[string][]string{"## Fields": keys(t, "plan", ""), "## Steps": keys(t, "plan", "step"), "## taskspec.json": keys(t, "taskspec", "")} {
		_, section, _ := strings.Cut(page(t), "\n"+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var got []string
		for row := range strings.Lines(section) {
			cell, _, ok := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
			if ok && strings.HasPrefix(row, "| `") {
				got = append(got, strings.Split(strings.ReplaceAll(cell, "`", ""), ", ")...)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", heading, got, want)
		}
	}
}

// keys returns the properties of a schema, or of one of its definitions.
func keys(t *testing.T, name, def string) (list []string) {
	t.Helper()
	raw, err := templates.Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	type object struct{ Properties map[string]any }
	var s struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	properties := s.Properties
	if def != "" {
		properties = s.Defs[def].Properties
	}
	for key := range properties {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

// The example plan in the prompt of the planner passes the checks.
func TestExampleInPrompt(t *testing.T) {
	prompt, err := templates.Render("plan", map[string]string{"requirement": "r", "name": "n"}, "nonce", templates.Override{})
	if err != nil {
		t.Fatal(err)
	}
	var doc json.RawMessage
	text := prompt.System + prompt.Text
	if err := json.NewDecoder(strings.NewReader(text[strings.Index(text, `{"schema_version"`):])).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	p, problems := plan.Parse(doc)
	if p == nil {
		t.Fatal(told(problems))
	}
	there := func(path string) (bool, error) { return path == "api/list.go", nil }
	spec := &plan.TaskSpec{Acceptance: []string{"GET /items?limit=2 returns two items", "GET /items?limit=-1 answers 400", "fast with a million items"}}
	problems = append(problems, p.Check(plan.Facts{MaxSteps: 20, Exists: there, Missing: missing, Confirmed: &[]string{"go test ./..."}, Spec: spec})...)
	same(t, "the example", told(problems), "")
}
