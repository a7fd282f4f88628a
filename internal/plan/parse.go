package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Parse reads a plan.json and says what is wrong with its JSON, its keys and its values, in the order of the
// file. The plan is nil when one of the problems is an error. What must hold beyond that is for [Plan.Check].
// It is for plans that are being written: [Load] reads YAML and files of other tools too.
func Parse(data []byte) (*Plan, []Problem) {
	d, broken := open(data)
	if broken != nil {
		return nil, []Problem{*broken}
	}
	if f, tool := d.foreign(); f != nil {
		return nil, []Problem{{Pointer: "/" + f.key, Line: f.line, Message: "this is a file of " + tool + ", not a plan.json",
			Hint: `write it as a plan.json: "title" and "steps" with "id" and "prompt" or "command"`}}
	}
	p, problems := d.plan()
	if p != nil {
		p.fillChecks()
	}
	return p, problems
}

// plan is what the document says, nil when it can't be read as that.
func (d *document) plan() (*Plan, []Problem) {
	problems, end := d.version()
	if end {
		return nil, problems
	}
	if wrong := d.wrong("plan"); len(wrong) > 0 {
		return nil, append(problems, wrong...)
	}
	p := &Plan{SchemaVersion: SchemaVersion, lines: d.lines, tool: d.tool, own: d.own}
	if err := json.Unmarshal([]byte(d.text), p); err != nil {
		return nil, append(problems, Problem{Line: d.root.line, Message: err.Error()})
	}
	return p, problems
}

// fillChecks puts the values of vars into what is run whoever does the steps.
func (p *Plan) fillChecks() {
	for i := range p.Preconditions {
		p.Preconditions[i].Command = p.fill(p.Preconditions[i].Command)
	}
	for i := range p.Acceptance {
		p.Acceptance[i].Verify = p.fill(p.Acceptance[i].Verify)
	}
}

// version looks at which version of the format this is. end: it is none that can be read.
func (d *document) version() (problems []Problem, end bool) {
	v := d.root.member("schema_version")
	if v == nil {
		if d.root.open != '{' {
			return nil, false
		}
		return []Problem{{Line: d.root.line, Message: fmt.Sprintf("schema_version is missing: taken for %d", SchemaVersion),
			Hint: fmt.Sprintf(`write "schema_version": %d`, SchemaVersion), Warning: true}}, false
	}
	if n, err := strconv.Atoi(v.node.text); err == nil && n > SchemaVersion {
		return []Problem{{Pointer: "/schema_version", Line: v.line, Message: fmt.Sprintf("is %d, a later version than %d, which this trellis reads", n, SchemaVersion),
			Hint: "use the trellis that wrote it"}}, true
	}
	return nil, false
}

// UnmarshalJSON reads a sentence, or {"command": "…"}.
func (p *Precondition) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.Text) == nil {
		return nil
	}
	var o struct{ Command string }
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("reading precondition: %w", err)
	}
	p.Command = o.Command
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (p Precondition) MarshalJSON() ([]byte, error) {
	if p.Command == "" {
		return json.Marshal(p.Text)
	}
	return json.Marshal(map[string]string{"command": p.Command})
}

// UnmarshalJSON reads a list of items, or a command.
func (f *ForEach) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &f.Command) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &f.Items); err != nil {
		return fmt.Errorf("reading for_each: %w", err)
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (f ForEach) MarshalJSON() ([]byte, error) {
	if f.Command != "" {
		return json.Marshal(f.Command)
	}
	return json.Marshal(slices.Concat([]string{}, f.Items))
}

// placeholder matches {{name}}, and what only looks like it: with a $ before it.
var placeholder = trellis.Pattern(`\$?\{\{[A-Za-z_][A-Za-z0-9_]*\}\}`)

// placeholders are the names between {{ and }} in a text, each once. {{ x }}, ${{x}} and {{.Go}} are none.
func placeholders(text string) (names []string) {
	if !strings.Contains(text, "{{") {
		return nil
	}
	for _, found := range placeholder().FindAllString(text, -1) {
		if name := strings.Trim(found, "{}"); found[0] != '$' && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// fill puts the values of vars into a text.
func (p *Plan) fill(text string) string { return Fill(text, scope{}.into("", p, nil).values) }

// names are a map's keys, sorted.
func names(vars map[string]*string) []string { return slices.Sorted(maps.Keys(vars)) }
