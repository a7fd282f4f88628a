package templates_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/trellis-tasks/trellis/templates"
)

func resolve(t *testing.T, raw json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func valid(t *testing.T, r *jsonschema.Resolved, doc string) error {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return r.Validate(v)
}

func criteria(verification, vars string) string {
	return `{"verification":` + verification + `,"atomicity":true,"coverage":true,"vars":` + vars + `}`
}

func TestSchemas(t *testing.T) {
	const prd = `{"title":"T","summary":"S","requirements":["R"],"acceptance":[{"criterion":"C"}]`
	for _, tt := range []struct {
		schema, doc string
		ok          bool
	}{
		{"evaluate", `{"decision":"accept","category":"","details":"","suggestions":[],"size":"small","confidence":0.5}`, true},
		{"evaluate", `{"decision":"accept","size":"tiny"}`, true},
		{"evaluate", `{"decision":"accept","size":"tiny","suggestions":[""]}`, true},
		{"evaluate", `{"decision":"accept"}`, false},
		{"evaluate", `{"decision":"accept","category":"unclear","size":"tiny"}`, false},
		{"evaluate", `{"decision":"reject","category":"unclear","details":"what?","suggestions":["say which"],"size":"small","confidence":1}`, true},
		{"evaluate", `{"decision":"reject","category":"too_large","details":"d","suggestions":["s"]}`, true},
		{"evaluate", `{"decision":"reject","category":"","details":"d","suggestions":["s"]}`, false},
		{"evaluate", `{"decision":"reject","category":"vague","details":"d","suggestions":["s"]}`, false},
		{"evaluate", `{"decision":"reject","category":"harmful","details":" ","suggestions":["s"]}`, false},
		{"evaluate", `{"decision":"reject","category":"harmful","details":"d","suggestions":[]}`, false},
		{"evaluate", `{"decision":"reject","category":"harmful","details":"d","suggestions":[" "]}`, false},
		{"evaluate", `{"decision":"maybe","size":"tiny"}`, false},
		{"evaluate", `{"decision":"accept","size":"tiny","confidence":1.5}`, false},
		{"evaluate", `{"decision":"accept","size":"tiny","why":"x"}`, false},
		{"evaluate", `{}`, false},
		{"evaluate", `[]`, false},
		{"prd", prd + `}`, true},
		{"prd", prd + `,"technical_notes":"","out_of_scope":[]}`, true},
		{"prd", prd + `,"technical_notes":["a"]}`, false},
		{"prd", prd + `,"notes":""}`, false},
		{"prd", `{"title":"T\nU","summary":"S","requirements":["R"],"acceptance":[{"criterion":"C"}]}`, false},
		{"prd", `{"title":"T","summary":"S","requirements":[],"acceptance":[{"criterion":"C"}]}`, false},
		{"prd", `{"title":"T","summary":"S","requirements":["R"],"acceptance":[]}`, false},
		{"prd", `{"title":"T","summary":"S","requirements":["R"],"acceptance":[{"criterion":"C","verify":"make test","level":"should"}]}`, true},
		{"prd", `{"title":"T","summary":"S","requirements":["R"],"acceptance":[{"criterion":"C","verify":null}]}`, true},
		{"prd", `{"title":"T","summary":"S","requirements":["R"],"acceptance":[{"criterion":"C","verify":"a\nb"}]}`, false},
		{"prd", `{"title":"T","summary":"S","requirements":["R"],"acceptance":[{"criterion":"C","level":"may"}]}`, false},
		{"prd", `{"title":"T","summary":"S","requirements":["R"],"acceptance":[{"verify":"x"}]}`, false},
		{"judge", `{"feedback":"","criteria":` + criteria("true", "true") + `,"pass":true}`, true},
		{"judge", `{"pass":true,"criteria":` + criteria("true", "true") + `}`, true},
		{"judge", `{"pass":false,"feedback":"a: no check","criteria":` + criteria("false", "true") + `}`, true},
		{"judge", `{"pass":false,"feedback":" \n","criteria":` + criteria("false", "true") + `}`, false},
		{"judge", `{"pass":false,"criteria":` + criteria("false", "true") + `}`, false},
		{"judge", `{"pass":false,"feedback":"a","criteria":` + criteria("true", "true") + `}`, false},
		{"judge", `{"pass":true,"feedback":"","criteria":` + criteria("true", "false") + `}`, false},
		{"judge", `{"pass":true,"feedback":"","criteria":{"verification":true,"atomicity":true,"coverage":true}}`, false},
		{"judge", `{"pass":true,"feedback":"","criteria":{"verification":true,"atomicity":true,"coverage":true,"vars":true,"taste":true}}`, false},
		{"judge", `{"pass":"yes","feedback":"","criteria":` + criteria("true", "true") + `}`, false},
		{"judge", `{"pass":true,"feedback":""}`, true}, // edge C11: a verdict as executant has it
		{"judge", `{"pass":true}`, true},
		{"judge", `{"pass":false,"feedback":"a: no check"}`, true},
		{"judge", `{"pass":false,"feedback":" "}`, false},
		{"judge", `{"pass":false}`, false},
		{"judge", `{"pass":true,"feedback":"","reasoning":"","criteria":` + criteria("true", "true") + `}`, false},
		{"accept", `{"criteria":[]}`, true},
		{"accept", `{"criteria":[{"id":"A1","verdict":"met","evidence":"e"}]}`, true},
		{"accept", `{"criteria":[{"id":"A1","verdict":"unknown"}]}`, true},
		{"accept", `{"criteria":[{"id":"A1","verdict":"pass"}]}`, false},
		{"accept", `{"criteria":[{"id":"A1","verdict":"met","note":"x"}]}`, false},
		{"accept", `{}`, false},
		{"grade", `{"reasoning":"all there","feedback":"","pass":true}`, true},
		{"grade", `{"reasoning":"a is missing","feedback":"add a","pass":false}`, true},
		{"grade", `{"reasoning":"a is missing","feedback":" \n","pass":false}`, false},
		{"grade", `{"reasoning":"a is missing","pass":false}`, false},
		{"grade", `{"reasoning":" ","feedback":"add a","pass":false}`, false},
		{"grade", `{"feedback":"","pass":true}`, false},
		{"grade", `{"reasoning":"r","feedback":"","pass":"true"}`, false},
		{"grade", `{"reasoning":"r","feedback":null,"pass":true}`, false},
		{"grade", `{"reasoning":"r","feedback":"","pass":true,"score":9}`, false},
		{"grade", `{}`, false},
	} {
		raw, err := templates.Schema(tt.schema)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, resolve(t, raw), tt.doc); (err == nil) != tt.ok {
			t.Errorf("%s %s: got %v, want valid: %v", tt.schema, tt.doc, err, tt.ok)
		}
	}
	if _, err := templates.Schema("../templates"); !errors.Is(err, templates.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}

// The examples that the prompts show are valid by the schemas.
func TestExamplesInPromptsAreValid(t *testing.T) {
	for _, name := range []string{"evaluate", "taskspec", "plan", "prd", "judge", "accept", "grade"} {
		raw, err := templates.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		p := render(t, name, sample(t, name))
		_, said, _ := strings.Cut(p.System+p.Text, "Answer with one JSON object")
		var example json.RawMessage
		if err := json.NewDecoder(strings.NewReader(said[strings.Index(said, "\n{"):])).Decode(&example); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if problems, err := templates.Violations(raw, example); len(problems) > 0 || err != nil {
			t.Errorf("%s: %q, %v", name, problems, err)
		}
		if schema := native(t, name); schema != nil {
			if err := valid(t, resolve(t, schema), string(example)); err != nil {
				t.Errorf("%s, native: %v", name, err)
			}
		}
	}
}

func native(t *testing.T, name string) json.RawMessage {
	t.Helper()
	raw, err := templates.StructuredOutputSchema(name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestNativeSchemasAreWhatProvidersTake(t *testing.T) {
	const want = `{"type":"object","additionalProperties":false,"required":["criteria"],"properties":{"criteria":{"type":"array","items":` +
		`{"type":"object","additionalProperties":false,"required":["id","verdict","evidence"],"properties":{"id":{"type":"string"},` +
		`"verdict":{"type":"string","enum":["met", "unmet", "unknown"]},"evidence":{"type":"string"}}}}}}`
	if got := string(native(t, "accept")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, name := range []string{"taskspec", "plan"} { // params takes any keys, and steps have steps
		if got := native(t, name); got != nil {
			t.Errorf("%s: got %s, want nothing", name, got)
		}
	}
	for _, name := range []string{"evaluate", "prd", "judge", "accept", "grade"} {
		var v any
		if err := json.Unmarshal(native(t, name), &v); err != nil {
			t.Fatal(err)
		}
		everyObject(v, func(o map[string]any) {
			props, ok := o["properties"].(map[string]any)
			if !ok {
				return
			}
			if len(o["required"].([]any)) != len(props) || o["additionalProperties"] != false {
				t.Errorf("%s: an object is not closed: %v", name, o)
			}
		})
		for _, word := range []string{"pattern", "minItems", `"if"`, "minimum", "$schema"} {
			if strings.Contains(string(native(t, name)), word) {
				t.Errorf("%s: %s is not for every provider", name, word)
			}
		}
	}
}

func everyObject(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, e := range v {
			everyObject(e, visit)
		}
	case []any:
		for _, e := range v {
			everyObject(e, visit)
		}
	}
}
