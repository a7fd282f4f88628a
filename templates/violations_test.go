package templates_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/templates"
)

const schema = `{"type":"object","additionalProperties":false,"required":["decision","list"],"properties":{
	"decision":{"type":"string","enum":["accept","reject"]},"list":{"type":"array","minItems":1,"items":{"type":"string","minLength":1}},
	"nested":{"type":"object","additionalProperties":false,"properties":{"a/b":{"type":"number","minimum":1}}},
	"tree":{"$ref":"#/$defs/tree","description":"refers to itself"},
	"either":{"oneOf":[{"type":"array","items":{"$ref":"#/$defs/name"}},{"type":"object","required":["command"],"additionalProperties":false,"properties":{"command":{"type":"string"}}}]},
	"vars":{"type":"object","propertyNames":{"title":"a name","pattern":"^[a-z]+$"},"additionalProperties":{"type":["string","null"]}},
	"names":{"type":"array","uniqueItems":true,"items":{"$ref":"#/$defs/name"}},
	"count":{"type":"integer","exclusiveMinimum":0},"depends_on":{"const":1},"odd":{"not":{"const":"odd"}}},
	"if":{"properties":{"decision":{"const":"reject"}}},"then":{"required":["nested"]},
	"$defs":{"name":{"type":"string","title":"a name of small letters","pattern":"^[a-z]+$"},
	"tree":{"type":"object","additionalProperties":false,"required":["id"],"properties":{"id":{"$ref":"#/$defs/name"},"trees":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}}}`

func TestViolations(t *testing.T) {
	const fine = `{"decision":"accept","list":["x"],`
	for doc, want := range map[string][]string{
		`{"decision":"accept","list":["x"]}`: nil,
		`{"decision":"maybe","list":[]}`:     {`/decision: must be one of accept, reject, not "maybe"`, "/list: has 0 items, must have at least 1"},
		`{"decision":"Accept","list":["x"]}`: {`/decision: must be one of accept, reject, not "Accept"`},
		`{"list":["x",""],"more":1}`: {"/decision: is missing", "/list/1: must have at least 1 characters",
			"/more: is not a known key (known: count, decision, depends_on, "},
		fine + `"nested":{"a/b":"1","c":2}}`:             {"/nested/a~1b: must be a number, not a string", "/nested/c: is not a known key (known: a/b)"},
		fine + `"nested":{"a/b":0.5}}`:                   {"/nested/a~1b: must be at least 1, not 0.5"},
		`{"decision":"reject","list":["x"]}`:             {"/nested: is missing"},
		`{"decision":"reject","list":["x"],"nested":{}}`: nil,
		`{"decision":null,"list":"x"}`:                   {"/decision: must be a string, not null", "/list: must be a list, not a string"},
		`[]`:                                             {"/: must be an object, not a list"},
		`{`:                                              {"/: unexpected EOF"},
		fine + `"dependsOn":1}`:                          {`/dependsOn: is not a known key; did you mean "depends_on"?`},
		fine + `"depnds_on":1}`:                          {`/depnds_on: is not a known key; did you mean "depends_on"?`},
		fine + `"depends_on":1.0}`:                       nil,
		fine + `"depends_on":2}`:                         {"/depends_on: must be 1, not 2"},
		fine + `"tree":{"id":"a","trees":[{"id":"b"}]}}`: nil,
		fine + `"tree":{"id":"a","trees":[{"id":"b"},{"id":"B","tres":[]}]}}`: {`/tree/trees/1/id: "B" must be a name of small letters`,
			`/tree/trees/1/tres: is not a known key; did you mean "trees"?`},
		fine + `"tree":{"trees":[{"trees":[{}]}]}}`:    {"/tree/id: is missing", "/tree/trees/0/id: is missing", "/tree/trees/0/trees/0/id: is missing"},
		fine + `"either":["a"]}`:                       nil,
		fine + `"either":{"command":"ls"}}`:            nil,
		fine + `"either":["a","B"]}`:                   {`/either/1: "B" must be a name of small letters`},
		fine + `"either":{"command":1,"cwd":""}}`:      {"/either/command: must be a string, not 1", "/either/cwd: is not a known key (known: command)"},
		fine + `"either":7}`:                           {"/either: must be a list or an object, not 7"},
		fine + `"either":null}`:                        {"/either: must be a list or an object, not null"},
		fine + `"vars":{"a":null,"b":"x"}}`:            nil,
		fine + `"vars":{"a":8080,"B":""}}`:             {`/vars/B: "B" can't be a key here: it must be a name`, "/vars/a: must be a string or null, not 8080"},
		fine + `"names":["a","b","a"]}`:                {`/names/2: "a" is in the list twice`},
		fine + `"names":["a"," "]}`:                    {"/names/1: is blank"},
		fine + `"count":1.5}`:                          {"/count: must be a whole number, not 1.5"},
		fine + `"count":99999999999999999999}`:         {"/count: must be a whole number, not 99999999999999999999"},
		fine + `"count":0}`:                            {"/count: must be more than 0, not 0"},
		fine + `"nested":{"a/b":1e999}}`:               {"/nested/a~1b: 1e999 is too large"},
		fine + `"odd":"odd"}`:                          {"/: not: "},
		fine + `"odd":{"any":["thing",{"at":"all"}]}}`: nil,
	} {
		got, err := templates.Violations([]byte(schema), []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s:\ngot  %q\nwant %q", doc, got, want)
		}
	}
}

func TestViolationsOfABrokenSchema(t *testing.T) {
	for _, schema := range []string{`[`, `{"properties":{"a":{"$ref":"#/$defs/gone"}}}`, `{"properties":{"a":{"pattern":"("}}}`} {
		if _, err := templates.Violations([]byte(schema), []byte(`{"a":"b"}`)); err == nil {
			t.Errorf("%s: got no error", schema)
		}
	}
}

func TestViolationsAreFew(t *testing.T) {
	doc := `{"decision":"accept","list":[` + strings.Repeat("1,", 99) + `1]}`
	if got, err := templates.Violations([]byte(schema), []byte(doc)); err != nil || len(got) != 20 {
		t.Errorf("got %d problems, want 20 (%v)", len(got), err)
	}
}

// If a judge contradicts itself, the problem does not say which half of the answer to change.
func TestViolationsOfAContradiction(t *testing.T) {
	raw, err := templates.Schema("judge")
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string][]string{
		`{"pass":false,"feedback":"a","criteria":{"verification":true,"atomicity":true,"coverage":true,"vars":true}}`: {"/pass: must be true exactly when all four criteria are, not false"},
		`{"pass":true,"feedback":"a","criteria":{"verification":true,"atomicity":false,"coverage":true,"vars":true}}`: {"/pass: must be true exactly when all four criteria are, not true"},
		`{"pass":true,"feedback":"","criteria":{"verification":true,"atomicity":false,"coverage":true,"vars":true}}`:  {"/feedback: is blank", "/pass: must be true exactly when all four criteria are, not true"},
	} {
		if got, err := templates.Violations(raw, []byte(doc)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", doc, got, err, want)
		}
	}
}
