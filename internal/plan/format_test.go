package plan_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/research"
)

const long = "A summary is a paragraph and longer than a line, so that nothing else has a place beside it."

const untidy = "\ufeff{\"steps\":[{\"command\":\"a\\u0026\\u00e9 <b> é\",\"id\":\"a\",\"timeout_seconds\":1.50e2,\"depends_on\":[]},\n" +
	`{"steps":[{"prompt":"p","llm_as_judge":true,"for_each":["x","y"],"id":"c"}],"id":"b"}],"acceptance":[{"verify":"go test","criterion":"it works"}],` +
	`"vars":{"b":"2","a":"1"},"files":[{"change":"new","path":"x"}],"preconditions":["p",{"command":"ls"}],"title":"T","summary":"` + long + `","schema_version":1,"touches":[]}`

const tidy = `{
  "schema_version": 1,
  "title": "T",
  "summary": "` + long + `",
  "preconditions": ["p", {"command": "ls"}],
  "files": [{"path": "x", "change": "new"}],
  "vars": {"b": "2", "a": "1"},
  "steps": [
    {
      "id": "a",
      "depends_on": [],
      "command": "a\u0026\u00e9 <b> é",
      "timeout_seconds": 1.50e2
    },
    {
      "id": "b",
      "steps": [
        {
          "id": "c",
          "for_each": ["x", "y"],
          "prompt": "p",
          "llm_as_judge": true
        }
      ]
    }
  ],
  "acceptance": [
    {"criterion": "it works", "verify": "go test"}
  ],
  "touches": []
}
`

func TestFormat(t *testing.T) {
	for _, doc := range []string{untidy, tidy} {
		got, err := plan.Format([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tidy {
			t.Errorf("got\n%s\nwant\n%s", got, tidy)
		}
	}
	for doc, want := range map[string]string{
		`{`:                      "laying out a plan: plan.json:1:2: not valid JSON",
		`{"title": "T"}`:         "laying out a plan: plan.json:1: /steps: is missing",
		doc("", `{"id": "A"}`):   "laying out a plan: plan.json:3: /steps/0/id:",
		`{"goal": "executants"}`: "laying out a plan: plan.json:1: /goal:",
	} {
		if got, err := plan.Format([]byte(doc)); got != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

// Format changes the layout of a plan, and nothing else.
func TestFormatLosesNothing(t *testing.T) {
	for _, doc := range []string{full, doc("", step), tidy} {
		got, err := plan.Format([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal([]byte(doc), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &b); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("got %s, want what is in %s", got, doc)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, doc := range []string{full, untidy, doc("\"vars\": {\"a\": null},\n", step), `{"goal": "x"}`, `[[{"a":`, "{\"schema_version\": 7}", doc("", `{"id": "a", "command": "ls {{x}}", "depends_on": ["b"], "repeat": 3}`)} {
		f.Add([]byte(doc))
	}
	none := []string{}
	facts := plan.Facts{MaxSteps: 3, Exists: there, Missing: missing, Confirmed: &none, Spec: &plan.TaskSpec{Acceptance: []string{"paging works"}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, problems := plan.Parse(data)
		if len(data) > 0 && p == nil && len(problems) == 0 {
			t.Fatal("no plan and no reason")
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, found := range problems {
			if found.Line < 1 || found.Line > lines || (p != nil && !found.Warning) {
				t.Fatalf("a problem nowhere: %+v", found)
			}
		}
		if p == nil {
			return
		}
		for _, found := range p.Check(facts) {
			if found.Line < 1 || found.Line > lines || found.Message == "" {
				t.Fatalf("a problem nowhere: %+v", found)
			}
		}
		_, _ = p.Course(), p.Verification()
		once, err := plan.Format(data)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := plan.Parse(once)
		if again == nil || marshal(t, again) != marshal(t, p) {
			t.Fatalf("it is another plan: %s\n%s", once, told(problems))
		}
		if twice, err := plan.Format(once); err != nil || string(twice) != string(once) {
			t.Fatalf("it is laid out in two ways: %v\n%s\n%s", err, once, twice)
		}
	})
}

// FuzzCheck puts any text into the fields of a plan that conforms to its schema.
func FuzzCheck(f *testing.F) {
	f.Add("- a/b.go\n-  \n1. x {{item}}", "go test 'x | y' && (make z) || true", "build/{{v}}.txt", "c_3", 2)
	f.Add("the previous step's output in ~/x.md", "/tmp/x.sh {{gone}}", "../a\\b", "a", 9)
	f.Fuzz(func(t *testing.T, prompt, command, path, id string, n int) {
		value := path
		p := plan.Plan{SchemaVersion: 1, Title: "T", Vars: map[string]*string{"v": &value}, Files: []plan.File{{Path: path, Change: "edit"}}, Touches: []string{path},
			Steps: []plan.Step{
				{ID: id, Title: prompt, Prompt: prompt, Verify: command, Output: "v", Context: []string{"v"}, Covers: []string{prompt}, Repeat: n},
				{ID: "b", Command: command, ForEach: &plan.ForEach{Items: []string{prompt, command}}, DependsOn: &[]string{id}, Proof: &plan.Proof{Type: "file", Path: path}},
				{ID: "c_1", Steps: []plan.Step{{ID: "d", Command: command, Proof: &plan.Proof{Type: "test"}}, {ID: "c_2", Message: prompt, ForEach: &plan.ForEach{Command: command}}}}},
			Acceptance: []plan.Criterion{{Criterion: path, Verify: command, Covers: []string{prompt}}}, Uncovered: []plan.Uncovered{{Item: command, Reason: prompt}}}
		read, problems := plan.Parse([]byte(marshal(t, p)))
		if read == nil {
			if len(problems) == 0 {
				t.Fatal("no plan and no reason")
			}
			return
		}
		commands := []string{command}
		facts := plan.Facts{MaxSteps: 3, Exists: there, Missing: research.Project{Root: ".", LookPath: func(string) error { return nil }}.Missing,
			Confirmed: &commands, Spec: &plan.TaskSpec{Acceptance: []string{prompt, path}}}
		before := marshal(t, read)
		for _, found := range read.Check(facts) {
			if found.Line != 1 || found.Message == "" || found.Pointer == "" {
				t.Fatalf("a problem nowhere: %+v", found)
			}
		}
		if _ = read.Course(); marshal(t, read) != before {
			t.Fatal("a check changed the plan")
		}
	})
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
