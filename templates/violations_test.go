package templates_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/templates"
)

const schema = `{"type":"object","additionalProperties":false,"required":["decision","list"],"properties":{
	"decision":{"type":"string","enum":["accept","reject"]},"list":{"type":"array","minItems":1,"items":{"type":"string","minLength":1}},
	"nested":{"type":"object","additionalProperties":false,"properties":{"a/b":{"type":"number"}}}},
	"if":{"properties":{"decision":{"const":"reject"}}},"then":{"required":["nested"]}}`

func TestViolations(t *testing.T) {
	for doc, want := range map[string][]string{
		`{"decision":"accept","list":["x"]}`:                            nil,
		`{"decision":"maybe","list":[]}`:                                {"/decision: ", "/list: has 0 items"},
		`{"list":["x",""],"more":1}`:                                    {"/decision: is missing", "/list/1: ", "/more: is not a known key"},
		`{"decision":"accept","list":["x"],"nested":{"a/b":"1","c":2}}`: {"/nested/a~1b: ", "/nested/c: is not a known key"},
		`{"decision":"reject","list":["x"]}`:                            {"/: "},
		`{"decision":"reject","list":["x"],"nested":{}}`:                nil,
		`{"decision":null,"list":"x"}`:                                  {"/decision: ", "/list: "},
		`[]`:                                                            {"/: "},
	} {
		got, err := templates.Violations([]byte(schema), []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s: got %q, want %q", doc, got, want)
		}
	}
}
